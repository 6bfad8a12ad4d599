"""Search a log: by offset for reads, by timestamp for ListOffsets, and for aborted transactions.

A search by timestamp has two steps, a short one on the loop and a long one in any thread:

    find = log.timestamp_lookup(timestamp)   reads indexes; the log may change from here on
    found = await asyncio.to_thread(find)    reads the log: headers from the indexed position, then one batch

The second step can take long: the time index does not help where timestamps do not grow, and a batch of a few
kilobytes may hold a million records. It keeps the file open that it reads, so appends, deletions and
compaction do not affect it. (If it has to continue in another segment, which is rare, that is opened by name:
KafkaStorageError if it is gone by then.)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import NamedTuple

from ottla.common.file_range import FileRange
from ottla.log.batch_walk import walk_headers
from ottla.log.disk import OpenFile
from ottla.log.indexes import NO_TIMESTAMP, CorruptIndex
from ottla.log.loading.replay import rebuild_txn_indexes
from ottla.log.log_types import LogRead, TimestampOffset
from ottla.log.producers import producer_state
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.log.transaction_index import AbortedTransaction
from ottla.protocol.errors import CorruptMessage, InvalidRecord
from ottla.protocol.records.batch import HEADER_BYTES, BatchHeader
from ottla.protocol.records.records import MAX_DECOMPRESSED_BYTES, iter_record_heads

logger = logging.getLogger(__name__)


Find = Callable[[], TimestampOffset | None]

_STEPS_PER_SLICE = 500
_YIELD_S = 0.0002
_MAX_INLINE_BYTES = 1 << 18
_MAX_INLINE_RECORDS = 400
_MAX_SKIPPED_MARKERS = 400


class _LogRange(NamedTuple):
    """A part of a .log file that starts with a batch."""

    open: Callable[[], OpenFile]
    start: int
    end: int

    def headers(self) -> Iterator[tuple[OpenFile, int, BatchHeader]]:
        file = self.open()
        for step, (position, header) in enumerate(walk_headers(file, self.start, self.end), start=1):
            yield file, position, header
            _yield_gil(step)


def first_at_or_after(segments: Segments, timestamp: int, start_offset: int) -> Find:
    """Return a function that finds the first record from `start_offset` on with this timestamp or a later
    one.

    A segment's largest timestamp rules out all but one segment, its time index all but one range, a batch's
    header all but one batch; only that one is decoded. If no record in it matches (its producer's header was
    wrong, or they were deleted), the search continues in the next segment.
    """
    ranges: list[_LogRange] = []
    for segment in segments.all[segments.index_of(start_offset) :]:
        if segment.size_bytes == 0 or segment.max_timestamp < timestamp:
            continue
        if ranges:
            ranges.append(_LogRange(segment.open_file, 0, segment.size_bytes))
        else:
            start = max(segment.position_for_time(timestamp), segment.position_of(start_offset))
            ranges.append(_open_range(segment, start))

    def find() -> TimestampOffset | None:
        for log_range in ranges:
            for file, position, header in log_range.headers():
                if header.max_timestamp >= timestamp:
                    found = _first_in_batch(file, position, header, timestamp, start_offset)
                    if found is not None:
                        return found
        return None

    return find


def latest(segments: Segments, start_offset: int) -> Find:
    """Return a function that finds the first record with the largest timestamp from `start_offset` on."""
    best = NO_TIMESTAMP
    holder: _LogRange | None = None
    deleted_in_part: _LogRange | None = None
    for segment in segments.all[segments.index_of(start_offset) :]:
        found, last_offset = segment.latest()
        if found <= best:
            continue
        if last_offset < start_offset:
            # Its latest record was deleted: only a walk finds the latest of the rest.
            deleted_in_part = _open_range(segment, segment.position_of(start_offset))
        else:
            best, holder = found, _open_range(segment, segment.position_of(last_offset))

    def find() -> TimestampOffset | None:
        found = None if holder is None else next(holder.headers())
        if deleted_in_part is not None:
            rest = max(deleted_in_part.headers(), key=lambda each: each[2].max_timestamp, default=None)
            if rest is not None and rest[2].max_timestamp >= max(best, 0):
                found = rest
        if found is None:
            return None
        file, position, header = found
        return _first_in_batch(file, position, header, header.max_timestamp, start_offset)

    return find


def timestamp_from(segments: Segments, offset: int, end_offset: int) -> int | None:
    """Return the timestamp of the first record in [offset, end_offset), or None.

    Markers of transactions are no records: a group that has read the last record of a transaction may have
    committed the offset before the marker. Compaction may have removed the batch of `offset`, or its segment.
    This runs on the loop, so a very large batch is not decoded: its largest timestamp is returned, and that
    of the last of very many markers.
    """
    markers = 0
    for segment in segments.all[segments.index_of(offset) :]:
        for position, header in segment.headers(segment.position_of(offset)):
            if header.base_offset >= end_offset:
                return None
            if header.is_control and markers < _MAX_SKIPPED_MARKERS:
                markers += 1
                continue
            if header.record_count > _MAX_INLINE_RECORDS:
                return header.max_timestamp
            file = segment.open_file()
            found = _first_in_batch(file, position, header, NO_TIMESTAMP, offset, _MAX_INLINE_BYTES)
            if found is not None:
                return found.timestamp if found.offset < end_offset else None
    return None


def _open_range(segment: Segment, start: int) -> _LogRange:
    """Return the rest of a segment, whose file is kept open even if it is renamed or removed."""
    file = segment.open_file()
    return _LogRange(lambda: file, start, segment.size_bytes)


def _first_in_batch(
    file: OpenFile,
    position: int,
    header: BatchHeader,
    timestamp: int,
    start_offset: int,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> TimestampOffset | None:
    batch = file.read_at(position, header.size_bytes)
    try:
        for step, record in enumerate(iter_record_heads(batch, max_bytes), start=1):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampOffset(record.offset, record.timestamp, header.leader_epoch)
            _yield_gil(step)
    except (CorruptMessage, InvalidRecord):
        # The records cannot be decoded: return the batch itself.
        return TimestampOffset(
            max(header.base_offset, start_offset), header.max_timestamp, header.leader_epoch
        )
    return None


def _yield_gil(step: int) -> None:
    """Let the event loop run: otherwise a Python thread keeps the interpreter lock for five milliseconds."""
    if step % _STEPS_PER_SLICE == 0:
        time.sleep(_YIELD_S)


_first_offset = attrgetter("first_offset")


def aborted_between(segments: Segments, offset: int, end_offset: int) -> list[AbortedTransaction]:
    """Return the aborted transactions with records in [offset, end_offset), by their first offsets.

    A transaction is in the index of the segment that has its marker, which may be a later one.
    """
    found: list[AbortedTransaction] = []
    for segment in segments.all[segments.index_of(offset) :]:
        if segment.txn_index is not None:
            some, is_last = _search_txn_index(segments, segment, offset, end_offset)
            found += some
            if is_last:
                break
    found.sort(key=_first_offset)
    return found


def _search_txn_index(
    segments: Segments, segment: Segment, offset: int, end_offset: int
) -> tuple[list[AbortedTransaction], bool]:
    """Search one transaction index; if it is wrong, rebuild it first: aborted records must not be
    returned.
    """
    assert segment.txn_index is not None
    try:
        return segment.txn_index.overlapping(offset, end_offset)
    except (CorruptIndex, FileNotFoundError) as problem:
        logger.warning("%s: rebuilding a transaction index: %s", segments.directory, problem)
    offsets = producer_state.snapshot_offsets(segments.storage.disk.list_dir(segments.directory))
    rebuild_txn_indexes(segments, offsets, [segment])
    return segment.txn_index.overlapping(offset, end_offset)


_MAX_EMPTY_TAIL_BYTES = 64 * HEADER_BYTES


def read_batches(
    segments: Segments, offset: int, max_bytes: int, end_offset: int, at_least_one: bool
) -> LogRead:
    """Return whole batches of one segment, from the one that contains `offset` or follows it.

    They end before the batch that contains `end_offset`, and before `max_bytes`, unless the first batch alone
    is larger and `at_least_one` is set.
    """
    number = segments.index_of(offset)
    segment = segments.all[number]
    start = segment.position_of(offset)
    if start >= segment.size_bytes or _has_only_empty_batches(segment, start):
        number, start = _skip_empty_batches(segments, number, start, end_offset)
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
    segment.cache_position(next_offset, limit)
    return LogRead(FileRange(segment.open_file(), start, limit - start), next_offset)


def _skip_empty_batches(segments: Segments, number: int, start: int, end_offset: int) -> tuple[int, int]:
    """Return the segment and position to read from if compaction left no records from `start` to the
    segment's end.

    Clients must not get several responses without records in a row: librdkafka treats such a response as cut
    off, doubles its fetch size, and after the tenth reports that a record is too large. If nothing else
    follows, the last empty batch is returned, so that the reader advances.
    """
    found = number, start
    for further in range(number + 1, len(segments.all)):
        segment = segments.all[further]
        if segment.base_offset >= end_offset:
            break
        if segment.size_bytes:
            found = further, 0
            if not _has_only_empty_batches(segment, 0):
                break
    return found


def _has_only_empty_batches(segment: Segment, start: int) -> bool:
    """Return whether only batches without records are left, which consist of their headers."""
    left = segment.size_bytes - start
    if left % HEADER_BYTES or left > _MAX_EMPTY_TAIL_BYTES:
        return False
    return all(header.record_count == 0 for _, header in segment.headers(start))


def _limit(segments: Segments, number: int, end_offset: int) -> tuple[int, int]:
    """Return (position, offset) where the readable part of a segment ends."""
    segment = segments.all[number]
    if number + 1 < len(segments.all):
        next_base = segments.all[number + 1].base_offset
        if next_base <= end_offset:
            return segment.size_bytes, next_base
    return segment.position_of(end_offset), end_offset
