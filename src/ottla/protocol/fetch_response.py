"""Fetch responses, versions 4 to 18, by hand, with the records left in their files.

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
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from ottla.common.file_range import FileRange
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frames import FIRST_FLEXIBLE_VERSION
from ottla.protocol.hot_path import (
    Leader,
    NodeEndpoint,
    check_version,
    encode_count,
    encode_endpoints_section,
    encode_leader,
    encode_tag,
    encode_topic_key,
)
from ottla.protocol.primitives import encode_uvarint

FIRST_VERSION, LAST_VERSION = 4, 18
FLEXIBLE_FROM = FIRST_FLEXIBLE_VERSION[ApiKey.FETCH]
LOG_START_FROM, SESSIONS_FROM, PREFERRED_REPLICA_FROM = 5, 7, 11
TOPIC_IDS_FROM, ENDPOINTS_FROM = 13, 16

COPY_BELOW_BYTES = 4096
"""Records in memory that are smaller than this join the bytes around them; others stay as they are."""

_HEAD = Struct(">iii")
_FLEXIBLE_HEAD = Struct(">iiBihi")
_ERROR_AND_SESSION = Struct(">hi")
_INT32 = Struct(">i")
_PARTITION_V4, _PARTITION_V5 = Struct(">ihqq"), Struct(">ihqqq")
_ABORTED, _FLEXIBLE_ABORTED = Struct(">qq"), Struct(">qqB")
_EPOCH_END, _SNAPSHOT = Struct(">iqB"), Struct(">qiB")


class FetchPartitionResult(NamedTuple):
    """What one partition answers; the records may be a stretch of a file."""

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: FileRange | bytes = b""
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    """(producer_id, first_offset) of each, or None for readers of uncommitted records."""
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None
    """(epoch, end_offset)"""
    current_leader: Leader | None = None
    snapshot_id: tuple[int, int] | None = None
    """(end_offset, epoch)"""


class FetchTopicResult(NamedTuple):
    """The results for one topic, which is named as the request named it."""

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
            _encode_partition(frame, version, flexible, result)
        if flexible:
            frame.tail.append(0)
    if flexible:
        frame.tail += encode_endpoints_section(node_endpoints if version >= ENDPOINTS_FROM else ())
    return frame.finish()


class _Frame:
    """A frame under construction: pieces that are done, and the bytes that are still growing."""

    __slots__ = ("pieces", "size", "tail")

    def __init__(self) -> None:
        self.pieces: list[bytearray | bytes | FileRange] = []
        self.size = 0
        self.tail = bytearray()

    def add_records(self, records: FileRange | bytes) -> None:
        """Append records without touching them, unless they are few."""
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
        """Put the size in front and return the pieces."""
        if self.tail:
            self.size += len(self.tail)
            self.pieces.append(self.tail)
        first = self.pieces[0]
        assert isinstance(first, bytearray)
        _INT32.pack_into(first, 0, self.size - 4)
        return [bytes(piece) if isinstance(piece, bytearray) else piece for piece in self.pieces]


def _encode_partition(frame: _Frame, version: int, flexible: bool, result: FetchPartitionResult) -> None:
    out = frame.tail
    index, error_code, high_watermark, last_stable, log_start, records, aborted, preferred = result[:8]
    if version >= LOG_START_FROM:
        out += _PARTITION_V5.pack(index, error_code, high_watermark, last_stable, log_start)
    else:
        out += _PARTITION_V4.pack(index, error_code, high_watermark, last_stable)
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
        frame.tail += _partition_tags(result)


def _encode_aborted(out: bytearray, flexible: bool, aborted: Sequence[tuple[int, int]]) -> None:
    out += encode_count(len(aborted), flexible)
    for producer_id, first_offset in aborted:
        if flexible:
            out += _FLEXIBLE_ABORTED.pack(producer_id, first_offset, 0)
        else:
            out += _ABORTED.pack(producer_id, first_offset)


def _partition_tags(result: FetchPartitionResult) -> bytes:
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
