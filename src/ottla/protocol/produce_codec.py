"""Produce requests and responses, versions 3 to 13, by hand: this is the hottest path there is.

    request   transactional_id  nullable string
              acks              int16
              timeout_ms        int32
              topics            array of
                name            string      up to v12
                topic_id        uuid        from v13
                partitions      array of: index int32, records nullable bytes

    response  topics            array of
                name | topic_id as in the request
                partitions      array of
                  index               int32
                  error_code          int16
                  base_offset         int64
                  log_append_time_ms  int64
                  log_start_offset    int64                                        from v5
                  record_errors       array of: index int32, nullable message      from v8
                  error_message       nullable string                              from v8
                  current_leader      tag 0                                        from v10
              throttle_ms       int32
              node_endpoints    tag 0                                              from v10

From v9 on the messages are flexible: compact lengths, and tagged fields after every struct.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import NamedTuple
from uuid import UUID

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.frames import FIRST_FLEXIBLE_VERSION
from ottla.protocol.hot_path import (
    TOPIC_WEIGHT,
    Leader,
    NodeEndpoint,
    check_version,
    encode_count,
    encode_endpoints_section,
    encode_leader,
    encode_tag,
    encode_topic_key,
    read_count,
    read_topic_key,
    skip_tags,
)
from ottla.protocol.primitives import (
    encode_compact_string,
    encode_string,
    read_compact_nullable_string,
    read_nullable_string,
    read_uvarint,
    truncated,
)
from ottla.protocol.schema.messages import MAX_REQUEST_ELEMENTS

FIRST_VERSION, LAST_VERSION = 3, 13
FLEXIBLE_FROM = FIRST_FLEXIBLE_VERSION[ApiKey.PRODUCE]
LOG_START_FROM, RECORD_ERRORS_FROM, LEADERS_FROM, TOPIC_IDS_FROM = 5, 8, 10, 13

_ACKS_AND_TIMEOUT = Struct(">hi")
_INT32 = Struct(">i")
_INDEX_AND_SIZE = Struct(">ii")


class ProduceTopic(NamedTuple):
    """A topic of a request: its name or its id, and (index, records) for each partition."""

    name: str | None
    topic_id: UUID | None
    partitions: list[tuple[int, memoryview | None]]


class ProduceRequest(NamedTuple):
    """A produce request; the records are slices of its frame."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


class ProducePartitionResult(NamedTuple):
    """The result for one partition."""

    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()
    current_leader: Leader | None = None


class ProduceTopicResult(NamedTuple):
    """The results for one topic, which is identified as in the request."""

    name: str | None
    topic_id: UUID | None
    partitions: Sequence[ProducePartitionResult]


def decode_produce_request(frame: memoryview, at: int, version: int) -> ProduceRequest:
    """Return the request whose body starts at the position; raise InvalidRequest if it is malformed."""
    check_version(version, FIRST_VERSION, LAST_VERSION)
    flexible = version >= FLEXIBLE_FROM
    try:
        return _read_request(frame, at, flexible, version >= TOPIC_IDS_FROM)[0]
    except (IndexError, error):
        raise truncated() from None


def _read_request(frame: memoryview, at: int, flexible: bool, has_ids: bool) -> tuple[ProduceRequest, int]:
    if flexible:
        transactional_id, at = read_compact_nullable_string(frame, at)
        smallest_topic, smallest_partition = (18 if has_ids else 3), 6
    else:
        transactional_id, at = read_nullable_string(frame, at)
        smallest_topic, smallest_partition = 6, 8
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(frame, at)
    allowed = MAX_REQUEST_ELEMENTS
    topic_count, at = read_count(frame, at + 6, flexible, smallest_topic, allowed // TOPIC_WEIGHT)
    allowed -= topic_count * TOPIC_WEIGHT
    read_partition = _read_flexible_partition if flexible else _read_partition
    topics = []
    for _ in range(topic_count):
        name, topic_id, at = read_topic_key(frame, at, flexible, has_ids)
        count, at = read_count(frame, at, flexible, smallest_partition, allowed)
        allowed -= count
        partitions = []
        for _ in range(count):
            partition, at = read_partition(frame, at)
            partitions.append(partition)
            if flexible:
                at, allowed = (at + 1, allowed) if frame[at] == 0 else skip_tags(frame, at, allowed)
        if flexible:
            at, allowed = skip_tags(frame, at, allowed)
        topics.append(ProduceTopic(name, topic_id, partitions))
    if flexible:
        at, allowed = skip_tags(frame, at, allowed)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics), at


def _read_partition(frame: memoryview, at: int) -> tuple[tuple[int, memoryview | None], int]:
    index, size = _INDEX_AND_SIZE.unpack_from(frame, at)
    at += 8
    if size < 0:
        if size != -1:
            raise InvalidRequest(f"the records have length {size}")
        return (index, None), at
    end = at + size
    if end > len(frame):
        raise truncated()
    return (index, frame[at:end]), end


