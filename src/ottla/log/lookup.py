"""Searching a log by offset. (By time: time_search.py.)"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import NamedTuple

from ottla.common.file_range import FileRange
from ottla.log import producer_state
from ottla.log.batch_walk import walk_headers
from ottla.log.disk import OpenFile
from ottla.log.indexes import NO_TIMESTAMP, CorruptIndex
from ottla.log.loading.replay import rebuild_txn_indexes
from ottla.log.log_types import LogRead, TimestampOffset
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.log.transaction_index import AbortedTransaction
from ottla.protocol.errors import CorruptMessage, InvalidRecord
from ottla.protocol.records.batch import HEADER_BYTES, BatchHeader
from ottla.protocol.records.records import MAX_DECOMPRESSED_BYTES, iter_record_heads

# Searching a log by time, in two steps: a short one on the loop, a long one in any thread.
#
#     find = log.timestamp_lookup(timestamp)       looks at indexes; the log may change from here on
#     found = await asyncio.to_thread(find)   reads the log: headers from where the index led, then one batch
#
# Both parts of the second step can take long: indexes by time do not help where timestamps do not grow, and
# a batch of a few kilobytes may hold a million records. It holds on to the open file that it will read, so
# what is appended, removed or compacted meanwhile makes no difference. (In the rare case that it has to go
# on in another segment, that is opened by name: KafkaStorageError if it is gone by then.)

Find = Callable[[], TimestampOffset | None]

_STEPS_AT_ONCE = 500
_NAP_S = 0.0002
_GLANCE_BYTES = 1 << 18
_GLANCE_RECORDS = 400


class _Stretch(NamedTuple):
    """Part of a .log file, from a batch on."""

    open: Callable[[], OpenFile]
    start: int
    end: int

    def headers(self) -> Iterator[tuple[OpenFile, int, BatchHeader]]:
        file = self.open()
        for step, (position, header) in enumerate(walk_headers(file, self.start, self.end), start=1):
            yield file, position, header
            _step_back(step)


def first_at_or_after(segments: Segments, timestamp: int, start_offset: int) -> Find:
    """Return what finds the first record from `start_offset` on that is as late as `timestamp`.

    A segment's largest timestamp rules out all but one segment, its time index all but one stretch, a
    batch's header all but one batch; only that one is decoded. If it turns out that no record in it is
    so late (its producer lied, or they were deleted), the search goes on in the next segment.
    """
    stretches: list[_Stretch] = []
    for segment in segments.all[segments.index_of(start_offset) :]:
        if segment.size_bytes == 0 or segment.max_timestamp < timestamp:
            continue
        if stretches:
            stretches.append(_Stretch(segment.open_file, 0, segment.size_bytes))
        else:
            start = max(segment.position_for_time(timestamp), segment.position_of(start_offset))
            stretches.append(_held(segment, start))

    def find() -> TimestampOffset | None:
        for stretch in stretches:
            for file, position, header in stretch.headers():
                if header.max_timestamp >= timestamp:
                    found = _first_in_batch(file, position, header, timestamp, start_offset)
                    if found is not None:
                        return found
        return None

    return find


def latest(segments: Segments, start_offset: int) -> Find:
    """Return what finds the first record that has the largest timestamp of all from `start_offset` on."""
    best = NO_TIMESTAMP
    holder: _Stretch | None = None
    deleted_in_part: _Stretch | None = None
    for segment in segments.all[segments.index_of(start_offset) :]:
        found, last_offset = segment.latest()
        if found <= best:
            continue
        if last_offset < start_offset:
            # Its latest record is among those that were deleted: only a walk finds the one after it.
            deleted_in_part = _held(segment, segment.position_of(start_offset))
        else:
            best, holder = found, _held(segment, segment.position_of(last_offset))

    def find() -> TimestampOffset | None:
        at = None if holder is None else next(holder.headers())
        if deleted_in_part is not None:
            rest = max(deleted_in_part.headers(), key=lambda found: found[2].max_timestamp, default=None)
            if rest is not None and rest[2].max_timestamp >= max(best, 0):
                at = rest
        if at is None:
            return None
        file, position, header = at
        return _first_in_batch(file, position, header, header.max_timestamp, start_offset)

    return find


def timestamp_from(segments: Segments, offset: int, end_offset: int) -> int | None:
    """Return the timestamp of the first record at or after `offset` and below `end_offset`, or None.

    Compaction may have left nothing of the batch that `offset` was in, or of its segment. This runs on the
    loop, so a batch that holds very much is not decoded: what is asked for is about its latest timestamp.
    """
    for segment in segments.all[segments.index_of(offset) :]:
        for position, header in segment.headers(segment.position_of(offset)):
            if header.base_offset >= end_offset:
                return None
            if header.record_count > _GLANCE_RECORDS:
                return header.max_timestamp
            file = segment.open_file()
            found = _first_in_batch(file, position, header, NO_TIMESTAMP, offset, _GLANCE_BYTES)
            if found is not None:
                return found.timestamp if found.offset < end_offset else None
    return None


def _held(segment: Segment, start: int) -> _Stretch:
    """Return the rest of a segment, of which the file is held open whatever happens to its name."""
    file = segment.open_file()
    return _Stretch(lambda: file, start, segment.size_bytes)


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
            _step_back(step)
    except (CorruptMessage, InvalidRecord):
        # What its producer put inside is not for us to repair: the batch itself is the answer.
        return TimestampOffset(
            max(header.base_offset, start_offset), header.max_timestamp, header.leader_epoch
        )
    return None


def _step_back(step: int) -> None:
    """Let the loop have its turn: Python threads take turns of five milliseconds, of their own accord."""
    if step % _STEPS_AT_ONCE == 0:
        time.sleep(_NAP_S)


# Searching a log for aborted transactions, by the indexes of its segments.

logger = logging.getLogger(__name__)

_first_offset = attrgetter("first_offset")


def aborted_between(segments: Segments, offset: int, end_offset: int) -> list[AbortedTransaction]:
    """Return the aborted transactions with records in [offset, end_offset), by their first offsets.

    A transaction is in the index of the segment that has its marker, which may be a later one.
    """
    found: list[AbortedTransaction] = []
    for segment in segments.all[segments.index_of(offset) :]:
        if segment.txn_index is not None:
            some, is_last = _collect(segments, segment, offset, end_offset)
            found += some
            if is_last:
                break
    found.sort(key=_first_offset)
    return found


def _collect(
    segments: Segments, segment: Segment, offset: int, end_offset: int
) -> tuple[list[AbortedTransaction], bool]:
    """Search one index; if it proves wrong, it is built anew first: aborted records must not be shown."""
    assert segment.txn_index is not None
    try:
        return segment.txn_index.collect(offset, end_offset)
    except (CorruptIndex, FileNotFoundError) as problem:
        logger.warning("%s: building its index of aborted transactions anew: %s", segments.directory, problem)
    offsets = producer_state.snapshot_offsets(segments.storage.disk.list_dir(segments.directory))
    rebuild_txn_indexes(segments, offsets, [segment])
    return segment.txn_index.collect(offset, end_offset)


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
