"""What clients get from leaders and followers: reads from the own rack, hints, ends, deletions, throttles."""

import asyncio
from typing import Any, cast

import pytest
from kio.schema.delete_records.v2 import DeleteRecordsRequest
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v13.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v13.response import PartitionData
from kio.schema.types import TopicName
from tests.unit.replication.replica_cluster import TOPIC, Cluster, Link, produce, run, until

from ottla.api.delete_records import delete_records
from ottla.api.fetch import fetch
from ottla.api.list_offsets import end_not_known
from ottla.api.support.context import RequestContext
from ottla.common.file_range import FileRange
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import LeaderNotAvailable, OffsetNotAvailable
from ottla.protocol.schema.messages import request_encoder, response_decoder
from ottla.protocol.types import i32, i64
from ottla.wire.connection import milliseconds

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
BODY_AT = 9


def context(cluster: Cluster, node_id: int, api_key: int, version: int) -> RequestContext:
    return RequestContext(
        cast(Any, cluster.nodes[node_id].services), Link("client"), api_key, version, 7, None
    )


async def consume(
    cluster: Cluster, node_id: int, offset: int, rack: str = "", wait_ms: int = 0
) -> PartitionData:
    """Fetch as a consumer does, and return what there is of the one partition."""
    response = await ask(cluster, node_id, offset, rack, wait_ms)
    found: PartitionData = response.responses[0].partitions[0]
    return found


async def ask(
    cluster: Cluster,
    node_id: int,
    offset: int,
    rack: str = "",
    wait_ms: int = 0,
    session: tuple[int, int] = (0, -1),
) -> Any:
    """Fetch as a consumer does, in a session if it is named, and return the whole answer."""
    request = FetchRequest(
        session_id=i32(session[0]),
        session_epoch=i32(session[1]),
        max_wait=milliseconds(wait_ms),
        min_bytes=i32(1),
        topics=(
            FetchTopic(
                topic_id=cluster.image.topics[TOPIC].topic_id,
                partitions=(
                    FetchPartition(
                        partition=i32(0), fetch_offset=i64(offset), partition_max_bytes=i32(1 << 20)
                    ),
                ),
            ),
        ),
        forgotten_topics_data=(),
        rack_id=rack,
    )
    body = request_encoder(ApiKey.FETCH, 13, 13)(request)
    reply = fetch(memoryview(body), 0, context(cluster, node_id, ApiKey.FETCH, 13))
    pieces = reply if isinstance(reply, list) else await cast(Any, reply)
    frame = b"".join(each.read() if isinstance(each, FileRange) else each for each in pieces)
    return response_decoder(ApiKey.FETCH, 13, 13)(memoryview(frame), BODY_AT)


def test_a_consumer_is_sent_to_the_replica_in_its_rack_and_reads_there() -> None:
    async def scenario() -> None:
        async with Cluster(replica_selector_class=RACK_AWARE) as cluster:
            await cluster.create(1, 2, 3)
            await produce(cluster.partition(1), b"a", b"b")
            sent = await consume(cluster, 1, 0, rack="rack-3")
            assert (sent.preferred_read_replica, sent.records) == (3, b"")
            await until(lambda: cluster.partition(3).high_watermark == 2)
            found = await consume(cluster, 3, 0, rack="rack-3")
            assert found.error_code == ErrorCode.none
            assert found.records == cluster.contents(1)

    run(scenario())


def test_a_consumer_is_redirected_at_once_and_every_time() -> None:
    async def scenario() -> None:
        async with Cluster(replica_selector_class=RACK_AWARE) as cluster:
            await cluster.create(1, 2, 3)
            await produce(cluster.partition(1), b"a")
            began_ms = cluster.nodes[1].services.clock.mono_ms()
            first = await ask(cluster, 1, 0, "rack-3", wait_ms=5_000, session=(0, 0))
            again = await ask(cluster, 1, 0, "rack-3", wait_ms=5_000, session=(first.session_id, 1))
            assert cluster.nodes[1].services.clock.mono_ms() - began_ms < 100
            for answer in (first, again):
                assert answer.responses[0].partitions[0].preferred_read_replica == 3

    run(scenario())


@pytest.mark.parametrize("rack", ["rack-1", "rack-9", ""])
def test_a_consumer_in_the_leaders_rack_or_in_none_reads_from_the_leader(rack: str) -> None:
    async def scenario() -> None:
        async with Cluster(replica_selector_class=RACK_AWARE) as cluster:
            await cluster.create(1, 2, 3)
            await produce(cluster.partition(1), b"a")
            assert (await consume(cluster, 1, 0, rack)).records == cluster.contents(1)

    run(scenario())


