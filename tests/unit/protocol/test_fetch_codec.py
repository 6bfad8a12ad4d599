"""Fetch by hand against kio, in every version."""

from __future__ import annotations

import struct
import uuid
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader
from tests.unit.protocol.entities import kio_bytes, random_entity

from ottla.common.file_range import FileRange
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRequest, KafkaError, UnsupportedVersion
from ottla.protocol.fetch_codec import (
    FetchPartitionResult,
    FetchRequest,
    FetchTopicResult,
    Leader,
    NodeEndpoint,
    decode_fetch_request,
    encode_fetch_response,
)
from ottla.protocol.frames import decode_response_header
from ottla.protocol.primitives import encode_uvarint
from ottla.protocol.schema.messages import MAX_REQUEST_ELEMENTS, request_class, response_class

VERSIONS = range(4, 19)
ZERO_ID = uuid.UUID(int=0)
versions = pytest.mark.parametrize("version", VERSIONS)


class MemoryFile:
    """A file that is only bytes."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def fileno(self) -> int:
        return -1

    def read_at(self, position: int, size: int) -> bytes:
        return self.content[position : position + size]


def milliseconds(duration: Any) -> int:
    return round(duration.total_seconds() * 1000)


def key_of(topic: Any, version: int) -> tuple[str | None, uuid.UUID | None]:
    if version < 13:
        return topic.topic, None
    return None, ZERO_ID if topic.topic_id is None else topic.topic_id


def from_kio_request(request: Any, version: int) -> FetchRequest:
    state = getattr(request, "replica_state", None)
    topics = [
        (
            *key_of(topic, version),
            [
                (
                    part.partition,
                    getattr(part, "current_leader_epoch", -1),
                    part.fetch_offset,
                    getattr(part, "last_fetched_epoch", -1),
                    getattr(part, "log_start_offset", -1),
                    part.partition_max_bytes,
                )
                for part in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    forgotten = [
        (*key_of(topic, version), topic.partitions) for topic in getattr(request, "forgotten_topics_data", ())
    ]
    return FetchRequest(
        replica_id=request.replica_id if state is None else state.replica_id,
        replica_epoch=-1 if state is None else state.replica_epoch,
        max_wait_ms=milliseconds(request.max_wait),
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        isolation_level=request.isolation_level,
        session_id=getattr(request, "session_id", 0),
        session_epoch=getattr(request, "session_epoch", -1),
        topics=topics,  # type: ignore[arg-type]
        forgotten=forgotten,  # type: ignore[arg-type]
        rack_id=getattr(request, "rack_id", ""),
        cluster_id=getattr(request, "cluster_id", None),
    )


@versions
def test_requests_are_read_as_kio_writes_them(version: int) -> None:
    random = Random(version)
    for _ in range(50):
        request = random_entity(random, request_class(ApiKey.FETCH, version))
        frame = memoryview(bytearray(b"header" + kio_bytes(request)))
        assert decode_fetch_request(frame, 6, version) == from_kio_request(request, version)


def pair(value: Any, first: str, second: str) -> tuple[int, int] | None:
    """Return the two numbers of a tagged struct, or None if it is not there."""
    if value is None or value == type(value)():
        return None
    return getattr(value, first), getattr(value, second)


def from_kio_partition(part: Any, random: Random) -> FetchPartitionResult:
    records = part.records or b""
    aborted = part.aborted_transactions
    leader = pair(getattr(part, "current_leader", None), "leader_id", "leader_epoch")
    in_file = FileRange(MemoryFile(b"??" + records + b"!!"), 2, len(records))
    return FetchPartitionResult(
        part.partition_index,
        int(part.error_code),
        part.high_watermark,
        part.last_stable_offset,
        getattr(part, "log_start_offset", -1),
        random.choice((in_file, records)),
        None if aborted is None else [(a.producer_id, a.first_offset) for a in aborted],
        getattr(part, "preferred_read_replica", -1),
        pair(getattr(part, "diverging_epoch", None), "epoch", "end_offset"),
        None if leader is None else Leader(*leader),
        pair(getattr(part, "snapshot_id", None), "end_offset", "epoch"),
    )


def body_of(chunks: list[bytes | FileRange], version: int, correlation_id: int) -> bytes:
    """Join the chunks, check the frame's size and header, and return the rest."""
    frame = b"".join(chunk.read() if isinstance(chunk, FileRange) else chunk for chunk in chunks)
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    found, at = decode_response_header(frame[4:], ApiKey.FETCH, version)
    assert found == correlation_id
    return frame[4 + at :]


