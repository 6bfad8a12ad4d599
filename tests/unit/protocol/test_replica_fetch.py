"""The fields of Fetch that followers use, against the codec of leaders."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import InvalidRequest
from ottla.protocol.fetch_client import (
    FetchPartitionRequest,
    FetchSettings,
    Topic,
    decode_fetch_response,
    encode_fetch_request,
)
from ottla.protocol.fetch_codec import (
    FetchPartitionResult,
    FetchTopicResult,
    decode_fetch_request,
    encode_fetch_response,
)
from ottla.protocol.hot_path import Leader

INT32 = st.integers(-1, 2**31 - 1)
INT64 = st.integers(-1, 2**63 - 1)
INDEXES = st.integers(0, 2**31 - 1)
PARTITIONS = st.dictionaries(
    INDEXES, st.builds(FetchPartitionRequest, INT64, INT32, INT32, INT32, INT64), min_size=1, max_size=3
)
TOPICS = st.builds(Topic, st.just("name"), st.uuids())
BODY_AT = 9


@given(
    st.dictionaries(TOPICS, PARTITIONS, max_size=3),
    st.dictionaries(TOPICS, st.lists(INDEXES, min_size=1, max_size=3), max_size=3),
)
def test_a_leader_decodes_what_a_follower_encodes(
    wanted: dict[Topic, dict[int, FetchPartitionRequest]], forgotten: dict[Topic, list[int]]
) -> None:
    settings = FetchSettings(500, 1, 1 << 20, 0, replica=(3, 1 << 40))
    body = encode_fetch_request(17, settings, (7, 8), wanted, forgotten)
    request = decode_fetch_request(memoryview(body), 0, 17)
    assert (request.replica_id, request.replica_epoch) == (3, 1 << 40)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 1 << 20)
    assert (request.session_id, request.session_epoch) == (7, 8)
    assert {
        each.topic_id: {
            found.partition: (
                found.fetch_offset,
                found.current_leader_epoch,
                found.max_bytes,
                found.last_fetched_epoch,
                found.log_start_offset,
            )
            for found in each.partitions
        }
        for each in request.topics
    } == {topic.topic_id: partitions for topic, partitions in wanted.items()}
    assert {each.topic_id: list(each.partitions) for each in request.forgotten} == {
        topic.topic_id: indexes for topic, indexes in forgotten.items()
    }


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
def test_a_follower_decodes_what_a_leader_encodes(
    results: dict[UUID, list[FetchPartitionResult]], data: st.DataObject
) -> None:
    topics = [FetchTopicResult(None, topic_id, each) for topic_id, each in results.items()]
    pieces = encode_fetch_response(17, 1, 20, 0, 77, topics)
    frame = memoryview(b"".join(each for each in pieces if isinstance(each, bytes)))
    response = decode_fetch_response(frame, BODY_AT, 17)
    found = [(topic_id, each) for _, topic_id, some in response.topics for each in some]
    assert (response.throttle_ms, response.error_code, response.session_id) == (20, 0, 77)
    assert [
        (topic_id, each.partition, each.error_code, each.high_watermark, each.log_start_offset)
        for topic_id, each in found
    ] == [
        (topic_id, each.partition, each.error_code, each.high_watermark, each.log_start_offset)
        for topic_id, some in results.items()
        for each in some
    ]
    expected = [each for some in results.values() for each in some]
    assert [bytes(each.records) for _, each in found] == [each.records for each in expected]
    assert [each.diverging_epoch for _, each in found] == [each.diverging_epoch for each in expected]
    if found:
        cut = data.draw(st.integers(BODY_AT, len(frame) - 2))
        with pytest.raises(InvalidRequest):
            decode_fetch_response(frame[:cut], BODY_AT, 17)
