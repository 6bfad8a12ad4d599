import asyncio
from itertools import pairwise

import pytest
from kio.schema.errors import ErrorCode

from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerUnreachable
from ottla.client.partitioner import partition_of
from ottla.client.producer import Producer, ProducerOptions
from ottla.common.clock import ManualClock
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRecord, MessageTooLarge, UnknownTopicOrPartition
from ottla.protocol.record_batch import decode_header


@pytest.fixture
async def cluster(peer):
    async with Cluster([peer.address]) as cluster:
        yield cluster


def options(**changes):
    return ProducerOptions(**{"linger_ms": 1, "delivery_timeout_ms": 100, **changes})


def stored(peer, topic="orders", partition=0):
    return peer.topics[topic].partitions[partition].records()


async def test_a_receipt_tells_the_offset(cluster, peer):
    peer.add_topic("orders")
    async with Producer(cluster, options()) as producer:
        receipts = [await producer.send("orders", b"%d" % n) for n in range(5)]
        assert [await each.offset() for each in receipts] == [0, 1, 2, 3, 4]
    assert [each.value for each in stored(peer)] == [b"0", b"1", b"2", b"3", b"4"]
    assert producer.delivered == 5


async def test_records_that_come_together_travel_together(cluster, peer):
    peer.add_topic("orders")
    async with Producer(cluster, options(linger_ms=60_000)) as producer:
        for n in range(100):
            await producer.send("orders", b"%d" % n)
        await producer.flush()
    assert len(peer.topics["orders"].partitions[0].batches) == 1


async def test_everything_about_a_record_arrives(cluster, peer):
    peer.add_topic("orders")
    headers = (("a", b"1"), ("a", None), ("", b""))
    async with Producer(cluster, options(), clock=ManualClock(77)) as producer:
        await producer.send("orders", None, key=b"k", headers=headers, timestamp=5)
        await producer.send("orders", b"", key=b"")
    tombstone, empty = stored(peer)
    assert (tombstone.key, tombstone.value, tombstone.headers, tombstone.timestamp) == (
        b"k",
        None,
        headers,
        5,
    )
    assert (empty.key, empty.value, empty.timestamp) == (b"", b"", 77)


async def test_a_key_decides_the_partition_and_a_partition_wins_over_it(cluster, peer):
    peer.add_topic("orders", 7)
    async with Producer(cluster, options()) as producer:
        by_key = await producer.send("orders", b"1", key=b"customer")
        by_hand = await producer.send("orders", b"2", key=b"customer", partition=6)
    assert by_key.partition.partition == partition_of(b"customer", 7)
    assert by_hand.partition.partition == 6


async def test_a_partition_that_is_not_there_is_refused(cluster, peer):
    peer.add_topic("orders", 2)
    async with Producer(cluster, options()) as producer:
        with pytest.raises(
            UnknownTopicOrPartition, match="orders has no partition 2: it has 2, numbered from 0"
        ):
            await producer.send("orders", b"x", partition=2)


async def test_records_without_a_key_move_on_when_a_batch_is_full(cluster, peer):
    peer.add_topic("orders", 4)
    async with Producer(cluster, options(linger_ms=60_000, batch_bytes=200)) as producer:
        receipts = [await producer.send("orders", b"x" * 50) for _ in range(12)]
    runs = [each.partition.partition for each in receipts]
    assert len(set(runs)) == 4
    assert sum(a != b for a, b in pairwise(runs)) <= 6  # they stick in between


async def test_an_idempotent_batch_keeps_its_sequence_when_it_is_sent_again(cluster, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, "lose reply", "drop")
    async with Producer(cluster, options()) as producer:
        first = await producer.send("orders", b"once")
        assert await first.offset() == 0
        second = await producer.send("orders", b"twice")
        assert await second.offset() == 1
    assert [each.value for each in stored(peer)] == [b"once", b"twice"]
    sequences = [decode_header(each).base_sequence for each in peer.topics["orders"].partitions[0].batches]
    assert sequences == [0, 1]
    assert len(peer.sent(ApiKey.PRODUCE)) == 4
    assert len(peer.sent(ApiKey.INIT_PRODUCER_ID)) == 1


async def test_without_acks_of_all_there_is_no_producer_id(cluster, peer):
    peer.add_topic("orders")
    async with Producer(cluster, options(acks=1)) as producer:
        await producer.send("orders", b"x")
    assert peer.sent(ApiKey.INIT_PRODUCER_ID) == []
    header = decode_header(peer.topics["orders"].partitions[0].batches[0])
    assert (header.producer_id, header.base_sequence) == (-1, -1)


