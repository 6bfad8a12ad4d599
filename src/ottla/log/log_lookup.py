"""Searching a log: by offset, and by time."""

from __future__ import annotations

from ottla.common.file_range import FileRange
from ottla.log.log_types import LogRead, TimestampOffset
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.log.time_index import NO_TIMESTAMP
from ottla.protocol.errors import CorruptMessage, InvalidRecord
from ottla.protocol.record_batch import HEADER_BYTES, BatchHeader
from ottla.protocol.records import skim_records

_MOST_BARE_BYTES = 64 * HEADER_BYTES


def read_batches(
    segments: Segments, offset: int, max_bytes: int, end_offset: int, at_least_one: bool
) -> LogRead:
    """Return whole batches of one segment, from the one that contains `offset`, or follows it.

    They end before the batch that contains `end_offset`, and before `max_bytes` unless the first batch
    alone is larger and `at_least_one` is asked for.
    """
    number = segments.index_of(offset)
    segment = segments.all[number]
    start = segment.position_of(offset)
    if start >= segment.size_bytes or _is_bare(segment, start):
        number, start = _skip_bare(segments, number, start, end_offset)
        segment = segments.all[number]
        if start >= segment.size_bytes:
            return LogRead(b"", offset)
    limit, next_offset = _limit(segments, number, end_offset)
    if limit <= start:
        return LogRead(b"", offset)
    if limit - start > max_bytes:
        limit, next_offset = segment.last_boundary(start, start + max(max_bytes, 0))
        if next_offset < 0:
            if not at_least_one:
                return LogRead(b"", offset)
            header = segment.header_at(start)
            limit, next_offset = start + header.size_bytes, header.next_offset
    segment.remember(next_offset, limit)
    return LogRead(FileRange(segment.open_file(), start, limit - start), next_offset)


def _skip_bare(segments: Segments, number: int, start: int, end_offset: int) -> tuple[int, int]:
    """Return the segment and position to read from if compaction left no record from `start` to its end.

    Clients must not get one answer after the other without a record: librdkafka takes such a one for cut
    off, doubles its fetch size, and after the tenth tells the application that a record is too large.
    If nothing else follows, the last bare batch will do: with it the reader gets on.
    """
    found = number, start
    for further in range(number + 1, len(segments.all)):
        segment = segments.all[further]
        if segment.base_offset >= end_offset:
            break
        if segment.size_bytes:
            found = further, 0
            if not _is_bare(segment, 0):
                break
    return found


def _is_bare(segment: Segment, start: int) -> bool:
    """Return whether only batches without records are left; they take up no more than their headers."""
    left = segment.size_bytes - start
    if left % HEADER_BYTES or left > _MOST_BARE_BYTES:
        return False
    return all(header.record_count == 0 for _, header in segment.headers(start))


def _limit(segments: Segments, number: int, end_offset: int) -> tuple[int, int]:
    """Return (position, offset) where what may be read of a segment ends."""
    segment = segments.all[number]
    if number + 1 < len(segments.all):
        next_base = segments.all[number + 1].base_offset
        if next_base <= end_offset:
            return segment.size_bytes, next_base
    return segment.position_of(end_offset), end_offset


def first_at_or_after(segments: Segments, timestamp: int, start_offset: int) -> TimestampOffset | None:
    """Return the first record from `start_offset` on that is as late as `timestamp`, or None.

    A segment's largest timestamp rules out all but one segment, its time index all but one stretch, a
    batch's header all but one batch; only that one is decoded.
    """
    for segment in segments.all:
        if segment.size_bytes == 0 or segment.max_timestamp < timestamp:
            continue
        for position, header in segment.headers(segment.position_for_time(timestamp)):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                found = _first_in_batch(segment, position, header, timestamp, start_offset)
                if found is not None:
                    return found
    return None


def time_from(segments: Segments, offset: int, end_offset: int) -> int | None:
    """Return the timestamp of the first record at or after `offset` and below `end_offset`, or None.

    Compaction may have left nothing of the batch that `offset` was in, or of its segment.
    """
    for segment in segments.all[segments.index_of(offset) :]:
        for position, header in segment.headers(segment.position_of(offset)):
            if header.base_offset >= end_offset:
                return None
            found = _first_in_batch(segment, position, header, NO_TIMESTAMP, offset)
            if found is not None:
                return found.timestamp if found.offset < end_offset else None
    return None


def latest(segments: Segments, start_offset: int) -> TimestampOffset | None:
    """Return the first record that has the largest timestamp of all, or None if no record has one."""
    best, holder = (NO_TIMESTAMP, -1), None
    for segment in segments.all:
        found = _latest_in(segment, start_offset)
        if found[0] > best[0]:
            best, holder = found, segment
    if holder is None:
        return None
    position = holder.position_of(best[1])
    return _first_in_batch(holder, position, holder.header_at(position), best[0], start_offset)


def _latest_in(segment: Segment, start_offset: int) -> tuple[int, int]:
    """Return a segment's latest timestamp and the end of its batch, of batches that reach `start_offset`."""
    found = segment.latest()
    if found[1] >= start_offset or found[0] == NO_TIMESTAMP:
        return found
    rest = segment.headers(segment.position_of(start_offset))
    return max(
        ((header.max_timestamp, header.last_offset) for _, header in rest),
        key=lambda pair: pair[0],
        default=(NO_TIMESTAMP, -1),
    )


def _first_in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampOffset | None:
    batch = segment.open_file().read_at(position, header.size_bytes)
    try:
        for record in skim_records(batch):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampOffset(record.offset, record.timestamp, header.leader_epoch)
    except (CorruptMessage, InvalidRecord):
        # What its producer put inside is not for us to repair: the batch itself is the answer.
        return TimestampOffset(
            max(header.base_offset, start_offset), header.max_timestamp, header.leader_epoch
        )
    return None
