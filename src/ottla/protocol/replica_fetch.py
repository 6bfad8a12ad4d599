"""Fetch as a follower speaks it, version 17: requests written and responses read by hand.

The layouts are those of fetch_codec.py. Records stay slices of the frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct, error
from typing import NamedTuple
from uuid import UUID

from ottla.protocol.errors import InvalidRequest
from ottla.protocol.fetch_codec import FetchPartition
from ottla.protocol.primitives import (
    encode_uvarint,
    read_tag,
    read_tag_count,
    read_uvarint,
    skip_tagged_fields,
    truncated,
)

VERSION = 17

_LIMITS = Struct(">iiibii")
_PARTITION = Struct(">iiqiqiB")
_REPLICA = Struct(">BBBiqB")
_HEAD = Struct(">ihi")
_RESULT = Struct(">ihqqq")
_INT32 = Struct(">i")
_EPOCH_END = Struct(">iq")
_LEADER = Struct(">ii")
_UUID_BYTES = 16
_ABORTED_BYTES = 17


class FetchLimits(NamedTuple):
    """How long a leader may wait for how much, and how much it may send."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int


class ReplicaFetchResult(NamedTuple):
    """What a leader answers for one partition."""

    topic_id: UUID
    partition: int
    error_code: int
    high_watermark: int
    log_start_offset: int
    records: memoryview
    diverging_epoch: tuple[int, int] | None


class ReplicaFetchResponse(NamedTuple):
    """What a leader answers."""

    throttle_ms: int
    error_code: int
    session_id: int
    results: list[ReplicaFetchResult]


def encode_replica_fetch(
    replica_id: int,
    broker_epoch: int,
    limits: FetchLimits,
    session: tuple[int, int],
    wanted: Mapping[UUID, Sequence[FetchPartition]],
    forgotten: Mapping[UUID, Iterable[int]],
) -> bytes:
    """Return the body of a request; `session` is (session_id, session_epoch)."""
    out = bytearray(_LIMITS.pack(*limits, 0, *session))
    out += encode_uvarint(len(wanted) + 1)
    for topic_id, partitions in wanted.items():
        out += topic_id.bytes
        out += encode_uvarint(len(partitions) + 1)
        for each in partitions:
            out += _PARTITION.pack(*each, 0)
        out.append(0)
    out += encode_uvarint(len(forgotten) + 1)
    for topic_id, indexes in forgotten.items():
        numbers = list(indexes)
        out += topic_id.bytes
        out += encode_uvarint(len(numbers) + 1)
        for number in numbers:
            out += _INT32.pack(number)
        out.append(0)
    out.append(1)  # an empty rack
    out += _REPLICA.pack(1, 1, 13, replica_id, broker_epoch, 0)  # one tag: number 1, 13 bytes
    return bytes(out)


def decode_replica_fetch(frame: memoryview, at: int) -> ReplicaFetchResponse:
    """Return the response whose body starts at `at`; InvalidRequest if it cannot be read."""
    try:
        return _read(frame, at)
    except (IndexError, ValueError, error):  # ValueError: a topic id that is cut off
        raise truncated() from None


def _read(frame: memoryview, at: int) -> ReplicaFetchResponse:
    throttle_ms, error_code, session_id = _HEAD.unpack_from(frame, at)
    at += _HEAD.size
    results: list[ReplicaFetchResult] = []
    topic_count, at = read_uvarint(frame, at)
    for _ in range(topic_count - 1):
        topic_id = UUID(bytes=bytes(frame[at : at + _UUID_BYTES]))
        count, at = read_uvarint(frame, at + _UUID_BYTES)
        for _ in range(count - 1):
            result, at = _read_result(frame, at, topic_id)
            results.append(result)
        at = skip_tagged_fields(frame, at)
    return ReplicaFetchResponse(throttle_ms, error_code, session_id, results)


def _read_result(frame: memoryview, at: int, topic_id: UUID) -> tuple[ReplicaFetchResult, int]:
    index, error_code, high_watermark, _stable, log_start = _RESULT.unpack_from(frame, at)
    aborted, at = read_uvarint(frame, at + _RESULT.size)
    for _ in range(aborted - 1):
        at = skip_tagged_fields(frame, at + _ABORTED_BYTES - 1)
    size, at = read_uvarint(frame, at + _INT32.size)  # after the preferred replica
    size = max(0, size - 1)
    records = frame[at : at + size]
    if len(records) != size:
        raise truncated()
    diverging, at = _read_tags(frame, at + size)
    result = ReplicaFetchResult(topic_id, index, error_code, high_watermark, log_start, records, diverging)
    return result, at


def _read_tags(frame: memoryview, at: int) -> tuple[tuple[int, int] | None, int]:
    if frame[at] == 0:
        return None, at + 1
    diverging: tuple[int, int] | None = None
    count, at = read_tag_count(frame, at)
    for _ in range(count):
        tag, at, end = read_tag(frame, at)
        if end > len(frame):
            raise InvalidRequest(f"the tagged field {tag} lies about its size")
        if tag == 0:
            diverging = _EPOCH_END.unpack_from(frame, at)
        at = end
    return diverging, at