async def test_without_acks_nobody_waits_and_no_offset_is_known(cluster, peer):
    peer.add_topic("orders")
    async with Producer(cluster, options(acks=0)) as producer:
        receipt = await producer.send("orders", b"x")
        assert await receipt.offset() == -1
    assert producer.delivered == 1
    assert len(stored(peer)) == 1


async def test_a_moved_leader_is_looked_up_and_the_batch_sent_again(cluster, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, ErrorCode.not_leader_or_follower, ErrorCode.not_enough_replicas)
    async with Producer(cluster, options()) as producer:
        assert await (await producer.send("orders", b"x")).offset() == 0


async def test_a_batch_that_is_too_large_is_sent_in_parts_in_order(cluster, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, ErrorCode.message_too_large, ErrorCode.message_too_large)
    async with Producer(cluster, options()) as producer:
        receipts = [await producer.send("orders", b"%d" % n) for n in range(8)]
        assert [await each.offset() for each in receipts] == list(range(8))
    assert [each.value for each in stored(peer)] == [b"%d" % n for n in range(8)]
    assert [decode_header(each).base_sequence for each in peer.topics["orders"].partitions[0].batches] == [
        0,
        2,
        4,
    ]


async def test_a_record_that_is_too_large_fails_alone_and_loudly(cluster, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, ErrorCode.message_too_large)
    async with Producer(cluster, options()) as producer:
        refused = await producer.send("orders", b"huge")
        with pytest.raises(MessageTooLarge):
            await refused.offset()
        with pytest.raises(MessageTooLarge):
            await producer.send("orders", b"small")
        accepted = await producer.send("orders", b"small")
        assert await accepted.offset() == 0
    assert producer.delivered == 1


async def test_after_a_failure_the_sequence_starts_anew_under_a_new_id(cluster, peer):
    peer.add_topic("orders")
    async with Producer(cluster, options()) as producer:
        await (await producer.send("orders", b"1")).offset()
        peer.fail(ApiKey.PRODUCE, ErrorCode.invalid_record)
        with pytest.raises(InvalidRecord):
            await (await producer.send("orders", b"2")).offset()
        with pytest.raises(InvalidRecord):
            await producer.flush()
        await (await producer.send("orders", b"3")).offset()
    headers = [decode_header(each) for each in peer.topics["orders"].partitions[0].batches]
    assert [each.base_sequence for each in headers] == [0, 0]
    assert headers[0].producer_id != headers[1].producer_id


async def test_leaving_raises_what_nobody_has_asked_for(cluster, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, ErrorCode.invalid_record)
    with pytest.raises(InvalidRecord):
        async with Producer(cluster, options()) as producer:
            await producer.send("orders", b"x")


async def test_a_broker_that_stays_away_fails_the_batch_in_the_end(cluster, peer, network):
    peer.add_topic("orders")
    async with Producer(cluster, options(delivery_timeout_ms=30)) as producer:
        await (await producer.send("orders", b"1")).offset()
        del network.listening[peer.address]
        network.cut()
        with pytest.raises(BrokerUnreachable):
            await (await producer.send("orders", b"2")).offset()
        with pytest.raises(BrokerUnreachable):
            await producer.flush()


async def test_a_full_buffer_makes_senders_wait_until_there_is_room(cluster, peer):
    peer.add_topic("orders")
    async with Producer(cluster, options(buffer_bytes=1_000, linger_ms=5)) as producer:
        for _ in range(10):
            await asyncio.wait_for(producer.send("orders", b"x" * 600), 5)
    assert len(stored(peer)) == 10


async def test_leaving_with_an_exception_does_not_wait_for_delivery(cluster, peer):
    peer.add_topic("orders")
    peer.fail(ApiKey.PRODUCE, "silent")
    with pytest.raises(ZeroDivisionError):
        async with Producer(cluster, options()) as producer:
            await producer.send("orders", b"x")
            raise ZeroDivisionError


@pytest.mark.parametrize("codec", range(5))
async def test_batches_are_compressed_with_every_codec(cluster, peer, codec):
    peer.add_topic("orders")
    async with Producer(cluster, options(codec=codec)) as producer:
        await producer.send("orders", b"x" * 1000)
    assert decode_header(peer.topics["orders"].partitions[0].batches[0]).codec == codec
    assert stored(peer)[0].value == b"x" * 1000