def test_consumers_are_not_sent_to_a_replica_that_is_not_in_sync() -> None:
    async def scenario() -> None:
        async with Cluster(replica_selector_class=RACK_AWARE) as cluster:
            await cluster.create(1, 2, 3)
            cluster.cut |= {(3, 1)}
            await produce(cluster.partition(1), b"a")
            assert cluster.partition_image.isr == (1, 2)
            assert (await consume(cluster, 1, 0, "rack-3")).records == cluster.contents(1)

    run(scenario())


def test_a_consumer_waits_at_a_follower_for_what_is_not_committed_yet() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            waiting = asyncio.ensure_future(consume(cluster, 3, 0, wait_ms=5_000))
            await produce(cluster.partition(1), b"a")
            assert (await waiting).records == cluster.contents(1)

    run(scenario())


@pytest.mark.parametrize(
    ("rack", "offset", "error"),
    [
        ("", 9, ErrorCode.not_leader_or_follower),
        ("", 0, ErrorCode.not_leader_or_follower),
        ("rack-3", 9, ErrorCode.offset_not_available),
        ("rack-3", 0, ErrorCode.offset_out_of_range),
    ],
)
def test_a_follower_never_says_that_an_offset_does_not_exist_which_it_only_lacks(
    rack: str, offset: int, error: ErrorCode
) -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            await produce(cluster.partition(1), b"a", b"b")
            await until(lambda: cluster.partition(3).high_watermark == 2)
            cluster.partition(3).log.delete_records_before(1)
            assert (await consume(cluster, 3, offset, rack)).error_code == error

    run(scenario())


def test_a_broker_without_a_replica_answers_with_the_leader() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(2, 3)
            found = await consume(cluster, 1, 0)
            assert found.error_code == ErrorCode.not_leader_or_follower
            assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (2, 0)

    run(scenario())


def test_the_end_of_a_partition_is_not_reported_before_a_new_leader_knows_it() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            await produce(cluster.partition(1), b"a")
            assert end_not_known(cluster.partition(1), version=5) is None
            cluster.cut |= {(3, 2), (1, 2)}
            cluster.partition(2).high_watermark = 0  # it has not heard of the commit
            await cluster.elect(2, [1, 2, 3])
            assert isinstance(end_not_known(cluster.partition(2), version=5), OffsetNotAvailable)
            assert isinstance(end_not_known(cluster.partition(2), version=4), LeaderNotAvailable)
            cluster.cut.clear()
            await until(lambda: cluster.partition(2).high_watermark == 1)
            assert end_not_known(cluster.partition(2), version=5) is None

    run(scenario())


def deletion(offset: int, timeout_ms: int) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        topics=(
            DeleteRecordsTopic(
                name=TopicName(TOPIC),
                partitions=(DeleteRecordsPartition(partition_index=i32(0), offset=i64(offset)),),
            ),
        ),
        timeout=milliseconds(timeout_ms),
    )


def test_records_are_deleted_from_every_replica_before_that_is_said() -> None:
    async def scenario() -> None:
        async with Cluster() as cluster:
            await cluster.create(1, 2, 3)
            await produce(cluster.partition(1), b"a", b"b", b"c")
            ctx = context(cluster, 1, ApiKey.DELETE_RECORDS, 2)
            ctx.services.log_directories = cluster.nodes[1].directory
            (done,) = (await delete_records(deletion(2, 5_000), ctx)).topics[0].partitions
            assert (done.error_code, done.low_watermark) == (ErrorCode.none, 2)
            assert [cluster.partition(each).log_start_offset for each in (1, 2, 3)] == [2, 2, 2]

            cluster.cut |= {(3, 1)}
            (late,) = (await delete_records(deletion(3, 50), ctx)).topics[0].partitions
            assert late.error_code == ErrorCode.request_timed_out

    run(scenario())


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_that_is_being_made_takes_no_more_than_its_rate(side: str) -> None:
    async def scenario() -> None:
        rate = {f"{side}_replication_throttled_rate": "20000", "replica_fetch_max_bytes": "10000"}
        async with Cluster(**rate) as cluster:
            await cluster.create(1, 2, **{f"{side}_replication_throttled_replicas": "*"})
            leader = cluster.partition(1)
            for _ in range(20):
                await produce(leader, b"x" * 10_000)
            loop = asyncio.get_running_loop()
            began = loop.time()
            await cluster.alter(replicas=(1, 2, 3), adding=(3,))
            await until(lambda: cluster.partition_image.isr == (1, 2, 3))
            assert 6 < loop.time() - began < 15, "200 kB at 20 kB/s, less what may be taken at once"
            began = loop.time()
            await produce(leader, b"x" * 50_000)
            assert loop.time() - began < 1, "a member is never slowed down"

    run(scenario())
