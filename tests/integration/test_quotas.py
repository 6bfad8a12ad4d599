"""Quotas with unmodified clients: everything arrives, throttled, and others are not affected."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, Producer

from ottla.client import Admin
from ottla.client import Producer as OttlaProducer
from ottla.protocol.errors import InvalidRequest, ThrottlingQuotaExceeded
from ottla.testing.local_broker import OttlaBroker

VALUE = bytes(60_000)
COUNT = 10
QUOTA = 300_000  # 600 kB at 300 kB/s, of which one second is free: about one second


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as started:
        yield started


@pytest.fixture
def admin(broker: OttlaBroker) -> Iterator[Admin]:
    with Admin(broker.bootstrap_servers) as connected:
        yield connected


def with_confluent(address: str, topic: str, client_id: str) -> int:
    throttled: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": address,
            "client.id": client_id,
            "batch.size": 70_000,
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    for _ in range(COUNT):
        producer.produce(topic, VALUE, partition=0)
    assert producer.flush(30) == 0
    assert throttled, "librdkafka reports the throttle time"
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "client.id": client_id,
            "group.id": topic,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    received = 0
    while received < COUNT:
        for message in consumer.consume(COUNT, timeout=10):
            assert message.error() is None
            received += 1
    consumer.close()
    return received


def with_kafka_python(address: str, topic: str, client_id: str) -> int:
    producer = kafka.KafkaProducer(bootstrap_servers=address, client_id=client_id, batch_size=70_000)
    for future in [producer.send(topic, VALUE, partition=0) for _ in range(COUNT)]:
        future.get(30)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=address,
        client_id=client_id,
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    received = 0
    for _ in consumer:
        received += 1
        if received == COUNT:
            break
    consumer.close()
    return received


def with_aiokafka(address: str, topic: str, client_id: str) -> int:
    async def run() -> int:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=address, client_id=client_id, max_batch_size=70_000
        ) as producer:
            for _ in range(COUNT):
                await producer.send_and_wait(topic, VALUE, partition=0)
        received = 0
        async with aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=address, client_id=client_id, auto_offset_reset="earliest"
        ) as consumer:
            while received < COUNT:
                await asyncio.wait_for(consumer.getone(), 20)
                received += 1
        return received

    return asyncio.run(run())


@pytest.mark.parametrize("library", [with_confluent, with_kafka_python, with_aiokafka])
def test_a_throttled_client_sends_and_receives_everything(
    broker: OttlaBroker, admin: Admin, library: Callable[[str, str, str], int]
) -> None:
    name = library.__name__
    admin.create_topic(name, partitions=1)
    admin.alter_quotas({"client-id": name}, set_to={"producer_byte_rate": QUOTA, "consumer_byte_rate": QUOTA})
    assert library(broker.bootstrap_servers, name, name) == COUNT


def test_quotas_outlive_a_restart_and_are_removed(admin: Admin) -> None:
    entity = {"user": None, "client-id": "restarted"}
    with OttlaBroker() as own:
        with Admin(own.bootstrap_servers) as own_admin:
            own_admin.alter_quotas(entity, set_to={"producer_byte_rate": 5})
        own.restart()
        with Admin(own.bootstrap_servers) as own_admin:
            (found,) = own_admin.list_quotas(entity, strict=True)
            assert (found.entity, found.quotas) == (entity, {"producer_byte_rate": 5})
            assert own_admin.list_quotas(types=["ip"]) == []
            own_admin.alter_quotas(entity, unset=["producer_byte_rate"])
            assert own_admin.list_quotas() == []
    with pytest.raises(InvalidRequest, match="no_such_quota"):
        admin.alter_quotas({"user": "alice"}, set_to={"no_such_quota": 1}, validate_only=True)


def test_topics_over_the_quota_of_changes_are_refused(broker: OttlaBroker) -> None:
    with Admin(broker.bootstrap_servers, client_id="creator") as creator:
        creator.alter_quotas({"client-id": "creator"}, set_to={"controller_mutation_rate": 0.5})
        creator.create_topic("many", partitions=20)
        with pytest.raises(ThrottlingQuotaExceeded):
            creator.create_topic("more", partitions=1)
    with Admin(broker.bootstrap_servers, client_id="other") as other:
        other.create_topic("more", partitions=1)


def test_a_client_that_is_over_its_quota_does_not_slow_others_down(broker: OttlaBroker, admin: Admin) -> None:
    admin.create_topic("shared", partitions=1)
    admin.alter_quotas({"client-id": "greedy"}, set_to={"producer_byte_rate": 1_000})
    statistics: list[dict[str, float]] = []
    greedy = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": "greedy",
            "batch.size": 70_000,
            "statistics.interval.ms": 50,
            "stats_cb": lambda text: statistics.append(_throttle(text)),
        }
    )
    for _ in range(20):
        greedy.produce("shared", VALUE, partition=0)
    while not any(each["max"] > 0 for each in statistics):
        greedy.poll(0.05)
    # It is throttled for a minute, and this one is served meanwhile.
    with OttlaProducer(broker.bootstrap_servers, client_id="polite") as polite:
        for _ in range(100):
            polite.send("shared", b"value", partition=0).result(10)
    assert len(greedy) > 0, "it still waits"
    greedy.purge()


def _throttle(text: str) -> dict[str, float]:
    brokers = json.loads(text)["brokers"].values()
    return {"max": max(each["throttle"]["max"] for each in brokers)}
