"""Decode Fetch requests and encode Fetch responses, versions 4 to 18: the broker's side of the API.

Written by hand, because Fetch is on the hot path. The records of a response stay in their files: the encoder
returns pieces, some of which are file ranges for sendfile.

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

    response  throttle_ms       int32
              error_code        int16                       from v7
              session_id        int32                       from v7
              topics            array of
                name | topic_id as in the request
                partitions      array of
                  index                   int32
                  error_code              int16
                  high_watermark          int64
                  last_stable_offset      int64
                  log_start_offset        int64             from v5
                  aborted_transactions    nullable array of: producer_id int64, first_offset int64
                  preferred_read_replica  int32             from v11
                  records                 bytes; none are empty bytes, not null
                  diverging_epoch         tag 0: epoch int32, end_offset int64  from v12
                  current_leader          tag 1                                 from v12
                  snapshot_id             tag 2: end_offset int64, epoch int32  from v12
              node_endpoints    tag 0                       from v16

From v12 on the messages are flexible: compact lengths, and tagged fields after every struct.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error, unpack_from
from typing import NamedTuple
from uuid import UUID

from ottla.common.file_range import FileRange
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
    encode_uvarint,
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
LOG_START_FROM, SESSIONS_FROM, LEADER_EPOCHS_FROM, RACKS_FROM, PREFERRED_REPLICA_FROM = 5, 7, 9, 11, 11
TOPIC_IDS_FROM, REPLICA_STATE_FROM, ENDPOINTS_FROM = 13, 15, 16

COPY_BELOW_BYTES = 4096
"""Records in memory that are smaller than this are copied into the bytes around them; others are not."""

_INT32 = Struct(">i")
_LIMITS = Struct(">iiib")
_SESSION = Struct(">ii")
_REPLICA_STATE = Struct(">iq")
_PARTITION_V4, _PARTITION_V5 = Struct(">iqi"), Struct(">iqqi")
_PARTITION_V9, _PARTITION_V12 = Struct(">iiqqi"), Struct(">iiqiqi")

_HEAD = Struct(">iii")
_FLEXIBLE_HEAD = Struct(">iiBihi")
_ERROR_AND_SESSION = Struct(">hi")
_RESULT_V4, _RESULT_V5 = Struct(">ihqq"), Struct(">ihqqq")
_ABORTED, _FLEXIBLE_ABORTED = Struct(">qq"), Struct(">qqB")
_EPOCH_END, _SNAPSHOT = Struct(">iqB"), Struct(">qiB")


class FetchPartition(NamedTuple):
    """A partition to fetch, and the fetcher's position in it."""

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
    """Partitions to remove from the fetch session."""

    name: str | None
    topic_id: UUID | None
    partitions: tuple[int, ...]


class FetchRequest(NamedTuple):
    """A fetch request of a consumer or follower."""

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
    """Return the request whose body starts at the position; raise InvalidRequest if it is malformed."""
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


class FetchPartitionResult(NamedTuple):
    """The result for one partition; the records may be a range of a file."""

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: FileRange | bytes = b""
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    """(producer_id, first_offset) of each, or None for read_uncommitted."""
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None
    """(epoch, end_offset)"""
    current_leader: Leader | None = None
    snapshot_id: tuple[int, int] | None = None
    """(end_offset, epoch)"""


class FetchTopicResult(NamedTuple):
    """The results for one topic, which is identified as in the request."""

    name: str | None
    topic_id: UUID | None
    partitions: Sequence[FetchPartitionResult]