def without_null_records(response: Any) -> Any:
    """Return the response as we write it: no records are empty bytes."""
    topics = []
    for topic in response.responses:
        parts = tuple(replace(part, records=part.records or b"") for part in topic.partitions)
        topics.append(replace(topic, partitions=parts))
    return replace(response, responses=tuple(topics))


@versions
def test_responses_are_written_as_kio_writes_them(version: int) -> None:
    random = Random(version)
    cls = response_class(ApiKey.FETCH, version)
    for _ in range(50):
        response = without_null_records(random_entity(random, cls))
        topics = [
            FetchTopicResult(
                *key_of(topic, version), [from_kio_partition(part, random) for part in topic.partitions]
            )
            for topic in response.responses
        ]
        endpoints = [
            NodeEndpoint(node.node_id, node.host, node.port, node.rack)
            for node in getattr(response, "node_endpoints", ())
        ]
        chunks = encode_fetch_response(
            version,
            -5,
            milliseconds(response.throttle_time),
            int(getattr(response, "error_code", 0)),
            getattr(response, "session_id", 0),
            topics,
            endpoints,
        )
        body = body_of(chunks, version, -5)
        assert body == kio_bytes(response)
        assert entity_reader(cls)(body, 0) == (response, len(body))


@versions
def test_an_empty_partition_has_empty_records_and_no_preferred_replica(version: int) -> None:
    topics = [FetchTopicResult("t", uuid.UUID(int=9), [FetchPartitionResult(2, 0, 10, 10, 0)])]
    body = body_of(encode_fetch_response(version, 3, 0, 0, 0, topics), version, 3)
    response, _ = entity_reader(response_class(ApiKey.FETCH, version))(body, 0)
    (part,) = response.responses[0].partitions
    assert part.records == b""
    assert part.aborted_transactions is None
    assert getattr(part, "preferred_read_replica", -1) == -1


def test_file_ranges_and_large_records_stay_chunks_of_their_own() -> None:
    large, small = bytes(10_000), b"small"
    in_file = FileRange(MemoryFile(bytes(500)), 100, 300)
    results = [FetchPartitionResult(i, records=r) for i, r in enumerate((small, in_file, large, b""))]
    chunks = encode_fetch_response(12, 1, 0, 0, 0, [FetchTopicResult("t", None, results)])
    assert [type(chunk) for chunk in chunks] == [bytes, FileRange, bytes, bytes, bytes]
    assert chunks[1] is in_file
    assert chunks[3] is large
    response, _ = entity_reader(response_class(ApiKey.FETCH, 12))(body_of(chunks, 12, 1), 0)
    assert [part.records for part in response.responses[0].partitions] == [small, bytes(300), large, b""]


def test_a_response_without_topics_is_one_chunk() -> None:
    for version in VERSIONS:
        chunks = encode_fetch_response(version, 1, 7, 70, 9, [])
        assert len(chunks) == 1
        response, _ = entity_reader(response_class(ApiKey.FETCH, version))(body_of(chunks, version, 1), 0)
        assert getattr(response, "error_code", 70) == 70
        assert getattr(response, "session_id", 9) == 9


