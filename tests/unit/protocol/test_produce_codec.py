"""Produce by hand against kio, in every version."""

from __future__ import annotations

import struct
import uuid
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader
from tests.unit.protocol.entities import kio_bytes, random_entity

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRequest, KafkaError, UnsupportedVersion
from ottla.protocol.frames import decode_response_header
from ottla.protocol.hot_path import Leader, NodeEndpoint
from ottla.protocol.primitives import encode_uvarint
from ottla.protocol.produce_codec import (
    ProducePartitionResult,
    ProduceRequest,
    ProduceTopicResult,
    decode_produce_request,
    encode_produce_response,
)
from ottla.protocol.schema.messages import MAX_REQUEST_ELEMENTS, request_class, response_class

VERSIONS = range(3, 14)
EPOCH = datetime.fromtimestamp(0, UTC)
versions = pytest.mark.parametrize("version", VERSIONS)


def milliseconds(moment: datetime | None) -> int:
    return -1 if moment is None else round((moment - EPOCH).total_seconds() * 1000)


def zero_if_none(topic_id: uuid.UUID | None) -> uuid.UUID:
    return uuid.UUID(int=0) if topic_id is None else topic_id


def plain(request: ProduceRequest) -> tuple[Any, ...]:
    """Return the request as nested tuples, with the records as bytes."""
    topics = [
        (
            name,
            topic_id,
            [(index, None if records is None else bytes(records)) for index, records in partitions],
        )
        for name, topic_id, partitions in request.topics
    ]
    return request.transactional_id, request.acks, request.timeout_ms, topics


def plain_kio(request: Any, version: int) -> tuple[Any, ...]:
    topics = [
        (
            topic.name if version < 13 else None,
            zero_if_none(topic.topic_id) if version >= 13 else None,
            [(partition.index, partition.records) for partition in topic.partition_data],
        )
        for topic in request.topic_data
    ]
    timeout_ms = round(request.timeout.total_seconds() * 1000)
    return request.transactional_id, request.acks, timeout_ms, topics


@versions
def test_requests_are_read_as_kio_writes_them(version: int) -> None:
    random = Random(version)
    for _ in range(50):
        request = random_entity(random, request_class(ApiKey.PRODUCE, version))
        frame = memoryview(bytearray(b"header" + kio_bytes(request)))
        assert plain(decode_produce_request(frame, 6, version)) == plain_kio(request, version)


def test_the_records_are_slices_of_the_frame_and_not_copies() -> None:
    frame = bytearray(
        b"\xff\xff" + struct.pack(">hii", 1, 100, 1) + b"\x00\x01t" + struct.pack(">iii", 1, 7, 3) + b"abc"
    )
    request = decode_produce_request(memoryview(frame), 0, 8)
    ((index, records),) = request.topics[0].partitions
    assert (index, bytes(records or b"")) == (7, b"abc")
    frame[-1] = ord("!")
    assert bytes(records or b"") == b"ab!"


def from_kio(response: Any, version: int) -> tuple[list[ProduceTopicResult], int, list[NodeEndpoint]]:
    """Return the arguments that make our encoder write the same response."""
    topics = []
    for topic in response.responses:
        results = []
        for part in topic.partition_responses:
            leader = getattr(part, "current_leader", None)
            results.append(
                ProducePartitionResult(
                    part.index,
                    int(part.error_code),
                    part.base_offset,
                    milliseconds(part.log_append_time),
                    getattr(part, "log_start_offset", -1),
                    getattr(part, "error_message", None),
                    [
                        (e.batch_index, e.batch_index_error_message)
                        for e in getattr(part, "record_errors", ())
                    ],
                    None
                    if leader in (None, type(leader)())
                    else Leader(leader.leader_id, leader.leader_epoch),
                )
            )
        name = topic.name if version < 13 else None
        topics.append(ProduceTopicResult(name, topic.topic_id if version >= 13 else None, results))
    endpoints = [
        NodeEndpoint(n.node_id, n.host, n.port, n.rack) for n in getattr(response, "node_endpoints", ())
    ]
    return topics, round(response.throttle_time.total_seconds() * 1000), endpoints


def body_of(frame: bytes, version: int, correlation_id: int) -> bytes:
    """Check the frame's size and header, and return the rest."""
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    found, at = decode_response_header(frame[4:], ApiKey.PRODUCE, version)
    assert found == correlation_id
    return frame[4 + at :]


@versions
def test_responses_are_written_as_kio_writes_them(version: int) -> None:
    random = Random(version)
    cls = response_class(ApiKey.PRODUCE, version)
    for _ in range(50):
        response = random_entity(random, cls)
        topics, throttle_ms, endpoints = from_kio(response, version)
        body = body_of(encode_produce_response(version, 77, topics, throttle_ms, endpoints), version, 77)
        assert body == kio_bytes(response)
        assert entity_reader(cls)(body, 0) == (response, len(body))


