from kio.schema.errors import ErrorCode

from ottla.client.admin.lag import Measured, measure
from ottla.common.ids import TopicPartition
from ottla.common.lag import Lag
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.records.records import Record, encode_batch

NOW_MS = 1_700_000_000_000
ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def aged(*seconds, **options):
    """Return a batch of records that are so many seconds old."""
    return encode_batch(
        [Record(index, NOW_MS - each * 1000, None, b"x", ()) for index, each in enumerate(seconds)], **options
    )


async def test_lag_is_the_distance_to_the_end_and_the_age_of_the_next_record(cluster, peer):
    partition = peer.add_topic("orders").partitions[0]
    partition.append(aged(90, 80, 70))
    partition.append(aged(30, 20))
    for committed, expected in [(0, Lag(5, 90)), (2, Lag(3, 70)), (3, Lag(2, 30)), (4, Lag(1, 20))]:
        measured = await measure(cluster, {ZERO: committed}, NOW_MS)
        assert measured == {ZERO: Measured(0, 5, expected)}


async def test_compressed_records_have_an_age_too(cluster, peer):
    peer.add_topic("orders").partitions[0].append(aged(90, 80, codec=1))
    assert (await measure(cluster, {ZERO: 1}, NOW_MS))[ZERO].lag == Lag(1, 80)


async def test_groups_that_are_caught_up_cost_no_fetch(cluster, peer):
    peer.add_topic("orders").partitions[0].append(aged(90))
    assert (await measure(cluster, {ZERO: 1}, NOW_MS))[ZERO].lag == Lag(0, 0.0)
    assert peer.sent(ApiKey.FETCH) == []


async def test_only_one_batch_is_fetched(cluster, peer):
    partition = peer.add_topic("orders").partitions[0]
    for age in (90, 80, 70):
        partition.append(aged(age))
    await measure(cluster, {ZERO: 1}, NOW_MS)
    (request,) = peer.sent(ApiKey.FETCH)
    assert request.topics[0].partitions[0].partition_max_bytes == 1


async def test_where_nothing_was_committed_there_is_no_lag(cluster, peer):
    peer.add_topic("orders").partitions[0].append(aged(90))
    assert await measure(cluster, {ZERO: None}, NOW_MS) == {ZERO: Measured(0, 1, None)}


async def test_a_gap_left_by_compaction_is_stepped_over(cluster, peer):
    partition = peer.add_topic("orders").partitions[0]
    # Of the offsets 0 to 5 only 1 is left, in a batch that still says it ends at 5.
    gap = encode_batch([Record(0, NOW_MS - 90_000, None, b"", ()), Record(5, NOW_MS - 80_000, None, b"", ())])
    partition.append(gap)
    partition.append(aged(30))
    assert (await measure(cluster, {ZERO: 3}, NOW_MS))[ZERO].lag == Lag(4, 80)


async def test_partitions_without_a_leader_and_deleted_topics_are_left_out(cluster, peer):
    topic = peer.add_topic("orders", 2)
    topic.partitions[1].leader = -1
    gone = TopicPartition("gone", 0)
    assert list(await measure(cluster, {ZERO: 0, ONE: 0, gone: 0}, NOW_MS)) == [ZERO]


async def test_a_record_that_cannot_be_read_has_no_age(cluster, peer):
    peer.add_topic("orders").partitions[0].append(aged(90))
    peer.fail(ApiKey.FETCH, ErrorCode.offset_out_of_range)  # deleted between two requests
    assert (await measure(cluster, {ZERO: 0}, NOW_MS))[ZERO].lag == Lag(1, None)
