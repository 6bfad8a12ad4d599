"""Fetch as followers speak it, against the codec that leaders use."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import InvalidRequest
from ottla.protocol.fetch_codec import (
    FetchPartition,
    FetchPartitionResult,
    FetchTopicResult,
    decode_fetch_request,
    encode_fetch_response,
)
from ottla.protocol.hot_path import Leader
from ottla.protocol.replica_fetch import (
    VERSION,
    FetchLimits,
    decode_replica_fetch,
    encode_replica_fetch,
)

INT32 = st.integers(-1, 2**31 - 1)
INT64 = st.integers(-1, 2**63 - 1)
PARTITIONS = st.builds(FetchPartition, INT32, INT32, INT64, INT32, INT64, INT32)
BODY_AT = 9


@given(
    st.dictionaries(st.uuids(), st.lists(PARTITIONS, min_size=1, max_size=3), max_size=3),
    st.dictionaries(st.uuids(), st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=3), max_size=3),
)
def test_a_leader_reads_what_a_follower_writes(
    wanted: dict[UUID, list[FetchPartition]], forgotten: dict[UUID, list[int]]
) -> None:
    body = encode_replica_fetch(3, 1 << 40, FetchLimits(500, 1, 1 << 20), (7, 8), wanted, forgotten)
    request = decode_fetch_request(memoryview(body), 0, VERSION)
    assert (request.replica_id, request.replica_epoch) == (3, 1 << 40)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 1 << 20)
    assert (request.session_id, request.session_epoch) == (7, 8)
    assert {each.topic_id: each.partitions for each in request.topics} == wanted
    assert {each.topic_id: list(each.partitions) for each in request.forgotten} == forgotten


RESULTS = st.builds(
    FetchPartitionResult,
    st.integers(0, 2**31 - 1),
    st.integers(0, 100),
    INT64,
    INT64,
    INT64,
    st.binary(max_size=50),
    st.none() | st.lists(st.tuples(INT64, INT64), max_size=2),
    st.integers(-1, 5),
    st.none() | st.tuples(INT32, INT64),
    st.none() | st.builds(Leader, INT32, INT32),
    st.none(),
)


@given(st.dictionaries(st.uuids(), st.lists(RESULTS, max_size=3), max_size=3), st.data())
def test_a_follower_reads_what_a_leader_writes(
    results: dict[UUID, list[FetchPartitionResult]], data: st.DataObject
) -> None:
    topics = [FetchTopicResult(None, topic_id, each) for topic_id, each in results.items()]
    pieces = encode_fetch_response(VERSION, 1, 20, 0, 77, topics)
    frame = memoryview(b"".join(each for each in pieces if isinstance(each, bytes)))
    response = decode_replica_fetch(frame, BODY_AT)
    assert (response.throttle_ms, response.error_code, response.session_id) == (20, 0, 77)
    assert [
        (each.topic_id, each.partition, each.error_code, each.high_watermark, each.log_start_offset)
        for each in response.results
    ] == [
        (topic_id, each.partition, each.error_code, each.high_watermark, each.log_start_offset)
        for topic_id, some in results.items()
        for each in some
    ]
    expected = [each for some in results.values() for each in some]
    assert [bytes(each.records) for each in response.results] == [each.records for each in expected]
    assert [each.diverging_epoch for each in response.results] == [each.diverging_epoch for each in expected]
    if response.results:
        cut = data.draw(st.integers(BODY_AT, len(frame) - 2))
        with pytest.raises(InvalidRequest):
            decode_replica_fetch(frame[:cut], BODY_AT)
