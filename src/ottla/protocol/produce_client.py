"""Produce as a client sees it: requests encoded around the batches, without copying them; responses decoded.

The layouts are described in produce_codec.py, which is the broker's side of this. Versions 3 to 12: topics
go by their names, so that a topic which was deleted and created again takes records at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from struct import Struct, error

from ottla.protocol.hot_path import (
    Leader,
    NodeEndpoint,
    check_version,
    encode_count,
    encode_topic_key,
    read_count,
    read_endpoints_section,
    read_leader_section,
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
    read_text,
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

LEADER_TAG = 0

MAX_ELEMENTS = 1_000_000

_ACKS_AND_TIMEOUT = Struct(">hi")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_INDEX_AND_SIZE = Struct(">ii")
_RESULT = Struct(">ihqq")
_LONE_RESULT = Struct(">BihqqqBBBBiB")
"""What follows the topic's name where one batch was sent and stored, from version 9 on: `_lone_result`."""

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
    if flexible and len(topics) == 1:
        ((name, partitions),) = topics.items()
        if len(partitions) == 1:
            ((index, batch),) = partitions
            head = _lone_head(transactional_id, acks, timeout_ms, name, index)
            return [head + encode_uvarint(len(batch) + 1), batch, b"\0\0\0"]
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


@lru_cache(maxsize=1024)
def _lone_head(transactional_id: str | None, acks: int, timeout_ms: int, name: str, index: int) -> bytes:
    """Return all that goes before the size of a lone batch: the same for every request of a partition."""
    head = encode_compact_string(transactional_id) + _ACKS_AND_TIMEOUT.pack(acks, timeout_ms)
    return head + b"\x02" + encode_compact_string(name) + b"\x02" + _INT32.pack(index)


def decode_produce_response(frame: memoryview, at: int, version: int) -> tuple[Results, list[NodeEndpoint]]:
    """Return the results by topic and partition, and the addresses of leaders that were named."""
    check_version(version, FIRST_VERSION, LAST_VERSION)
    flexible = version >= FLEXIBLE_FROM
    if flexible and (lone := _lone_result(frame, at)) is not None:
        return lone, []
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
            endpoints = read_endpoints_section(frame, at)
    except (IndexError, error):
        raise truncated() from None
    return results, endpoints


def _lone_result(frame: memoryview, at: int) -> Results | None:
    """Return the result of the one batch that was sent, read at once; None if there is more to be read.

    topics 1+1 | name | partitions 1+1 | index, error, three int64 | record errors 0+1, message null,
    no tagged fields of the partition and of the topic | throttle time | no tagged fields
    """
    start = at + 2
    end = len(frame) - _LONE_RESULT.size
    if end < start or frame[at] != 2 or frame[at + 1] != end - start + 1 or frame[at + 1] >= 0x80:
        return None
    count, index, code, base, time, log_start, errors, message, tags, more_tags, _, last_tags = (
        _LONE_RESULT.unpack_from(frame, end)
    )
    if count != 2 or errors != 1 or message or tags or more_tags or last_tags:
        return None
    name = read_text(frame, start, end - start)
    return {(name, index): ProducePartitionResult(index, code, base, time, log_start, None, [])}


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
        leader, at = read_leader_section(frame, at, LEADER_TAG)
    result = ProducePartitionResult(
        index, error_code, base_offset, append_time, log_start, message, record_errors, leader
    )
    return result, at
