"""Produce as a client sees it: requests encoded around the batches, without copying them; responses decoded.

The layouts are described in produce_codec.py, which is the broker's side of this. Versions 3 to 12: topics
go by their names, so that a topic which was deleted and created again takes records at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct, error

from ottla.protocol.hot_path import (
    Leader,
    NodeEndpoint,
    check_version,
    encode_count,
    encode_topic_key,
    read_count,
)
from ottla.protocol.primitives import (
    Buffer,
    encode_compact_string,
    encode_string,
    encode_uvarint,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
    read_tag,
    read_tag_count,
    skip_tagged_fields,
    truncated,
)
from ottla.protocol.produce_codec import (
    FIRST_VERSION,
    FLEXIBLE_FROM,
    LOG_START_FROM,
    RECORD_ERRORS_FROM,
    ProducePartitionResult,
)

LAST_VERSION = 12
"""The newest version that names topics."""

FIRST_IMPLICIT_VERSION = 12
"""From this version on, a partition that is written to joins the transaction by that (KIP-890)."""

MAX_ELEMENTS = 1_000_000

_ACKS_AND_TIMEOUT = Struct(">hi")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_INDEX_AND_SIZE = Struct(">ii")
_RESULT = Struct(">ihqq")
_LEADER = Struct(">ii")

Results = dict[tuple[str, int], ProducePartitionResult]


def encode_produce_request(
    version: int,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: Mapping[str, Sequence[tuple[int, Buffer]]],
) -> list[Buffer]:
    """Return the body of a request, in pieces: the batches are among them as they were given."""
    check_version(version, FIRST_VERSION, LAST_VERSION)
    flexible = version >= FLEXIBLE_FROM
    text = encode_compact_string if flexible else encode_string
    pieces: list[Buffer] = []
    head = text(transactional_id) + _ACKS_AND_TIMEOUT.pack(acks, timeout_ms)
    head += encode_count(len(topics), flexible)
    for name, partitions in topics.items():
        head += encode_topic_key(name, None, flexible, False) + encode_count(len(partitions), flexible)
        for index, batch in partitions:
            if flexible:
                head += _INT32.pack(index) + encode_uvarint(len(batch) + 1)
            else:
                head += _INDEX_AND_SIZE.pack(index, len(batch))
            pieces += (head, batch)
            head = b"\0" if flexible else b""  # the partition's tagged fields
        if flexible:
            head += b"\0"
    if flexible:
        head += b"\0"
    pieces.append(head)
    return pieces


def decode_produce_response(frame: memoryview, at: int, version: int) -> tuple[Results, list[NodeEndpoint]]:
    """Return the results by topic and partition, and the addresses of leaders that were named."""
    check_version(version, FIRST_VERSION, LAST_VERSION)
    flexible = version >= FLEXIBLE_FROM
    results: Results = {}
    endpoints: list[NodeEndpoint] = []
    try:
        topic_count, at = read_count(frame, at, flexible, 3, MAX_ELEMENTS)
        for _ in range(topic_count):
            name, at = read_compact_string(frame, at) if flexible else read_string(frame, at)
            count, at = read_count(frame, at, flexible, 22, MAX_ELEMENTS)
            for _ in range(count):
                result, at = _read_result(frame, at, version)
                results[name, result.partition] = result
            if flexible:
                at = skip_tagged_fields(frame, at)
        at += 4  # the throttle time
        if flexible:
            endpoints = _read_endpoints(frame, at)
    except (IndexError, error):
        raise truncated() from None
    return results, endpoints


def _read_result(frame: memoryview, at: int, version: int) -> tuple[ProducePartitionResult, int]:
    index, error_code, base_offset, append_time = _RESULT.unpack_from(frame, at)
    at += 22
    log_start, message = -1, None
    record_errors: list[tuple[int, str | None]] = []
    leader: Leader | None = None
    flexible = version >= FLEXIBLE_FROM
    if version >= LOG_START_FROM:
        (log_start,) = _INT64.unpack_from(frame, at)
        at += 8
    if version >= RECORD_ERRORS_FROM:
        read_text = read_compact_nullable_string if flexible else read_nullable_string
        count, at = read_count(frame, at, flexible, 5, MAX_ELEMENTS)
        for _ in range(count):
            (place,) = _INT32.unpack_from(frame, at)
            text, at = read_text(frame, at + 4)
            record_errors.append((place, text))
            if flexible:
                at = skip_tagged_fields(frame, at)
        message, at = read_text(frame, at)
    if flexible:
        leader, at = _read_leader(frame, at)
    result = ProducePartitionResult(
        index, error_code, base_offset, append_time, log_start, message, record_errors, leader
    )
    return result, at


def _read_leader(frame: memoryview, at: int) -> tuple[Leader | None, int]:
    if frame[at] == 0:
        return None, at + 1
    leader = None
    count, at = read_tag_count(frame, at)
    for _ in range(count):
        tag, start, at = read_tag(frame, at)
        if tag == 0:
            leader = Leader(*_LEADER.unpack_from(frame, start))
    return leader, at


def _read_endpoints(frame: memoryview, at: int) -> list[NodeEndpoint]:
    endpoints = []
    tags, at = read_tag_count(frame, at)
    for _ in range(tags):
        tag, start, at = read_tag(frame, at)
        if tag != 0:
            continue
        count, start = read_count(frame, start, True, 11, MAX_ELEMENTS)
        for _ in range(count):
            (node_id,) = _INT32.unpack_from(frame, start)
            host, start = read_compact_string(frame, start + 4)
            (port,) = _INT32.unpack_from(frame, start)
            rack, start = read_compact_nullable_string(frame, start + 4)
            start = skip_tagged_fields(frame, start)
            endpoints.append(NodeEndpoint(node_id, host, port, rack))
    return endpoints
