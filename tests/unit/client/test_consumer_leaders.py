import pytest

from ottla.client.admin.group_types import OffsetAndMetadata
from ottla.client.consumer import AsyncConsumer, LogTruncated
from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.records.records import Record, encode_batch

ORDERS = TopicPartition("orders", 0)


def batch(*values):
    return encode_batch([Record(n, 1000 + n, None, value) for n, value in enumerate(values)])


@pytest.fixture
def other(peer, network):
    """A second broker, with the same topics."""
    broker = network.start(type(peer)(2, peer.address._replace(host="other")))
    peer.advertised = broker.advertised = {1: peer.address, 2: broker.address}
    broker.topics = peer.topics
    return broker


@pytest.fixture
def partition(peer):
    return peer.add_topic("orders").partitions[0]


def consumer(**options):
    options = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 20, "retry_backoff_ms": 5} | options
    return AsyncConsumer("fake:9092", **options)


async def read(reader):
    found = await reader.getmany(timeout_ms=2_000)
    return [(each.offset, each.value) for records in found.values() for each in records]


def move(partition, leader):
    partition.leader = leader
    partition.leader_epoch += 1


async def test_a_new_leader_is_found_and_asked_whether_it_has_what_was_read(peer, other, partition):
    partition.append(batch(b"a", b"b"))
    async with consumer() as reader:
        reader.assign([ORDERS])
        assert await read(reader) == [(0, b"a"), (1, b"b")]
        move(partition, 2)
        partition.append(batch(b"c"))
        assert await read(reader) == [(2, b"c")]
    asked = other.sent(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    assert [each.topics[0].partitions[0].leader_epoch for each in asked] == [3]
    assert other.sent(ApiKey.FETCH)


async def test_a_log_that_was_cut_off_is_read_again_from_where_it_parts(peer, other, partition):
    partition.append(batch(b"a"))
    partition.append(batch(b"lost", b"lost too"))
    async with consumer() as reader:
        reader.assign([ORDERS])
        assert len(await read(reader)) == 3
        del partition.batches[1]
        move(partition, 2)
        partition.append(batch(b"b", b"c", b"d"))
        assert await read(reader) == [(1, b"b"), (2, b"c"), (3, b"d")]


async def test_a_log_that_was_cut_off_is_an_error_without_a_reset(peer, other, partition):
    partition.append(batch(b"a"))
    partition.append(batch(b"lost", b"lost too"))
    async with consumer(auto_offset_reset="none") as reader:
        reader.assign([ORDERS])
        reader.seek(ORDERS, 0)
        assert len(await read(reader)) == 3
        del partition.batches[1]
        move(partition, 2)
        partition.append(batch(b"b", b"c", b"d"))
        with pytest.raises(LogTruncated, match=r"cut off below offset 3.* part at offset 1") as caught:
            await read(reader)
        reader.seek(ORDERS, caught.value.diverges_at)
        assert await read(reader) == [(1, b"b"), (2, b"c"), (3, b"d")]


async def test_an_offset_with_an_epoch_is_checked_before_it_is_read(peer, partition):
    partition.append(batch(b"a", b"b"))
    async with consumer() as reader:
        reader.assign([ORDERS])
        reader.seek(ORDERS, OffsetAndMetadata(1, leader_epoch=3))
        assert await read(reader) == [(1, b"b")]
    assert len(peer.sent(ApiKey.OFFSET_FOR_LEADER_EPOCH)) == 1


async def test_the_replica_that_the_leader_recommends_is_read(peer, other, partition):
    partition.append(batch(b"a"))
    partition.preferred_replica = 2
    async with consumer(client_rack="here") as reader:
        reader.assign([ORDERS])
        assert await read(reader) == [(0, b"a")]
    assert peer.sent(ApiKey.FETCH)[0].rack_id == "here"
    assert other.sent(ApiKey.FETCH)


async def test_a_recommended_replica_that_is_away_is_given_up_for_the_leader(peer, other, partition, network):
    partition.append(batch(b"a"))
    partition.preferred_replica = 2
    async with consumer(client_rack="here") as reader:
        reader.assign([ORDERS])
        assert await read(reader) == [(0, b"a")]
        other.fail(ApiKey.FETCH, *["drop"] * 3)
        partition.preferred_replica = -1
        partition.append(batch(b"b"))
        assert await read(reader) == [(1, b"b")]
