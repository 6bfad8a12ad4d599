"""Our producer when its buffer is full, when it is flushed, and when it is left."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.client.produced import stored, values

from ottla.client.errors import ClientClosed, TimedOut
from ottla.client.producer import AsyncProducer
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRecord


async def test_a_failure_that_was_not_read_is_raised_by_flush_once(produce, peer):
    peer.add_topic("orders")
    async with produce() as producer:
        peer.fail(ApiKey.PRODUCE, ErrorCode.invalid_record)
        await producer.send("orders", b"x")
        with pytest.raises(InvalidRecord):
            await producer.flush()
        await producer.flush()


async def test_leaving_raises_errors_that_were_not_read(produce, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, ErrorCode.invalid_record)
    with pytest.raises(InvalidRecord):
        async with produce() as producer:
            await producer.send("orders", b"x")


async def test_a_full_buffer_makes_senders_wait_until_there_is_room(produce, peer):
    peer.add_topic("orders")
    async with produce(buffer_memory=1_000, delivery_timeout_ms=5_000) as producer:
        for _ in range(10):
            await asyncio.wait_for(producer.send("orders", b"x" * 600), 5)
            assert producer.buffered_bytes <= 1_000
        await asyncio.wait_for(producer.send("orders", b"x" * 5_000), 5)  # larger than the whole buffer
    assert len(stored(peer)) == 11


async def test_those_who_wait_for_room_in_vain_get_an_error(produce, peer):
    peer.add_topic("orders")
    async with produce(
        buffer_memory=1_000, linger_ms=60_000, delivery_timeout_ms=120_000, max_block_ms=20
    ) as producer:
        await producer.send("orders", b"x" * 900)
        with pytest.raises(TimedOut, match=r"no room in the buffer within 0\.02 s"):
            await producer.send("orders", b"x" * 600)
        await producer.flush()
        await producer.send("orders", b"x" * 600)


async def test_those_who_wait_for_room_are_served_in_order_and_may_give_up(produce, peer):
    peer.add_topic("orders")
    async with produce(buffer_memory=1_000, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        await producer.send("orders", b"x" * 900)
        waiting = [asyncio.ensure_future(producer.send("orders", b"%d" % n + b"x" * 600)) for n in range(6)]
        await asyncio.sleep(0)
        assert not any(each.done() for each in waiting)
        waiting[1].cancel()
        for _ in range(5):
            await producer.flush()
            await asyncio.sleep(0.01)
        await asyncio.wait(waiting, timeout=5)
    assert [each[:1] for each in values(peer)[1:]] == [b"0", b"2", b"3", b"4", b"5"]


async def test_leaving_with_an_exception_still_delivers_what_was_sent(produce, peer):
    peer.add_topic("orders")
    with pytest.raises(ZeroDivisionError):
        async with produce() as producer:
            await producer.send("orders", b"x")
            raise ZeroDivisionError
    assert values(peer) == [b"x"]


async def test_leaving_when_cancelled_does_not_wait(produce, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, "silent")
    with pytest.raises(asyncio.CancelledError):
        async with produce(delivery_timeout_ms=60_000) as producer:
            delivery = await producer.send("orders", b"x")
            raise asyncio.CancelledError
    assert isinstance(delivery.exception(), ClientClosed)


async def test_closing_may_be_given_a_time(produce, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, "silent")
    producer = produce(delivery_timeout_ms=60_000)
    await producer.start()
    delivery = await producer.send("orders", b"x")
    with pytest.raises(TimedOut, match=r"1 records were not delivered within 0\.05 s"):
        await producer.close(timeout_s=0.05)
    with pytest.raises(ClientClosed):
        await delivery
    with pytest.raises(ClientClosed):
        await producer.send("orders", b"y")
    await producer.close()


async def test_before_it_is_started_a_producer_says_so():
    with pytest.raises(ClientClosed, match="not started: use `async with`"):
        await AsyncProducer("localhost:1").send("orders", b"x")


async def test_a_record_that_comes_while_the_producer_stops_does_not_keep_it_from_stopping(produce, peer):
    peer.add_topic("orders")
    async with asyncio.timeout(5):
        async with produce() as producer:
            core = producer._core
            await core.open_topic("orders")
            core._stopping.set()
            await asyncio.sleep(0)
            core.sender.stop()
            core.wake(core.offer(core.preparer.prepare("orders", b"x", None, None, None, (), None)))
            await core.stop()
