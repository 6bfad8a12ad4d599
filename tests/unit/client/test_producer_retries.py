"""Our producer and batches that fail: sent again, in order, once; or given up with the reason."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.client.produced import headers, values

from ottla.client.errors import BrokerUnreachable, TimedOut
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRecord, MessageTooLarge


async def test_an_idempotent_batch_keeps_its_number_when_it_is_sent_again(produce, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, "lose reply", "drop")
    async with produce() as producer:
        assert (await (await producer.send("orders", b"once"))).offset == 0
        assert (await (await producer.send("orders", b"twice"))).offset == 1
    assert values(peer) == [b"once", b"twice"]
    assert [each.base_sequence for each in headers(peer)] == [0, 1]
    assert len(peer.sent(ApiKey.PRODUCE)) == 4
    assert len(peer.sent(ApiKey.INIT_PRODUCER_ID)) == 1
    assert producer.stats().retries == 2


async def test_without_acks_of_all_there_is_no_producer_id(produce, peer):
    peer.add_topic("orders")
    async with produce(acks=1) as producer:
        await producer.send("orders", b"x")
    assert peer.sent(ApiKey.INIT_PRODUCER_ID) == []
    assert (headers(peer)[0].producer_id, headers(peer)[0].base_sequence) == (-1, -1)


async def test_order_is_kept_when_the_first_of_many_batches_in_flight_fails(produce, peer):
    peer.add_topic("orders")
    async with produce(batch_size=50, delivery_timeout_ms=5_000) as producer:
        await producer.send("orders", b"0")
        await producer.flush()
        peer.fail(ApiKey.PRODUCE, ErrorCode.not_leader_or_follower)
        for n in range(1, 40):
            await producer.send("orders", b"%d" % n)
    assert values(peer) == [b"%d" % n for n in range(40)]
    assert {each.producer_epoch for each in headers(peer)} == {0}


async def test_a_lost_connection_with_many_batches_in_flight_loses_and_doubles_nothing(produce, peer):
    peer.add_topic("orders")
    async with produce(batch_size=50, delivery_timeout_ms=5_000) as producer:
        peer.fail(ApiKey.PRODUCE, "", "", "lose reply", "", "drop", "", "", "lose reply")
        for n in range(60):
            await producer.send("orders", b"%d" % n)
    assert values(peer) == [b"%d" % n for n in range(60)]


async def test_a_batch_that_is_too_large_is_sent_in_parts_in_order(produce, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, ErrorCode.message_too_large, ErrorCode.message_too_large)
    async with produce(linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        deliveries = [await producer.send("orders", b"%d" % n) for n in range(8)]
        await producer.flush()
        assert [(await each).offset for each in deliveries] == list(range(8))
    assert values(peer) == [b"%d" % n for n in range(8)]
    assert [each.base_sequence for each in headers(peer)] == [0, 2, 4]
    assert producer.buffered_bytes == 0


async def test_a_record_that_is_too_large_for_the_broker_fails_alone_and_loudly(produce, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, ErrorCode.message_too_large)
    async with produce() as producer:
        refused = await producer.send("orders", b"huge")
        with pytest.raises(MessageTooLarge):
            await refused
        assert (await (await producer.send("orders", b"small"))).offset == 0
    assert (producer.stats().records, producer.stats().failed_records) == (1, 1)


async def test_after_a_refused_batch_the_numbers_begin_anew_in_a_new_epoch(produce, peer):
    peer.add_topic("orders")
    async with produce() as producer:
        await (await producer.send("orders", b"1"))
        peer.fail(ApiKey.PRODUCE, ErrorCode.invalid_record)
        with pytest.raises(InvalidRecord):
            await (await producer.send("orders", b"2"))
        await (await producer.send("orders", b"3"))
    assert [(each.producer_epoch, each.base_sequence) for each in headers(peer)] == [(0, 0), (1, 0)]
    assert len({each.producer_id for each in headers(peer)}) == 1


async def test_a_broker_that_has_forgotten_the_producer_gets_a_new_epoch(produce, peer):
    peer.add_topic("orders")
    async with produce() as producer:
        await (await producer.send("orders", b"1"))
        peer.fail(ApiKey.PRODUCE, ErrorCode.out_of_order_sequence_number)
        assert (await (await producer.send("orders", b"2"))).offset == 1
    assert [(each.producer_epoch, each.base_sequence) for each in headers(peer)] == [(0, 0), (1, 0)]


async def test_a_broker_that_stays_away_fails_the_batch_in_the_end_with_the_reason(produce, peer, network):
    peer.add_topic("orders")
    async with produce(delivery_timeout_ms=100) as producer:
        await (await producer.send("orders", b"1"))
        del network.listening[peer.address]
        network.cut()
        late = await producer.send("orders", b"2")
        with pytest.raises(TimedOut, match="1 record for orders-0 not delivered within 100 ms") as caught:
            await late
        assert isinstance(caught.value.__cause__, BrokerUnreachable)


async def test_a_broker_that_does_not_answer_does_not_hold_a_record_past_its_time(produce, peer):
    peer.add_topic("orders")
    async with produce(delivery_timeout_ms=100) as producer:
        peer.fail(ApiKey.PRODUCE, "silent")
        with pytest.raises(TimedOut, match="the broker has not answered"):
            await asyncio.wait_for(await producer.send("orders", b"1"), 5)


async def test_after_an_expired_batch_the_next_one_is_not_taken_for_a_gap(produce, peer, network):
    peer.add_topic("orders")
    async with produce(delivery_timeout_ms=100, request_timeout_ms=150) as producer:
        await (await producer.send("orders", b"1"))
        peer.fail(ApiKey.PRODUCE, "silent")
        with pytest.raises(TimedOut):
            await (await producer.send("orders", b"lost"))
        network.cut()
        assert (await (await producer.send("orders", b"2"))).offset == 1
    assert values(peer) == [b"1", b"2"]


async def test_retries_can_be_limited(produce, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, *[ErrorCode.not_enough_replicas] * 3)
    async with produce(retries=1) as producer:
        delivery = await producer.send("orders", b"x")
        with pytest.raises(Exception, match="orders-0"):
            await delivery
    assert len(peer.sent(ApiKey.PRODUCE)) == 2
