"""The brokers that tests run inside their own process."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import AsyncConsumer, AsyncProducer, Producer
from ottla.testing.local_broker import OttlaBroker
from ottla.testing.local_cluster import LocalCluster

START_WITHIN_S = 0.05


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as running:
        yield running


def open_sockets() -> int:
    links = Path("/proc/self/fd")
    return sum(_target(links / each).startswith("socket:") for each in os.listdir(links))


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def test_a_broker_is_up_within_50_ms_of_the_import() -> None:
    took = []
    for _ in range(5):
        began = time.perf_counter()
        with OttlaBroker() as broker:
            took.append(time.perf_counter() - began)
            assert broker.running == [1]
    assert min(took) < START_WITHIN_S


def test_nothing_is_left_when_a_cluster_is_closed() -> None:
    gc.collect()
    threads, sockets = set(threading.enumerate()), open_sockets()
    with LocalCluster(3) as cluster:
        cluster.create_topic("orders", partitions=3).send(b"1", b"2")
        cluster.kill(2)
        cluster.topic("orders").records(at_least=2)
        folder = cluster._folder
        assert folder is not None
        assert folder.exists()
    gc.collect()
    assert set(threading.enumerate()) == threads
    assert open_sockets() == sockets
    assert not folder.exists()


def test_files_in_a_folder_of_the_user_stay(tmp_path: Path) -> None:
    with OttlaBroker(folder=tmp_path) as broker:
        broker.topic("orders").send(b"1")
    with OttlaBroker(folder=tmp_path / "other") as broker:
        assert broker.topic("orders").records() == []
    assert (tmp_path / "broker-1" / "orders-0").is_dir()


def test_settings_may_be_written_with_dots_or_underscores() -> None:
    with OttlaBroker(settings={"num.partitions": 2}, auto_create_topics_enable=True) as broker:
        broker.topic("orders").send(b"1", partition=1)
        assert [each.partition for each in broker.topic("orders").records()] == [1]


def test_records_come_with_all_that_was_sent(broker: OttlaBroker) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        producer.send("whole", b"tea", key=b"k", headers=[("h", b"1")]).result(10)
    (record,) = broker.topic("whole").records()
    assert (record.key, record.value, record.headers, record.offset) == (b"k", b"tea", (("h", b"1"),), 0)


def test_a_topic_that_does_not_exist_has_no_records(broker: OttlaBroker) -> None:
    assert broker.topic("nowhere").records() == []


def test_assert_received_waits_for_records(broker: OttlaBroker) -> None:
    topic = broker.topic("late")
    sender = threading.Timer(0.2, topic.send, ["1", "2"])
    sender.start()
    topic.assert_received("1", b"2")
    sender.join()


def test_assert_received_shows_what_is_missing_and_what_is_too_much(broker: OttlaBroker) -> None:
    topic = broker.create_topic("wrong")
    topic.send("a", "b", "x")
    with pytest.raises(AssertionError) as failure:
        topic.assert_received("a", "b", "c", timeout_s=0.1)
    assert str(failure.value).splitlines() == [
        "topic 'wrong' received 3 records, not the 3 expected",
        "  - expected, not received;  + received, not expected",
        "  [0:0] b'a'",
        "  [0:1] b'b'",
        "- b'c'",
        "+ [0:2] b'x'",
    ]
    with pytest.raises(AssertionError, match=r"received 3 records within 0.1 s, not the 4 expected"):
        topic.assert_received("a", "b", "x", "y", timeout_s=0.1)
    with pytest.raises(AssertionError, match=r"\+ \[0:2\] b'x'"):
        topic.assert_received("a", "b")


def test_order_counts_unless_it_need_not(broker: OttlaBroker) -> None:
    topic = broker.create_topic("ordered")
    topic.send("a", "b")
    topic.assert_received("b", "a", any_order=True)
    with pytest.raises(AssertionError):
        topic.assert_received("b", "a")


def test_records_of_several_partitions_may_come_in_any_order(broker: OttlaBroker) -> None:
    topic = broker.create_topic("spread", partitions=2)
    topic.send("b", partition=1)
    topic.send("a", partition=0)
    topic.assert_received("b", "a")


def test_keys_and_decoded_values_are_compared(broker: OttlaBroker) -> None:
    topic = broker.create_topic("decoded")
    topic.send('{"id": 1}', key=b"k")
    topic.assert_received({"id": 1}, decode=json.loads)
    topic.assert_received((b"k", {"id": 1}), decode=json.loads)
    with pytest.raises(AssertionError, match=r"- b'other': \{'id': 1\}"):
        topic.assert_received(("other", {"id": 1}), decode=json.loads)


def test_nothing_received_is_asserted_too(broker: OttlaBroker) -> None:
    topic = broker.create_topic("empty")
    topic.assert_received(timeout_s=0.05)
    topic.send("a")
    with pytest.raises(AssertionError, match="received 1 records"):
        topic.assert_received(timeout_s=0.05)


def test_records_of_a_transaction_are_seen_when_it_is_committed(broker: OttlaBroker) -> None:
    topic = broker.create_topic("atomic")
    with Producer(broker.bootstrap_servers, transactional_id="t") as producer:
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send("atomic", b"never").result(10)
            raise ZeroDivisionError
        with producer.transaction():
            producer.send("atomic", b"1").result(10)
            assert topic.records() == []
            assert len(topic.records(uncommitted=True)) == 2
    topic.assert_received(b"1")


def test_a_cluster_continues_without_the_leader_that_was_killed() -> None:
    with LocalCluster(3) as cluster, Producer(cluster.bootstrap_servers, retry_backoff_ms=20) as producer:
        topic = cluster.create_topic("orders")
        producer.send("orders", b"1").result(10)
        dead = cluster.kill(leader_of="orders")
        assert dead not in cluster.running
        producer.send("orders", b"2").result(20)
        assert cluster.leader_of("orders") != dead
        cluster.start(dead)
        cluster.wait_until_in_sync()
        cluster.stop(cluster.leader_of("orders"))
        producer.send("orders", b"3").result(20)
        topic.assert_received(b"1", b"2", b"3")


def test_the_controller_may_be_killed() -> None:
    with LocalCluster(3) as cluster:
        dead = cluster.kill(cluster.controller())
        assert cluster.controller() != dead
        cluster.create_topic("after", replication_factor=2).send(b"1")
        cluster.topic("after").assert_received(b"1")


def test_a_broker_that_was_killed_returns_with_its_records() -> None:
    with OttlaBroker() as broker:
        broker.topic("orders").send("1")
        address = broker.bootstrap_servers
        broker.kill()
        assert broker.running == []
        broker.start()
        broker.restart()
        assert broker.bootstrap_servers == address
        broker.topic("orders").assert_received("1")


def test_mistakes_are_explained() -> None:
    with LocalCluster(2) as cluster:
        with pytest.raises(ValueError, match="broker 1 is running"):
            cluster.start(1)
        with pytest.raises(ValueError, match="there is no broker 3: they are 1, 2"):
            cluster.start(3)
        with pytest.raises(ValueError, match="leader_of=TOPIC"):
            cluster.kill()
        cluster.kill(1)
        with pytest.raises(ValueError, match="broker 1 is not running; these are: 2"):
            cluster.kill(1)


async def test_a_test_that_is_a_coroutine_lets_its_own_client_continue(broker: OttlaBroker) -> None:
    async with AsyncProducer(broker.bootstrap_servers, linger_ms=50) as producer:
        sent = asyncio.ensure_future(producer.send("async", b"1"))
        await broker.topic("async").assert_received_async(b"1")
        await sent
    assert [each.value for each in await broker.topic("async").records_async()] == [b"1"]
    async with AsyncConsumer(
        broker.bootstrap_servers, group_id="g", topics="async", auto_offset_reset="earliest"
    ) as consumer:
        assert (await consumer.getone(timeout_ms=10_000)).value == b"1"
