"""Fetch requests, versions 4 to 18, by hand.

    request   replica_id        int32                       up to v14
              max_wait_ms       int32
              min_bytes         int32
              max_bytes         int32
              isolation_level   int8
              session_id        int32                       from v7
              session_epoch     int32                       from v7
              topics            array of
                name            string                      up to v12
                topic_id        uuid                        from v13
                partitions      array of
                  partition             int32
                  current_leader_epoch  int32               from v9
                  fetch_offset          int64
                  last_fetched_epoch    int32               from v12
                  log_start_offset      int64               from v5
                  max_bytes             int32
              forgotten         array of: name | topic_id, array of int32     from v7
              rack_id           string                      from v11
              cluster_id        tag 0, nullable string      from v12
              replica_state     tag 1: replica_id int32, replica_epoch int64  from v15

From v12 on the messages are flexible: compact lengths, and tagged fields after every struct.
"""

from __future__ import annotations

from struct import Struct, error, unpack_from
from typing import NamedTuple
from uuid import UUID

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.frames import FIRST_FLEXIBLE_VERSION
from ottla.protocol.hot_path import TOPIC_WEIGHT, check_version, read_count, read_topic_key, skip_tags
from ottla.protocol.primitives import (
    read_compact_nullable_string,
    read_compact_string,
    read_string,
    read_tag,
    read_tag_count,
    skip_tagged_fields,
    truncated,
)
from ottla.protocol.schema.messages import MAX_REQUEST_ELEMENTS

FIRST_VERSION, LAST_VERSION = 4, 18
FLEXIBLE_FROM = FIRST_FLEXIBLE_VERSION[ApiKey.FETCH]
LOG_START_FROM, SESSIONS_FROM, LEADER_EPOCHS_FROM, RACKS_FROM = 5, 7, 9, 11
TOPIC_IDS_FROM, REPLICA_STATE_FROM = 13, 15

_LIMITS = Struct(">iiib")
_INT32 = Struct(">i")
_SESSION = Struct(">ii")
_REPLICA_STATE = Struct(">iq")
_PARTITION_V4, _PARTITION_V5 = Struct(">iqi"), Struct(">iqqi")
_PARTITION_V9, _PARTITION_V12 = Struct(">iiqqi"), Struct(">iiqiqi")


class FetchPartition(NamedTuple):
    """A partition to fetch from, and how far the fetcher has come."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class FetchTopic(NamedTuple):
    """A topic of a request, by its name or its id."""

    name: str | None
    topic_id: UUID | None
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    """Partitions that leave the fetch session."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[int, ...]


