"""Long-lived clients of this package, and brokers that die, come late, or all come back."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.client import Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer, TimedOut
from ottla.common.ids import TopicPartition
from ottla.testing.local_cluster import LocalCluster


def test_an_admin_client_continues_after_the_controllers_death():
    with LocalCluster(3) as cluster, Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic("before", partitions=3)
        for _ in range(2):
            dead = cluster.kill(cluster.controller())
            admin.alter_topic_configs("before", set_to={"retention.ms": str(dead)})
            admin.create_topic(f"after-{dead}", replication_factor=1)
            assert dead not in admin.describe_cluster().alive
            assert admin.list_reassignments() == {}
            admin.elect_leaders([TopicPartition("before", 0)])
            admin.delete_topic(f"after-{dead}")
            cluster.start(dead)


def test_clients_may_be_there_before_the_brokers():
    with LocalCluster(1) as cluster, ThreadPoolExecutor() as threads:
        cluster.kill(1)
        where = cluster.bootstrap_servers
        with (
            Admin(where) as admin,
            Producer(where) as producer,
            Consumer(where, group_id="g", topics="orders", auto_offset_reset="earliest") as consumer,
        ):
            creating = threads.submit(admin.create_topic, "orders")
            sending = threads.submit(producer.send, "late", b"1")
            cluster.start(1)
            assert creating.result().name == "orders"
            assert sending.result().result().offset == 0
            producer.send("orders", b"2").result()
            assert consumer.getone(timeout_ms=30_000).value == b"2"


async def test_clients_for_asyncio_continue_after_all_brokers_were_away():
    with LocalCluster(3, settings={"num.partitions": "1"}) as cluster:
        where = cluster.bootstrap_servers
        cluster.create_topic("orders")
        async with (
            AsyncAdmin(where) as admin,
            AsyncProducer(where) as producer,
            AsyncConsumer(where, group_id="g", topics="orders", auto_offset_reset="earliest") as consumer,
        ):
            await producer.send_and_wait("orders", b"1")
            assert (await consumer.getone(timeout_ms=30_000)).value == b"1"
            await asyncio.to_thread(cluster.wait_until_in_sync)
            for node_id in cluster.running:
                await asyncio.to_thread(cluster.kill, node_id)
            configs = asyncio.create_task(admin.alter_topic_configs("orders", set_to={"retention.ms": "-1"}))
            sent = await producer.send("orders", b"2")
            for node_id in cluster.node_ids:
                await asyncio.to_thread(cluster.start, node_id)
            await configs
            await sent
            assert (await consumer.getone(timeout_ms=30_000)).value == b"2"
            await consumer.commit()
            assert await admin.group_offsets("g") != {}


def test_calls_end_in_time_while_every_broker_is_away():
    with LocalCluster(1) as cluster:
        cluster.create_topic("orders")
        where = cluster.bootstrap_servers
        limits = {"default_api_timeout_ms": 300}
        with (
            Admin(where, **limits) as admin,
            Producer(where, max_block_ms=300) as producer,
            Consumer(where, group_id="g", **limits) as consumer,
        ):
            admin.list_topics()
            cluster.kill(1)
            partition = TopicPartition("orders", 0)
            for call in (
                lambda: admin.create_topic("more"),
                admin.describe_cluster,
                lambda: admin.group_lag("g"),
                lambda: admin.topic_configs("orders"),
                admin.describe_log_dirs,
                lambda: admin.reassign({partition: [1]}),
                lambda: producer.send("other", b"1"),
                lambda: producer.partitions_for("other"),
                consumer.topics,
                lambda: consumer.partitions_for_topic("orders"),
                lambda: consumer.end_offsets([partition]),
                lambda: consumer.committed([partition]),
            ):
                with pytest.raises(TimedOut, match=r"within 0\.3 s"):
                    call()
