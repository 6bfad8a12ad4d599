"""Searching a log by offset. (By time: time_search.py.)"""

from __future__ import annotations

from ottla.common.file_range import FileRange
from ottla.log.log_types import LogRead
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.protocol.records.batch import HEADER_BYTES

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
