"""A program, and its tests, with a broker of their own."""

import json

from ottla.client import AsyncConsumer, AsyncProducer, Consumer, Producer


class Shop:
    """The program: announces orders, and answers payments. Any other Kafka client would do as well."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def order(self, *articles: str) -> None:
        with Producer(
            self.bootstrap_servers, value_serializer=lambda each: json.dumps(each).encode()
        ) as producer:
            for article in articles:
                producer.send("orders", {"article": article}, key=b"customer-1")

    def ship_paid(self) -> None:
        with (
            Consumer(
                self.bootstrap_servers, group_id="shop", topics="payments", auto_offset_reset="earliest"
            ) as consumer,
            Producer(self.bootstrap_servers) as producer,
        ):
            producer.send("parcels", consumer.getone(timeout_ms=10_000).value)


def test_orders_are_announced(ottla_broker):
    Shop(ottla_broker.bootstrap_servers).order("tea", "milk")
    ottla_broker.topic("orders").assert_received({"article": "tea"}, {"article": "milk"}, decode=json.loads)


def test_what_is_paid_is_shipped(ottla_broker):
    ottla_broker.topic("payments").send("tea")
    Shop(ottla_broker.bootstrap_servers).ship_paid()
    ottla_broker.topic("parcels").assert_received("tea")


def test_orders_survive_the_death_of_a_broker(ottla_cluster):
    cluster = ottla_cluster(3)
    cluster.create_topic("orders")
    shop = Shop(cluster.bootstrap_servers)
    shop.order("tea")
    dead = cluster.kill(leader_of="orders")
    shop.order("milk")
    cluster.start(dead)
    cluster.topic("orders").assert_received({"article": "tea"}, {"article": "milk"}, decode=json.loads)


async def test_coroutines_too(ottla_broker):  # with pytest-asyncio (asyncio_mode=auto)
    async with AsyncProducer(ottla_broker.bootstrap_servers) as producer:
        await producer.send("orders", b"tea")
        await ottla_broker.topic("orders").assert_received_async(b"tea")
    async with AsyncConsumer(
        ottla_broker.bootstrap_servers, group_id="shop", topics="orders", auto_offset_reset="earliest"
    ) as consumer:
        assert (await consumer.getone(timeout_ms=10_000)).value == b"tea"
