"""Our consumer in the hands of somebody who uses it wrongly or is slow: nothing is lost, nothing hangs."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time

import pytest

from ottla.client import Admin, AsyncConsumer, Consumer, Producer, RebalanceListener, TopicPartition
from ottla.client.consumer import CommitFailed, WrongUse
from ottla.common.tasks import cancel_and_wait
from ottla.protocol.errors import FencedInstanceId
from ottla.testing.local_broker import OttlaBroker

SOON_S = 30
SOON_MS = SOON_S * 1000
PLACE = TopicPartition("tens", 0)
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
}
PROTOCOLS = ["classic", "consumer"]

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker():
    with OttlaBroker(settings=SETTINGS) as running:
        running.topic("tens").send(*(str(number) for number in range(10)))
        yield running


@pytest.fixture
def group(broker):
    """What makes a consumer in a group of its own."""
    name = f"group-{next(_numbers)}"
    return {"bootstrap_servers": broker.bootstrap_servers, "group_id": name, "auto_offset_reset": "earliest"}


def committed(group):
    with Consumer(**group) as consumer:
        found = consumer.committed([PLACE])[PLACE]
    return None if found is None else found.offset


class Boom(Exception):
    """What goes wrong in an application."""


def test_records_of_a_block_that_failed_are_read_again(group):
    with pytest.raises(Boom), Consumer(**group, topics="tens") as consumer:
        for record in consumer:
            if record.offset == 3:
                raise Boom
    assert committed(group) is None
    with Consumer(**group, topics="tens") as consumer:
        assert consumer.getone(timeout_ms=SOON_MS).offset == 0
    assert committed(group) == 1


async def test_records_of_an_asynchronous_block_that_failed_are_read_again(group):
    with pytest.raises(Boom):
        async with AsyncConsumer(**group, topics="tens") as consumer:
            assert await consumer.getmany(timeout_ms=SOON_MS)
            raise Boom
    assert await asyncio.to_thread(committed, group) is None


async def test_who_is_interrupted_while_it_waits_has_dealt_with_the_rest(group):
    has_seen_all = asyncio.Event()

    async def work():
        async with AsyncConsumer(**group, topics="tens") as consumer:
            async for record in consumer:
                if record.offset == 9:
                    has_seen_all.set()

    working = asyncio.create_task(work())
    async with asyncio.timeout(SOON_S):
        await has_seen_all.wait()  # it goes on to wait for more before we are woken
    await cancel_and_wait(working)
    assert await asyncio.to_thread(committed, group) == 10


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_who_was_shut_out_of_its_group_commits_nothing(broker, group, protocol):
    quick = {"max_poll_interval_ms": 300, "heartbeat_interval_ms": 50, "auto_commit_interval_ms": 50}
    with Consumer(**group, **quick, topics="tens", group_protocol=protocol) as slow:
        assert slow.poll(SOON_MS)
        signed = slow.group_metadata()
        with Admin(broker.bootstrap_servers) as admin:
            deadline = time.monotonic() + SOON_S
            while admin.describe_group(group["group_id"]).members:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        with pytest.raises(CommitFailed, match="the group has rebalanced"):
            slow.commit()
        assert slow.group_metadata() == signed  # so that its transactions are refused as well
        slow.commit_async()
    assert committed(group) is None


def test_a_consumer_whose_name_somebody_else_has_taken_gets_an_error(group):
    static = {**group, "group_instance_id": "one", "topics": "tens"}
    with Consumer(**static) as first, Consumer(**static) as second:
        assert first.poll(SOON_MS)
        assert second.poll(SOON_MS)
        with pytest.raises(FencedInstanceId, match="another consumer has our group_instance_id, 'one'"):
            first.commit()


@pytest.mark.parametrize("call", [lambda c: c.poll(100), Consumer.close])
def test_a_listener_that_would_wait_for_itself_gets_an_error(group, call):
    class Asks(RebalanceListener):
        def on_partitions_assigned(self, partitions):
            call(consumer)

    with Consumer(**group) as consumer:
        consumer.subscribe("tens", listener=Asks())
        with pytest.raises(WrongUse, match="a rebalance listener cannot"):
            consumer.poll(SOON_MS)
        assert consumer.poll(SOON_MS)


async def test_a_coroutine_of_a_listener_that_would_wait_for_itself_gets_an_error(group):
    class Asks(RebalanceListener):
        async def on_partitions_assigned(self, partitions):
            await consumer.getone()

    async with AsyncConsumer(**group) as consumer:
        consumer.subscribe("tens", listener=Asks())
        with pytest.raises(WrongUse, match="a rebalance listener cannot poll"):
            await consumer.getmany(timeout_ms=SOON_MS)


def test_calls_end_in_time_though_a_listener_does_not_and_hand_out_nothing(group):
    is_called, may_end = threading.Event(), threading.Event()

    class Slow(RebalanceListener):
        def on_partitions_assigned(self, partitions):
            is_called.set()
            assert may_end.wait(SOON_S)

    with Consumer(**group) as consumer:
        consumer.subscribe("tens", listener=Slow())
        while not is_called.is_set():
            assert consumer.poll(50) == {}
        assert consumer.poll(50) == {}
        assert consumer.poll_arrow(50).num_rows == 0
        may_end.set()
        assert consumer.poll(SOON_MS)


def test_a_callback_of_a_commit_that_fails_is_reported_and_the_next_one_is_called(group, caplog):
    called = threading.Event()
    with Consumer(**group, topics="tens") as consumer:
        assert consumer.poll(SOON_MS)
        consumer.commit_async(on_done=lambda offsets, error: 1 / 0)
        consumer.commit_async(on_done=lambda offsets, error: called.set())
        assert called.wait(SOON_S)
    assert "the on_done callback of a commit failed" in caplog.text


def test_who_reads_nothing_gets_an_error(group):
    with Consumer(**group) as consumer:
        with pytest.raises(WrongUse, match="there is nothing to read: subscribe to topics, or assign"):
            consumer.poll(100)
        with pytest.raises(WrongUse, match="there is nothing to read"):
            next(iter(consumer))
        for given in ({}, {"topics": "tens", "pattern": "t.*"}):
            with pytest.raises(WrongUse, match="name the topics to subscribe to, or else give a pattern"):
                consumer.subscribe(**given)
        with pytest.raises(TypeError, match="the name of a topic is text, not int"):
            consumer.subscribe(["tens", 5])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pattern_is_found_anywhere_in_a_name_in_both_protocols(broker, group, protocol):
    word = f"word-{protocol}"
    for name in (f"{word}-a", f"a-{word}"):
        broker.create_topic(name)
    for pattern, count in ((word[1:], 2), (f"^{word}", 1)):
        with Consumer(**{**group, "group_id": pattern}, group_protocol=protocol) as consumer:
            consumer.subscribe(pattern=pattern)
            deadline = time.monotonic() + SOON_S
            while len(consumer.assignment()) < count:
                assert time.monotonic() < deadline
                consumer.poll(50)
            assert len(consumer.subscription()) == len(consumer.assignment()) == count


def test_more_than_an_arrow_array_holds_comes_in_several(broker, monkeypatch):
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(20):
            producer.send("large", b"%d" % number * 100, partition=0).result(SOON_S)
    monkeypatch.setattr("ottla.client.arrow_batches.MAX_ARRAY_BYTES", 500)
    found = []
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("large", 0)])
        while len(found) < 20:
            table = consumer.poll_arrow(SOON_MS)
            assert table.num_rows
            found += table.column("value").to_pylist()
        assert consumer.position(TopicPartition("large", 0)) == 20
    assert found == [b"%d" % number * 100 for number in range(20)]


def test_a_broker_that_stays_away_is_written_down_once(caplog):
    quick = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 5, "reconnect_backoff_ms": 5}
    with OttlaBroker() as mortal, Consumer(mortal.bootstrap_servers, **quick) as consumer:
        mortal.create_topic("away")
        consumer.assign([TopicPartition("away", 0)])
        consumer.position(TopicPartition("away", 0))
        mortal.kill()
        consumer.poll(300)
    said = [each.getMessage() for each in caplog.records if "cannot fetch, retrying" in each.getMessage()]
    assert sum("connection refused" in each for each in said) == 1