class FetchRequest(NamedTuple):
    """What a consumer or a follower asks for."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    rack_id: str
    cluster_id: str | None


def decode_fetch_request(frame: memoryview, at: int, version: int) -> FetchRequest:
    """Return the request whose body starts at `at`; raise InvalidRequest if it cannot be read."""
    check_version(version, FIRST_VERSION, LAST_VERSION)
    try:
        return _read_request(frame, at, version)[0]
    except (IndexError, error):
        raise truncated() from None


def _read_request(frame: memoryview, at: int, version: int) -> tuple[FetchRequest, int]:
    flexible = version >= FLEXIBLE_FROM
    replica_id, replica_epoch, session_id, session_epoch = -1, -1, 0, -1
    if version < REPLICA_STATE_FROM:
        (replica_id,) = _INT32.unpack_from(frame, at)
        at += 4
    max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(frame, at)
    at += 13
    if version >= SESSIONS_FROM:
        session_id, session_epoch = _SESSION.unpack_from(frame, at)
        at += 8
    topics, allowed, at = _read_topics(frame, at, version)
    forgotten: list[ForgottenTopic] = []
    if version >= SESSIONS_FROM:
        forgotten, at = _read_forgotten(frame, at, version, allowed)
    rack_id, cluster_id = "", None
    if version >= RACKS_FROM:
        rack_id, at = read_compact_string(frame, at) if flexible else read_string(frame, at)
    if flexible:
        if frame[at] == 0:
            at += 1
        else:
            cluster_id, state, at = _read_tags(frame, at, version >= REPLICA_STATE_FROM)
            if state is not None:
                replica_id, replica_epoch = state
    return (
        FetchRequest(
            replica_id,
            replica_epoch,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            topics,
            forgotten,
            rack_id,
            cluster_id,
        ),
        at,
    )


def _read_topics(frame: memoryview, at: int, version: int) -> tuple[list[FetchTopic], int, int]:
    """Return the topics, how many elements are still allowed, and the position."""
    flexible, has_ids = version >= FLEXIBLE_FROM, version >= TOPIC_IDS_FROM
    smallest_partition = 33 if flexible else 16
    allowed = MAX_REQUEST_ELEMENTS
    topic_count, at = read_count(frame, at, flexible, _smallest_topic(version), allowed // TOPIC_WEIGHT)
    allowed -= topic_count * TOPIC_WEIGHT
    topics = []
    for _ in range(topic_count):
        name, topic_id, at = read_topic_key(frame, at, flexible, has_ids)
        count, at = read_count(frame, at, flexible, smallest_partition, allowed)
        allowed -= count
        partitions = []
        for _ in range(count):
            if flexible:
                partitions.append(FetchPartition._make(_PARTITION_V12.unpack_from(frame, at)))
                at += 32
                at, allowed = (at + 1, allowed) if frame[at] == 0 else skip_tags(frame, at, allowed)
            else:
                partition, at = _read_old_partition(frame, at, version)
                partitions.append(partition)
        if flexible:
            at, allowed = skip_tags(frame, at, allowed)
        topics.append(FetchTopic(name, topic_id, partitions))
    return topics, allowed, at


def _smallest_topic(version: int) -> int:
    if version < FLEXIBLE_FROM:
        return 6
    return 18 if version >= TOPIC_IDS_FROM else 3


def _read_old_partition(frame: memoryview, at: int, version: int) -> tuple[FetchPartition, int]:
    epoch, log_start = -1, -1
    if version >= LEADER_EPOCHS_FROM:
        index, epoch, offset, log_start, max_bytes = _PARTITION_V9.unpack_from(frame, at)
        at += 28
    elif version >= LOG_START_FROM:
        index, offset, log_start, max_bytes = _PARTITION_V5.unpack_from(frame, at)
        at += 24
    else:
        index, offset, max_bytes = _PARTITION_V4.unpack_from(frame, at)
        at += 16
    return FetchPartition(index, epoch, offset, -1, log_start, max_bytes), at


def _read_forgotten(
    frame: memoryview, at: int, version: int, allowed: int
) -> tuple[list[ForgottenTopic], int]:
    flexible, has_ids = version >= FLEXIBLE_FROM, version >= TOPIC_IDS_FROM
    topic_count, at = read_count(frame, at, flexible, _smallest_topic(version), allowed // TOPIC_WEIGHT)
    allowed -= topic_count * TOPIC_WEIGHT
    topics = []
    for _ in range(topic_count):
        name, topic_id, at = read_topic_key(frame, at, flexible, has_ids)
        count, at = read_count(frame, at, flexible, 4, allowed)
        allowed -= count
        partitions = unpack_from(f">{count}i", frame, at)
        at += 4 * count
        if flexible:
            at, allowed = skip_tags(frame, at, allowed)
        topics.append(ForgottenTopic(name, topic_id, partitions))
    return topics, at


def _read_tags(frame: memoryview, at: int, has_state: bool) -> tuple[str | None, tuple[int, int] | None, int]:
    """Return the cluster id, the (id, epoch) of the replica, and the position."""
    cluster_id: str | None = None
    state: tuple[int, int] | None = None
    count, at = read_tag_count(frame, at)
    for _ in range(count):
        tag, at, end = read_tag(frame, at)
        if tag == 0:
            cluster_id, at = read_compact_nullable_string(frame, at)
        elif tag == 1 and has_state:
            state = _REPLICA_STATE.unpack_from(frame, at)
            at = skip_tagged_fields(frame, at + 12)
        else:
            at = end
        if at != end:
            raise InvalidRequest(f"the tagged field {tag} lies about its size")
    return cluster_id, state, at
