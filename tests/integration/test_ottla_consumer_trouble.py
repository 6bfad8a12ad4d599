"""Our consumer and brokers that die, hang or are not there: what it does is defined, and nothing hangs."""

from __future__ import annotations

import os
import signal
import time

import pytest
from confluent_kafka import Producer as LibrdkafkaProducer

from ottla.client.consumer import AsyncConsumer, Consumer
from ottla.client.errors import ClientError, TimedOut
from ottla.common.ids import TopicPartition
from ottla.testing.broker_process import BrokerProcess, free_port

SOON_S = 30
PLACE = TopicPartition("orders", 0)
QUICK = {"auto_offset_reset": "earliest", "retry_backoff_ms": 20, "reconnect_backoff_ms": 20}


@pytest.fixture
def mortal(tmp_path):
    """A broker that may be killed."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with BrokerProcess(tmp_path / "data", settings=settings) as started:
        yield started


def write(broker, numbers):
    producer = LibrdkafkaProducer({"bootstrap.servers": broker.address, "acks": "all"})
    for number in numbers:
        producer.produce("orders", b"%d" % number, partition=0)
    assert producer.flush(SOON_S) == 0


async def read(consumer, count):
    found = []
    deadline = time.monotonic() + SOON_S
    while len(found) < count and time.monotonic() < deadline:
        for records in (await consumer.getmany(timeout_ms=200)).values():
            found += [int(each.value) for each in records]
    return found


async def test_a_broker_that_is_killed_and_returns_is_read_on_without_loss_or_repetition(mortal):
    write(mortal, range(1000))
    async with AsyncConsumer(mortal.address, **QUICK) as consumer:
        consumer.assign([PLACE])
        found = await read(consumer, 500)
        mortal.kill()
        began = time.monotonic()
        rest = await consumer.getmany(timeout_ms=300)  # what was fetched before, or nothing: but no error
        assert time.monotonic() - began < 10
        found += [int(each.value) for records in rest.values() for each in records]
        mortal.start()
        write(mortal, range(1000, 1500))
        found += await read(consumer, 1500 - len(found))
    assert found == list(range(1500))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_outlives_its_broker_and_continues_behind_what_it_committed(mortal, protocol):
    write(mortal, range(100))
    options = QUICK | {"group_id": "g", "group_protocol": protocol, "topics": "orders"}
    async with AsyncConsumer(mortal.address, **options) as consumer:
        found = await read(consumer, 100)
        await consumer.commit()
        mortal.kill()
        await consumer.getmany(timeout_ms=200)
        mortal.start()
        write(mortal, range(100, 200))
        found += await read(consumer, 100)
        assert set(range(200)) == set(found)
        assert (await consumer.committed([PLACE]))[PLACE].offset >= 100
    async with AsyncConsumer(mortal.address, **options) as consumer:
        assert await consumer.getmany(timeout_ms=500) == {}  # closing has committed the rest


async def test_a_broker_that_hangs_does_not_hold_calls_beyond_their_time(mortal):
    write(mortal, range(10))
    async with AsyncConsumer(
        mortal.address, **QUICK, group_id="g", request_timeout_ms=1_000, default_api_timeout_ms=2_000
    ) as consumer:
        consumer.assign([PLACE])
        assert await read(consumer, 10) == list(range(10))
        os.kill(mortal.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            assert await consumer.getmany(timeout_ms=200) == {}
            assert time.monotonic() - began < 1
            with pytest.raises(ClientError):
                await consumer.commit()
            with pytest.raises(ClientError):
                await consumer.end_offsets([PLACE])
            consumer.seek_to_end()
            with pytest.raises(TimedOut, match=r"the position of orders-0 was not found within 0\.5 s"):
                await consumer.position(PLACE, timeout_ms=500)
            assert time.monotonic() - began < 20
        finally:
            os.kill(mortal.pid, signal.SIGCONT)
        consumer.seek(PLACE, 5)
        assert await read(consumer, 5) == [5, 6, 7, 8, 9]


async def test_closing_does_not_wait_for_a_broker_that_is_gone(mortal):
    write(mortal, range(10))
    consumer = AsyncConsumer(mortal.address, **QUICK, group_id="g", topics="orders")
    await consumer.start()
    assert len(await read(consumer, 10)) == 10
    mortal.kill()
    began = time.monotonic()
    await consumer.close()
    assert time.monotonic() - began < 10


async def test_a_wrong_address_is_reported_by_the_first_call_sync_and_async():
    address = f"127.0.0.1:{free_port()}"
    async with AsyncConsumer(address, default_api_timeout_ms=200) as lonely:
        with pytest.raises(TimedOut, match=address):
            await lonely.topics()
    with Consumer(address, default_api_timeout_ms=200) as lonely, pytest.raises(TimedOut, match=address):
        lonely.topics()