@pytest.mark.parametrize("version", [-1, 3, 19])
def test_other_versions_are_unsupported(version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        decode_fetch_request(memoryview(b""), 0, version)
    with pytest.raises(UnsupportedVersion):
        encode_fetch_response(version, 1, 0, 0, 0, [])


@versions
def test_requests_cut_off_anywhere_are_refused_and_bytes_after_them_ignored(version: int) -> None:
    random = Random(version)
    raw = kio_bytes(random_entity(random, request_class(ApiKey.FETCH, version)))
    for cut in range(len(raw)):
        with pytest.raises(InvalidRequest):
            decode_fetch_request(memoryview(raw[:cut]), 0, version)
    longer = decode_fetch_request(memoryview(raw + b"\x00"), 0, version)
    assert longer == decode_fetch_request(memoryview(raw), 0, version)


@given(st.integers(0, 2**32), st.integers(4, 18))
def test_damaged_requests_are_read_or_refused(seed: int, version: int) -> None:
    random = Random(seed)
    raw = bytearray(kio_bytes(random_entity(random, request_class(ApiKey.FETCH, version))))
    for _ in range(3):
        raw[random.randrange(len(raw))] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
    try:
        request = decode_fetch_request(memoryview(raw), 0, version)
    except KafkaError:
        return
    assert sum(len(topic.partitions) for topic in request.topics) * 16 <= len(raw)


HEAD_V4 = struct.pack(">iiiib", -1, 500, 1, 2**20, 0)
HEAD_V13 = HEAD_V4 + struct.pack(">ii", 0, 0)


@pytest.mark.parametrize(
    ("version", "raw"),
    [
        (4, HEAD_V4 + struct.pack(">i", 2**31 - 1)),
        (4, HEAD_V4 + struct.pack(">i", -1)),
        (4, HEAD_V4 + struct.pack(">i", 1) + b"\x00\x01t" + struct.pack(">i", 2**31 - 1)),
        (4, HEAD_V4 + struct.pack(">i", 1) + b"\xff\xff" + struct.pack(">i", 0)),
        (13, HEAD_V13 + b"\xff\xff\xff\xff\x0f"),
        (13, HEAD_V13 + b"\x02" + bytes(16) + b"\xff\xff\xff\xff\x0f"),
        (13, HEAD_V13 + b"\x01\x02" + bytes(16) + b"\xff\xff\xff\xff\x0f"),
        (13, HEAD_V13 + b"\x01\x01\x00\x00"),
        (13, HEAD_V13 + b"\x01\x01\x01\x41" + b"\x09\x00" * 65),
        (13, HEAD_V13 + b"\x01\x01\x01\x01\x00\x09\x03ab"),
        (15, HEAD_V13[4:] + b"\x01\x01\x01\x01\x01\x04" + bytes(4)),
        (15, HEAD_V13[4:] + b"\x01\x01\x01\x01\x01\x0e" + bytes(14)),
    ],
)
def test_lying_lengths_are_refused(version: int, raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        decode_fetch_request(memoryview(raw), 0, version)


def test_too_many_topics_partitions_or_tagged_fields_are_refused() -> None:
    count = MAX_REQUEST_ELEMENTS
    topics = encode_uvarint(count // 2 + 2) + (bytes(16) + b"\x01\x00") * (count // 2 + 1)
    with pytest.raises(InvalidRequest, match="elements"):
        decode_fetch_request(memoryview(HEAD_V13 + topics + b"\x01\x01\x00"), 0, 13)
    forgotten = b"\x02" + bytes(16) + encode_uvarint(count + 1) + bytes(4 * count) + b"\x00"
    with pytest.raises(InvalidRequest, match="elements"):
        decode_fetch_request(memoryview(HEAD_V13 + b"\x01" + forgotten + b"\x01\x00"), 0, 13)
    tagged = (bytes(32) + b"\x40" + b"\x05\x00" * 64) * 2_000
    topics = b"\x02" + bytes(16) + encode_uvarint(2_001) + tagged + b"\x00"
    with pytest.raises(InvalidRequest, match="elements"):
        decode_fetch_request(memoryview(HEAD_V13 + topics + b"\x01\x01\x00"), 0, 13)


def test_unknown_tagged_fields_are_skipped() -> None:
    raw = HEAD_V13 + b"\x01\x01\x01" + b"\x02\x01\x02??\x07\x00"
    assert decode_fetch_request(memoryview(raw), 0, 14).replica_epoch == -1
