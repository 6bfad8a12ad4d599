"""Codec of Fetch for consumers and followers: requests encoded, responses decoded.

The layouts are described in fetch_codec.py, the broker's side of this. Versions 4 to 17: up to 12 topics go
by their names, from 13 on by their ids. Records stay slices of the frame. What only followers send (replica
id and epoch, last fetched epoch, log start offset) is -1 for consumers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct, error
from typing import NamedTuple
from uuid import UUID

from ottla.protocol.errors import InvalidRequest
from ottla.protocol.fetch_codec import (
    FIRST_VERSION,
    FLEXIBLE_FROM,
    LEADER_EPOCHS_FROM,
    LOG_START_FROM,
    PREFERRED_REPLICA_FROM,
    RACKS_FROM,
    REPLICA_STATE_FROM,
    SESSIONS_FROM,
    TOPIC_IDS_FROM,
)
from ottla.protocol.hot_path import (
    Leader,
    NodeEndpoint,
    check_version,
    encode_count,
    encode_topic_key,
    read_count,
    read_endpoints_section,
    read_topic_key,
    uuid_of,
)
from ottla.protocol.primitives import (
    encode_compact_string,
    encode_string,
    read_tag,
    read_tag_count,
    read_uvarint,
    skip_tagged_fields,
    truncated,
)


class Topic(NamedTuple):
    """A topic by its name, for versions up to 12, and by its id, for newer ones."""

    name: str
    topic_id: UUID | None


class FetchPartitionRequest(NamedTuple):
    """The offset from which a partition is fetched, and the maximum size."""

    offset: int
    leader_epoch: int
    max_bytes: int
    last_fetched_epoch: int = -1
    """The leader epoch of a follower's last record; the leader then finds out where their logs diverge."""
    log_start_offset: int = -1
    """Where a follower's log starts."""