def encode_fetch_response(
    version: int,
    correlation_id: int,
    throttle_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[FetchTopicResult],
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[bytes | FileRange]:
    """Return the whole frame, size and response header included, in pieces to be sent in order."""
    check_version(version, FIRST_VERSION, LAST_VERSION)
    flexible, has_ids = version >= FLEXIBLE_FROM, version >= TOPIC_IDS_FROM
    frame = _Frame()
    out = frame.tail
    if flexible:
        out += _FLEXIBLE_HEAD.pack(0, correlation_id, 0, throttle_ms, error_code, session_id)
    else:
        out += _HEAD.pack(0, correlation_id, throttle_ms)
        if version >= SESSIONS_FROM:
            out += _ERROR_AND_SESSION.pack(error_code, session_id)
    out += encode_count(len(topics), flexible)
    for name, topic_id, partitions in topics:
        out = frame.tail
        out += encode_topic_key(name, topic_id, flexible, has_ids)
        out += encode_count(len(partitions), flexible)
        for result in partitions:
            _encode_result(frame, version, flexible, result)
        if flexible:
            frame.tail.append(0)
    if flexible:
        frame.tail += encode_endpoints_section(node_endpoints if version >= ENDPOINTS_FROM else ())
    return frame.finish()


class _Frame:
    """A frame under construction: finished pieces, and the bytes that are still growing."""

    __slots__ = ("pieces", "size", "tail")

    def __init__(self) -> None:
        self.pieces: list[bytearray | bytes | FileRange] = []
        self.size = 0
        self.tail = bytearray()

    def add_records(self, records: FileRange | bytes) -> None:
        """Append records without copying them, unless they are small."""
        if isinstance(records, FileRange):
            size = records.size
        else:
            size = len(records)
            if size < COPY_BELOW_BYTES:
                self.tail += records
                return
        self.size += len(self.tail) + size
        self.pieces += (self.tail, records)
        self.tail = bytearray()

    def finish(self) -> list[bytes | FileRange]:
        """Set the size and return the pieces."""
        if self.tail:
            self.size += len(self.tail)
            self.pieces.append(self.tail)
        first = self.pieces[0]
        assert isinstance(first, bytearray)
        _INT32.pack_into(first, 0, self.size - 4)
        return [bytes(piece) if isinstance(piece, bytearray) else piece for piece in self.pieces]


def _encode_result(frame: _Frame, version: int, flexible: bool, result: FetchPartitionResult) -> None:
    out = frame.tail
    index, error_code, high_watermark, last_stable, log_start, records, aborted, preferred = result[:8]
    if version >= LOG_START_FROM:
        out += _RESULT_V5.pack(index, error_code, high_watermark, last_stable, log_start)
    else:
        out += _RESULT_V4.pack(index, error_code, high_watermark, last_stable)
    if aborted is None:
        out += b"\x00" if flexible else b"\xff\xff\xff\xff"
    else:
        _encode_aborted(out, flexible, aborted)
    if version >= PREFERRED_REPLICA_FROM:
        out += _INT32.pack(preferred)
    size = records.size if isinstance(records, FileRange) else len(records)
    out += encode_uvarint(size + 1) if flexible else _INT32.pack(size)
    if size:
        frame.add_records(records)
    if flexible:
        frame.tail += _result_tags(result)


def _encode_aborted(out: bytearray, flexible: bool, aborted: Sequence[tuple[int, int]]) -> None:
    out += encode_count(len(aborted), flexible)
    for producer_id, first_offset in aborted:
        if flexible:
            out += _FLEXIBLE_ABORTED.pack(producer_id, first_offset, 0)
        else:
            out += _ABORTED.pack(producer_id, first_offset)


def _result_tags(result: FetchPartitionResult) -> bytes:
    diverging_epoch, current_leader, snapshot_id = result[8:]
    if diverging_epoch is None and current_leader is None and snapshot_id is None:
        return b"\x00"
    tags = []
    if diverging_epoch is not None:
        tags.append(encode_tag(0, _EPOCH_END.pack(*diverging_epoch, 0)))
    if current_leader is not None:
        tags.append(encode_tag(1, encode_leader(current_leader)))
    if snapshot_id is not None:
        tags.append(encode_tag(2, _SNAPSHOT.pack(*snapshot_id, 0)))
    return encode_uvarint(len(tags)) + b"".join(tags)