@versions
def test_one_good_partition_takes_the_fast_path_to_the_same_bytes(version: int) -> None:
    cls = response_class(ApiKey.PRODUCE, version)
    topic_id = uuid.UUID(int=5)
    result = ProducePartitionResult(3, 0, 2**40, 1_700_000_000_000, 17)
    topics = [ProduceTopicResult("örders" * 30, topic_id, [result])]
    body = body_of(encode_produce_response(version, -1, topics, 250), version, -1)
    response, size = entity_reader(cls)(body, 0)
    assert size == len(body)
    assert kio_bytes(response) == body
    (topic,) = response.responses
    assert (topic.name if version < 13 else topic.topic_id) == ("örders" * 30 if version < 13 else topic_id)
    (partition,) = topic.partition_responses
    assert (partition.index, partition.error_code, partition.base_offset) == (3, 0, 2**40)
    assert milliseconds(partition.log_append_time) == 1_700_000_000_000
    assert getattr(partition, "log_start_offset", 17) == 17
    assert response.throttle_time.total_seconds() == 0.25


@versions
def test_no_topics_at_all_is_a_valid_message_both_ways(version: int) -> None:
    body = body_of(encode_produce_response(version, 1, []), version, 1)
    response, _ = entity_reader(response_class(ApiKey.PRODUCE, version))(body, 0)
    assert response.responses == ()
    request = random_entity(Random(1), request_class(ApiKey.PRODUCE, version))
    empty = type(request)(acks=0, timeout=request.timeout, topic_data=())
    assert decode_produce_request(memoryview(kio_bytes(empty)), 0, version).topics == []


@pytest.mark.parametrize("version", [-1, 0, 2, 14])
def test_other_versions_are_unsupported(version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        decode_produce_request(memoryview(b""), 0, version)


@versions
def test_requests_cut_off_anywhere_are_refused_and_bytes_after_them_ignored(version: int) -> None:
    random = Random(version)
    raw = kio_bytes(random_entity(random, request_class(ApiKey.PRODUCE, version)))
    for cut in range(len(raw)):
        with pytest.raises(InvalidRequest):
            decode_produce_request(memoryview(raw[:cut]), 0, version)
    longer = decode_produce_request(memoryview(raw + b"\x00"), 0, version)
    assert longer == decode_produce_request(memoryview(raw), 0, version)


@given(st.integers(0, 2**32), st.integers(3, 13))
def test_damaged_requests_are_read_or_refused(seed: int, version: int) -> None:
    random = Random(seed)
    raw = bytearray(kio_bytes(random_entity(random, request_class(ApiKey.PRODUCE, version))))
    for _ in range(3):
        raw[random.randrange(len(raw))] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
    try:
        request = decode_produce_request(memoryview(raw), 0, version)
    except KafkaError:
        return
    assert sum(len(records or b"") for topic in request.topics for _, records in topic.partitions) <= len(raw)


HEAD = struct.pack(">hi", -1, 1_000)


@pytest.mark.parametrize(
    ("version", "raw"),
    [
        (8, b"\xff\xff" + HEAD + struct.pack(">i", 2**31 - 1)),
        (8, b"\xff\xff" + HEAD + struct.pack(">i", -1)),
        (8, b"\xff\xff" + HEAD + struct.pack(">i", 1) + b"\x00\x01t" + struct.pack(">i", 2**31 - 1)),
        (8, b"\xff\xff" + HEAD + struct.pack(">i", 1) + b"\x00\x01t" + struct.pack(">iii", 1, 0, -2)),
        (8, b"\xff\xff" + HEAD + struct.pack(">i", 1) + b"\x00\x01t" + struct.pack(">iii", 1, 0, 2**31 - 1)),
        (8, b"\xff\xff" + HEAD + struct.pack(">i", 1) + b"\xff\xff" + struct.pack(">i", 0)),
        (9, b"\x00" + HEAD + b"\xff\xff\xff\xff\x0f"),
        (9, b"\x00" + HEAD + b"\x00\x00"),
        (9, b"\x00" + HEAD + b"\x02\x02t\xff\xff\xff\xff\x0f"),
        (9, b"\x00" + HEAD + b"\x02\x02t\x02" + struct.pack(">i", 0) + b"\xff\xff\xff\xff\x0f"),
        (9, b"\x00" + HEAD + b"\x01\x41" + b"\x00\x00" * 65),
    ],
)
def test_lying_lengths_are_refused(version: int, raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        decode_produce_request(memoryview(raw), 0, version)


def test_too_many_topics_partitions_or_tagged_fields_are_refused() -> None:
    count = MAX_REQUEST_ELEMENTS
    raw = b"\x00" + HEAD + encode_uvarint(count // 2 + 2) + b"\x02t\x01\x00" * (count // 2 + 1) + b"\x00"
    with pytest.raises(InvalidRequest, match="elements"):
        decode_produce_request(memoryview(raw), 0, 9)
    partitions = (struct.pack(">i", 0) + b"\x00\x00") * count
    raw = b"\x00" + HEAD + b"\x02\x02t" + encode_uvarint(count + 1) + partitions + b"\x00\x00"
    with pytest.raises(InvalidRequest, match="elements"):
        decode_produce_request(memoryview(raw), 0, 9)
    tagged = (struct.pack(">i", 0) + b"\x00\x40" + b"\x05\x00" * 64) * 2_000
    raw = b"\x00" + HEAD + b"\x02\x02t" + encode_uvarint(2_001) + tagged + b"\x00\x00"
    with pytest.raises(InvalidRequest, match="elements"):
        decode_produce_request(memoryview(raw), 0, 9)


def test_a_response_by_name_needs_a_name() -> None:
    topics = [ProduceTopicResult(None, uuid.UUID(int=1), [ProducePartitionResult(0)])]
    with pytest.raises(ValueError, match="name"):
        encode_produce_response(12, 1, topics)