class FetchSettings(NamedTuple):
    """The fields of a request beside its partitions."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    rack_id: str = ""
    replica: tuple[int, int] | None = None
    """Node id and broker epoch of a follower; None for consumers."""


class Fetched(NamedTuple):
    """The response for one partition."""

    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]
    """(producer id, first offset) of each aborted transaction; only with isolation level read_committed."""
    preferred_replica: int
    records: memoryview
    current_leader: Leader | None
    diverging_epoch: tuple[int, int] | None = None
    """For a follower whose log diverged: the largest epoch that both logs have, and its end offset."""


class FetchReply(NamedTuple):
    """A response; topics by name or by id, as in the request."""

    throttle_ms: int
    error_code: int
    session_id: int
    topics: list[tuple[str | None, UUID | None, list[Fetched]]]
    endpoints: list[NodeEndpoint]


__all__ = [
    "FINAL_EPOCH",
    "LAST_VERSION",
    "NO_SESSION",
    "FetchPartitionRequest",
    "FetchReply",
    "FetchSettings",
    "Fetched",
    "Topic",
    "decode_fetch_response",
    "encode_fetch_request",
]

LAST_VERSION = 17
DIVERGING_EPOCH_TAG, LEADER_TAG = 0, 1
MAX_ELEMENTS = 1_000_000

_INT32 = Struct(">i")
_LIMITS = Struct(">iiib")
_TWO_INT32 = Struct(">ii")
_PARTITION_V4, _PARTITION_V5 = Struct(">iqi"), Struct(">iqqi")
_PARTITION_V9, _PARTITION_V12 = Struct(">iiqqi"), Struct(">iiqiqiB")
_FETCHED_V4, _FETCHED_V5 = Struct(">ihqq"), Struct(">ihqqq")
_THROTTLE_ERROR_SESSION = Struct(">ihi")
_ABORTED = Struct(">qq")
_EPOCH_END = Struct(">iq")
_REPLICA_STATE = Struct(">BBBiqB")
"""One tagged field: number 1, 13 bytes, replica id, broker epoch, no tagged fields in it."""
_LONE_REQUEST = Struct(">iiibiiB")
_LONE_PARTITION = Struct(">ihiB16sBihqqqBi")
"""The fields before the records of a response with one partition, from version 13 on."""

NO_SESSION = 0
FINAL_EPOCH = -1
"""The session epoch of a request without a session, or that closes one."""


def encode_fetch_request(
    version: int,
    settings: FetchSettings,
    session: tuple[int, int],
    topics: Mapping[Topic, Mapping[int, FetchPartitionRequest]],
    forgotten: Mapping[Topic, Sequence[int]],
) -> bytes:
    """Return the body of a request; `session` is an id and an epoch."""
    check_version(version, FIRST_VERSION, LAST_VERSION)
    if version >= REPLICA_STATE_FROM and len(topics) == 1 and not forgotten:
        ((topic, partitions),) = topics.items()
        if len(partitions) == 1:
            return _encode_lone(settings, session, topic, partitions)
    flexible, has_ids = version >= FLEXIBLE_FROM, version >= TOPIC_IDS_FROM
    end = b"\0" if flexible else b""
    out = bytearray()
    if version < REPLICA_STATE_FROM:
        out += _INT32.pack(-1 if settings.replica is None else settings.replica[0])
    out += _LIMITS.pack(*settings[:4])
    if version >= SESSIONS_FROM:
        out += _TWO_INT32.pack(*session)
    out += encode_count(len(topics), flexible)
    for topic, partitions in topics.items():
        out += encode_topic_key(topic.name, topic.topic_id, flexible, has_ids)
        out += encode_count(len(partitions), flexible)
        for index, asked in partitions.items():
            out += _encode_partition(version, index, asked)
        out += end
    if version >= SESSIONS_FROM:
        out += encode_count(len(forgotten), flexible)
        for topic, indexes in forgotten.items():
            out += encode_topic_key(topic.name, topic.topic_id, flexible, has_ids)
            out += encode_count(len(indexes), flexible)
            out += b"".join(map(_INT32.pack, indexes)) + end
    if version >= RACKS_FROM:
        out += (encode_compact_string if flexible else encode_string)(settings.rack_id)
    if version >= REPLICA_STATE_FROM and settings.replica is not None:
        return bytes(out + _REPLICA_STATE.pack(1, 1, 13, *settings.replica, 0))
    return bytes(out + end)


def _encode_lone(
    settings: FetchSettings,
    session: tuple[int, int],
    topic: Topic,
    partitions: Mapping[int, FetchPartitionRequest],
) -> bytes:
    """Return the body of a request for one partition, the usual case, as of version 15."""
    max_wait_ms, min_bytes, max_bytes, isolation_level, rack_id, replica = settings
    ((index, (offset, epoch, partition_max_bytes, last_epoch, log_start)),) = partitions.items()
    return b"".join(
        (
            _LONE_REQUEST.pack(max_wait_ms, min_bytes, max_bytes, isolation_level, *session, 2),
            encode_topic_key(topic.name, topic.topic_id, True, True),
            b"\x02",
            _PARTITION_V12.pack(index, epoch, offset, last_epoch, log_start, partition_max_bytes, 0),
            b"\0\x01",  # the topic has no tagged fields, and no topic is forgotten
            encode_compact_string(rack_id) if rack_id else b"\x01",
            b"\0" if replica is None else _REPLICA_STATE.pack(1, 1, 13, *replica, 0),
        )
    )


def _encode_partition(version: int, index: int, asked: FetchPartitionRequest) -> bytes:
    offset, epoch, max_bytes, last_epoch, log_start = asked
    if version >= FLEXIBLE_FROM:
        return _PARTITION_V12.pack(index, epoch, offset, last_epoch, log_start, max_bytes, 0)
    if version >= LEADER_EPOCHS_FROM:
        return _PARTITION_V9.pack(index, epoch, offset, log_start, max_bytes)
    if version >= LOG_START_FROM:
        return _PARTITION_V5.pack(index, offset, log_start, max_bytes)
    return _PARTITION_V4.pack(index, offset, max_bytes)


def decode_fetch_response(frame: memoryview, at: int, version: int) -> FetchReply:
    """Return the response whose body starts at `at`; raise InvalidRequest if it cannot be read."""
    check_version(version, FIRST_VERSION, LAST_VERSION)
    try:
        if version >= TOPIC_IDS_FROM and (lone := _lone_partition(frame, at)) is not None:
            return lone
        return _read_response(frame, at, version)
    except (IndexError, error):
        raise truncated() from None


def _lone_partition(frame: memoryview, at: int) -> FetchReply | None:
    """Return a response with one partition, the usual case, decoded in one step; None if it has more.

    throttle time, error, session | topics 1+1 | id | partitions 1+1 | index, error, three int64 |
    no aborted transactions | preferred replica | records | no tagged fields, three times
    """
    end = len(frame) - 3
    start = at + _LONE_PARTITION.size
    if start >= end:
        return None
    (
        throttle_ms,
        error_code,
        session_id,
        topics,
        raw_id,
        count,
        index,
        code,
        high,
        stable,
        first,
        aborted,
        preferred,
    ) = _LONE_PARTITION.unpack_from(frame, at)
    if topics != 2 or count != 2 or aborted > 1 or bytes(frame[end:]) != b"\0\0\0":
        return None
    size, start = read_uvarint(frame, start)
    if size < 1 or start + size - 1 != end:
        return None
    fetched = Fetched(index, code, high, stable, first, (), preferred, frame[start:end], None)
    return FetchReply(throttle_ms, error_code, session_id, [(None, uuid_of(raw_id), [fetched])], [])


def _read_response(frame: memoryview, at: int, version: int) -> FetchReply:
    flexible, has_ids = version >= FLEXIBLE_FROM, version >= TOPIC_IDS_FROM
    error_code, session_id = 0, NO_SESSION
    if version >= SESSIONS_FROM:
        throttle_ms, error_code, session_id = _THROTTLE_ERROR_SESSION.unpack_from(frame, at)
        at += 10
    else:
        (throttle_ms,) = _INT32.unpack_from(frame, at)
        at += 4
    topics = []
    topic_count, at = read_count(frame, at, flexible, 3, MAX_ELEMENTS)
    for _ in range(topic_count):
        name, topic_id, at = read_topic_key(frame, at, flexible, has_ids)
        count, at = read_count(frame, at, flexible, 22, MAX_ELEMENTS)
        partitions = []
        for _ in range(count):
            fetched, at = _read_partition(frame, at, version, flexible)
            partitions.append(fetched)
        if flexible:
            at = skip_tagged_fields(frame, at)
        topics.append((name, topic_id, partitions))
    endpoints = read_endpoints_section(frame, at) if flexible else []
    return FetchReply(throttle_ms, error_code, session_id, topics, endpoints)


def _read_partition(frame: memoryview, at: int, version: int, flexible: bool) -> tuple[Fetched, int]:
    log_start = preferred = -1
    if version >= LOG_START_FROM:
        index, error_code, high_watermark, last_stable, log_start = _FETCHED_V5.unpack_from(frame, at)
        at += 30
    else:
        index, error_code, high_watermark, last_stable = _FETCHED_V4.unpack_from(frame, at)
        at += 22
    aborted: tuple[tuple[int, int], ...] = ()
    if flexible and frame[at] <= 1:
        at += 1
    else:
        aborted, at = _read_aborted(frame, at, flexible)
    if version >= PREFERRED_REPLICA_FROM:
        (preferred,) = _INT32.unpack_from(frame, at)
        at += 4
    if flexible:
        size, at = read_uvarint(frame, at)
        size -= 1
    else:
        (size,) = _INT32.unpack_from(frame, at)
        at += 4
    end = at + max(size, 0)
    if end > len(frame):
        raise truncated()
    records = frame[at:end]
    leader = diverging = None
    if flexible:
        if frame[end] == 0:
            end += 1
        else:
            leader, diverging, end = _read_tags(frame, end)
    fetched = Fetched(
        index,
        error_code,
        high_watermark,
        last_stable,
        log_start,
        aborted,
        preferred,
        records,
        leader,
        diverging,
    )
    return fetched, end


def _read_tags(frame: memoryview, at: int) -> tuple[Leader | None, tuple[int, int] | None, int]:
    """Return the current leader and the diverging epoch, and where the tagged fields end."""
    leader: Leader | None = None
    diverging: tuple[int, int] | None = None
    count, at = read_tag_count(frame, at)
    for _ in range(count):
        tag, start, at = read_tag(frame, at)
        if at > len(frame):
            raise truncated()
        if tag == LEADER_TAG:
            leader = Leader(*_TWO_INT32.unpack_from(frame, start))
        elif tag == DIVERGING_EPOCH_TAG:
            diverging = _EPOCH_END.unpack_from(frame, start)
    return leader, diverging, at


def _read_size(frame: memoryview, at: int, flexible: bool) -> tuple[int, int]:
    """Read the length of an array or of bytes; -1 is null."""
    if flexible:
        size, at = read_uvarint(frame, at)
        return size - 1, at
    return int(_INT32.unpack_from(frame, at)[0]), at + 4


def _read_aborted(frame: memoryview, at: int, flexible: bool) -> tuple[tuple[tuple[int, int], ...], int]:
    count, at = _read_size(frame, at, flexible)
    if count <= 0:
        return (), at
    if count * 16 > len(frame) - at:
        raise InvalidRequest(f"{count} aborted transactions cannot fit into the rest of the message")
    found = []
    for _ in range(count):
        found.append(_ABORTED.unpack_from(frame, at))
        at += 16
        if flexible:
            at = skip_tagged_fields(frame, at)
    return tuple(found), at