def _read_flexible_partition(frame: memoryview, at: int) -> tuple[tuple[int, memoryview | None], int]:
    (index,) = _INT32.unpack_from(frame, at)
    size, at = read_uvarint(frame, at + 4)
    records = None
    if size:
        end = at + size - 1
        if end > len(frame):
            raise truncated()
        records = frame[at:end]
        at = end
    return (index, records), at


def _fast_tail(version: int) -> Struct:
    """Return the layout of everything after the topic key in a response with one successful partition."""
    if version >= FLEXIBLE_FROM:
        return Struct(">BihqqqBBBBiB")
    if version >= RECORD_ERRORS_FROM:
        return Struct(">iihqqqihi")
    return Struct(">iihqqqi" if version >= LOG_START_FROM else ">iihqqi")


_FAST_TAILS = {version: _fast_tail(version) for version in range(FIRST_VERSION, LAST_VERSION + 1)}
_FAST_HEAD = Struct(">iii")
_FAST_FLEXIBLE_HEAD = Struct(">iiBB")


def encode_produce_response(
    version: int,
    correlation_id: int,
    topics: Sequence[ProduceTopicResult],
    throttle_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """Return the whole frame, size and response header included."""
    if len(topics) == 1 and not node_endpoints:
        name, topic_id, partitions = topics[0]
        if len(partitions) == 1:
            result = partitions[0]
            if result[1] == 0 and not (result[5] or result[6] or result[7]):
                return _encode_one(version, correlation_id, name, topic_id, result, throttle_ms)
    return _encode_many(version, correlation_id, topics, throttle_ms, node_endpoints)


def _encode_one(
    version: int,
    correlation_id: int,
    name: str | None,
    topic_id: UUID | None,
    result: ProducePartitionResult,
    throttle_ms: int,
) -> bytes:
    """Encode the common case, one partition without an error, in two calls of struct."""
    index, _, base_offset, append_time, log_start, _, _, _ = result
    layout = _FAST_TAILS[version]
    if version >= FLEXIBLE_FROM:
        key = encode_topic_key(name, topic_id, True, version >= TOPIC_IDS_FROM)
        # After the partition: no record errors, no message, no tags (its, the topic's), throttle, no tags.
        return (
            _FAST_FLEXIBLE_HEAD.pack(6 + len(key) + layout.size, correlation_id, 0, 2)
            + key
            + layout.pack(2, index, 0, base_offset, append_time, log_start, 1, 0, 0, 0, throttle_ms, 0)
        )
    key = encode_topic_key(name, None, False, False)
    head = _FAST_HEAD.pack(8 + len(key) + layout.size, correlation_id, 1)
    if version >= RECORD_ERRORS_FROM:
        return head + key + layout.pack(1, index, 0, base_offset, append_time, log_start, 0, -1, throttle_ms)
    if version >= LOG_START_FROM:
        return head + key + layout.pack(1, index, 0, base_offset, append_time, log_start, throttle_ms)
    return head + key + layout.pack(1, index, 0, base_offset, append_time, throttle_ms)


_PARTITION = Struct(">ihqq")
_INT64 = Struct(">q")


def _encode_many(
    version: int,
    correlation_id: int,
    topics: Sequence[ProduceTopicResult],
    throttle_ms: int,
    node_endpoints: Sequence[NodeEndpoint],
) -> bytes:
    flexible = version >= FLEXIBLE_FROM
    out = bytearray(4)
    out += _INT32.pack(correlation_id)
    if flexible:
        out.append(0)
    out += encode_count(len(topics), flexible)
    for name, topic_id, partitions in topics:
        out += encode_topic_key(name, topic_id, flexible, version >= TOPIC_IDS_FROM)
        out += encode_count(len(partitions), flexible)
        for result in partitions:
            _encode_partition(out, version, flexible, result)
        if flexible:
            out.append(0)
    out += _INT32.pack(throttle_ms)
    if flexible:
        out += encode_endpoints_section(node_endpoints if version >= LEADERS_FROM else ())
    _INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def _encode_partition(out: bytearray, version: int, flexible: bool, result: ProducePartitionResult) -> None:
    index, error_code, base_offset, append_time, log_start, message, record_errors, leader = result
    out += _PARTITION.pack(index, error_code, base_offset, append_time)
    if version >= LOG_START_FROM:
        out += _INT64.pack(log_start)
    if version >= RECORD_ERRORS_FROM:
        encode_text = encode_compact_string if flexible else encode_string
        out += encode_count(len(record_errors), flexible)
        for batch_index, text in record_errors:
            out += _INT32.pack(batch_index) + encode_text(text)
            if flexible:
                out.append(0)
        out += encode_text(message)
    if flexible:
        if leader is not None and version >= LEADERS_FROM:
            out += b"\x01" + encode_tag(0, encode_leader(leader))
        else:
            out.append(0)
