import asyncio

import pytest
from kio.schema.errors import ErrorCode

from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer
from ottla.common.ids import TopicPartition, new_uuid
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import CorruptMessage, OffsetOutOfRange, UnknownTopicId
from ottla.protocol.records import Record, encode_batch

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
async def cluster(peer):
    async with Cluster([peer.address]) as cluster:
        yield cluster


def batch(*values, control=False, codec=0):
    return encode_batch(
        [Record(n, 1000 + n, b"k", value, (("h", b"1"),)) for n, value in enumerate(values)],
        control=control,
        codec=codec,
        producer_id=5 if control else -1,
        producer_epoch=0 if control else -1,
    )


async def read(consumer):
    return [(each.partition, each.offset, each.value) for each in await consumer.poll()]


async def test_records_come_with_everything_they_have(cluster, peer):
    peer.add_topic("orders").partitions[0].append(batch(b"a", codec=4))
    async with Consumer(cluster, {ORDERS: 0}) as consumer:
        (record,) = await consumer.poll()
    assert record == ("orders", 0, 0, 1000, b"k", b"a", (("h", b"1"),))


async def test_the_position_moves_behind_what_was_returned(cluster, peer):
    partition = peer.add_topic("orders").partitions[0]
    partition.append(batch(b"a", b"b"))
    async with Consumer(cluster, {ORDERS: 0}) as consumer:
        assert await read(consumer) == [(0, 0, b"a"), (0, 1, b"b")]
        assert consumer.positions == {ORDERS: 2}
        assert consumer.high_watermarks == {ORDERS: 2}
        partition.append(batch(b"c"))
        assert await read(consumer) == [(0, 2, b"c")]


async def test_reading_from_inside_a_batch_leaves_out_what_came_before(cluster, peer):
    peer.add_topic("orders").partitions[0].append(batch(b"a", b"b", b"c"))
    async with Consumer(cluster, {ORDERS: 2}) as consumer:
        assert await read(consumer) == [(0, 2, b"c")]


async def test_a_batch_that_is_cut_off_is_fetched_again(cluster, peer):
    partition = peer.add_topic("orders").partitions[0]
    partition.append(batch(b"a"))
    partition.append(batch(b"b"))
    whole = partition.batches[1]
    partition.batches[1] = whole[:-3]
    async with Consumer(cluster, {ORDERS: 0}) as consumer:
        assert await read(consumer) == [(0, 0, b"a")]
        partition.batches[1] = whole
        assert await read(consumer) == [(0, 1, b"b")]


async def test_control_batches_are_skipped_but_passed(cluster, peer):
    partition = peer.add_topic("orders").partitions[0]
    partition.append(batch(b"marker", control=True))
    async with Consumer(cluster, {ORDERS: 0}) as consumer:
        assert await read(consumer) == []
        assert consumer.positions == {ORDERS: 1}


async def test_partitions_without_a_position_are_left_alone(cluster, peer):
    topic = peer.add_topic("orders", 2)
    for partition in topic.partitions:
        partition.append(batch(b"a"))
    async with Consumer(cluster, {ORDERS: 0, TopicPartition("orders", 1): 0}) as consumer:
        consumer.positions.pop(ORDERS)
        assert await read(consumer) == [(1, 0, b"a")]
        consumer.positions.clear()
        assert await consumer.poll() == []


async def test_a_corrupt_batch_is_an_error_that_says_where_after_the_good_ones(cluster, peer):
    partition = peer.add_topic("orders").partitions[0]
    partition.append(batch(b"a"))
    partition.append(batch(b"b"))
    partition.batches[1][-1] ^= 1
    async with Consumer(cluster, {ORDERS: 0}) as consumer:
        assert await read(consumer) == [(0, 0, b"a")]
        with pytest.raises(CorruptMessage, match="orders-0 at offset 1: CRC32C"):
            await consumer.poll()


async def test_an_offset_that_is_gone_is_named(cluster, peer):
    peer.add_topic("orders").partitions[0].start = 50
    async with Consumer(cluster, {ORDERS: 7}) as consumer:
        with pytest.raises(OffsetOutOfRange, match="orders-0 has no offset 7"):
            await consumer.poll()


async def test_a_topic_that_was_created_again_is_noticed(cluster, peer):
    topic = peer.add_topic("orders")
    async with Consumer(cluster, {ORDERS: 0}) as consumer:
        await consumer.poll()
        topic.topic_id = new_uuid()
        with pytest.raises(UnknownTopicId):
            await consumer.poll()


async def test_an_older_broker_is_asked_by_name(cluster, peer):
    peer.versions[ApiKey.FETCH] = (4, 12)
    peer.add_topic("orders").partitions[0].append(batch(b"a"))
    await cluster.close()  # so that the versions are asked for again
    async with Consumer(cluster, {ORDERS: 0}) as consumer:
        assert await read(consumer) == [(0, 0, b"a")]
    assert peer.sent(ApiKey.FETCH)[0].topics[0].topic == "orders"


async def test_the_leader_epoch_goes_along_so_that_a_stale_view_is_fenced(cluster, peer):
    peer.add_topic("orders").partitions[0].append(batch(b"a"))
    async with Consumer(cluster, {ORDERS: 0}) as consumer:
        await consumer.poll()
    assert peer.sent(ApiKey.FETCH)[0].topics[0].partitions[0].current_leader_epoch == 3


async def test_lost_connections_and_moved_leaders_are_ridden_out(cluster, peer):
    peer.add_topic("orders").partitions[0].append(batch(b"a"))
    peer.fail(ApiKey.FETCH, "drop", ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)
    async with Consumer(cluster, {ORDERS: 0}) as consumer:
        assert await read(consumer) == [(0, 0, b"a")]


async def test_a_quiet_broker_does_not_hold_up_a_busy_one(cluster, peer, network):
    quiet = network.start(type(peer)(2, peer.address._replace(host="quiet")))
    peer.advertised = {1: peer.address, 2: quiet.address}
    topic = peer.add_topic("orders", 2)
    quiet.topics = peer.topics
    topic.partitions[1].leader = 2
    quiet.fail(ApiKey.FETCH, "silent")
    topic.partitions[0].append(batch(b"a"))
    await cluster.refresh(["orders"])
    async with Consumer(cluster, {ORDERS: 0, TopicPartition("orders", 1): 0}) as consumer:
        assert await asyncio.wait_for(read(consumer), 5) == [(0, 0, b"a")]
        topic.partitions[0].append(batch(b"b"))
        assert await asyncio.wait_for(read(consumer), 5) == [(0, 1, b"b")]
    assert len(quiet.sent(ApiKey.FETCH)) == 1


async def test_a_broker_that_is_away_does_not_hold_up_the_others(cluster, peer):
    peer.advertised = {1: peer.address, 2: peer.address._replace(host="away")}
    topic = peer.add_topic("orders", 3)
    topic.partitions[1].leader = 2
    topic.partitions[2].leader = -1
    topic.partitions[0].append(batch(b"a"))
    await cluster.refresh(["orders"])
    wanted = {TopicPartition("orders", index): 0 for index in range(3)}
    async with Consumer(cluster, wanted) as consumer:
        assert await read(consumer) == [(0, 0, b"a")]
