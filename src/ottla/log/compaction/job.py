"""Compact one log once. policy.py describes the algorithm, batch_filter.py which records are kept.

A `CompactionJob` is created on the event loop, where it captures the log's segments and producers. The
expensive steps, `prepare` and `copy`, run in a thread and use only open files; their results are applied on
the loop:

    job = CompactionJob(log, stats, ...)           loop
    job.prepare()                                  thread: aborted transactions, offset map
    for group in job.groups():                     loop
        cleaned = job.copy(group)                  thread: writes and fsyncs `.cleaned` files
        renamed += job.swap_in(group, cleaned)     loop: see Log.replace_segments
    job.end_offset                                 the log is clean below this offset

A job can be cancelled at any point. Segments that were swapped in stay. Unfinished copies are removed; after
a crash, opening the log removes them or completes the swap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from ottla.log.batch_walk import walk_batches, walk_headers
from ottla.log.compaction.batch_filter import (
    AbortedTransactions,
    Batch,
    BatchFilter,
    ThrottleCallback,
    TransactionIndexBuilder,
    throttled,
)
from ottla.log.compaction.offset_map import DEFAULT_LOAD_FACTOR, OffsetMap
from ottla.log.compaction.policy import CleanableStats, group_segments
from ottla.log.file_names import CLEANED
from ottla.log.log import Log
from ottla.log.producers.producer_state import ProducerEntry
from ottla.log.segment import Segment
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import BatchHeader, check_crc, decode_header
from ottla.protocol.records.records import iter_records


class LogChanged(Exception):
    """The log was truncated, or segments were removed from it, while they were being copied."""


class CannotCompact(Exception):
    """The log cannot be compacted; the message is for the operator."""


@dataclass(slots=True)
class CleaningStats:
    """What a job did."""

    bytes_read: int = 0
    bytes_written: int = 0
    undecodable_batches: int = 0


class CompactionJob:
    """One compaction of one log."""

    def __init__(
        self,
        log: Log,
        cleanable: CleanableStats,
        *,
        producers: Mapping[int, ProducerEntry],
        now_ms: int,
        keep_deletes: bool = False,
        map_bytes: int,
        load_factor: float = DEFAULT_LOAD_FACTOR,
        throttle: ThrottleCallback = lambda size: None,
    ) -> None:
        self.log = log
        self._truncations = log.truncation_count
        self.end_offset = cleanable.first_dirty_offset
        self.stats = CleaningStats()
        self._cleanable = cleanable
        self._config = log.config
        self._producers = producers
        self._now_ms = now_ms
        self._keep_deletes = keep_deletes
        self._throttle = throttle
        self._map = OffsetMap.sized(
            cleanable.first_uncleanable_offset - cleanable.first_dirty_offset, map_bytes, load_factor
        )
        self._aborted = AbortedTransactions()
        self._kept = TransactionIndexBuilder()
        self._filter: BatchFilter | None = None
        end_offset = cleanable.first_uncleanable_offset
        sources = [_Source(segment, segment.size_bytes) for segment in log.segments]
        self._sources = [source for source in sources[:-1] if source.base_offset < end_offset]
        self._uncleanable_sources = sources[len(self._sources) :]
        clean = [
            source for source, then in pairwise(sources) if then.base_offset <= cleanable.first_dirty_offset
        ]
        self._dirty = self._sources[len(clean) :]

    def prepare(self) -> None:
        """Scan the dirty part: find aborted transactions and the latest offset of each key."""
        limit = self._scan_transactions()
        self._fill_map(limit)
        if self.end_offset == self._cleanable.first_dirty_offset and limit > self.end_offset:
            raise CannotCompact(
                f"a batch at offset {self.end_offset} has more than {self._map.capacity} keys; "
                "increase log.cleaner.dedupe.buffer.size"
            )
        self._filter = BatchFilter(
            self._map,
            end_offset=self.end_offset,
            producers=self._producers,
            aborted=self._aborted,
            delete_retention_ms=self._config.delete_retention_ms,
            now_ms=self._now_ms,
            keep_deletes=self._keep_deletes,
            throttle=self._throttle,
        )

    @property
    def keys(self) -> int:
        """Return the number of distinct keys in the dirty part."""
        return len(self._map)

    def groups(self) -> Iterator[list[Segment]]:
        """Yield the segments that become one; some may be gone by the time they are copied."""
        segments = [source.segment for source in self._sources if source.base_offset < self.end_offset]
        return group_segments(segments, self._cleanable.first_uncleanable_offset, self._config.segment_bytes)

    def copy(self, group: list[Segment]) -> Segment | None:
        """Write what is kept of `group` into a new, fsynced segment; None if nothing changes."""
        first, log = group[0], self.log
        cleaned = Segment.create(
            log.storage, log.path, first.base_offset, self._config, now_ms=self._now_ms, suffix=CLEANED
        )
        try:
            if first.txn_index is not None:
                cleaned.create_txn_index()
            changed = len(group) > 1
            for segment in group:
                changed |= self._copy_segment(segment, cleaned, is_last=segment is group[-1])
            if changed:
                cleaned.seal()
                cleaned.fsync()
                return cleaned
        except BaseException:
            cleaned.remove()
            raise
        cleaned.remove()
        return None

    def swap_in(self, group: list[Segment], cleaned: Segment) -> list[str]:
        """Replace `group` by `cleaned`; return the files that can be removed later.

        Raise LogChanged, and remove the copy, if a segment of the group is gone or the log was truncated.
        """
        try:
            self.check_unchanged()
            return self.log.replace_segments(group, [cleaned])
        except (ValueError, LogChanged) as error:
            cleaned.remove()
            raise LogChanged(str(error)) from error

    def check_unchanged(self) -> None:
        """Raise LogChanged if the offset map may contain records that are gone and supersede nothing any
        more.
        """
        if self.log.is_closed:
            raise LogChanged("it was closed")
        if self.log.truncation_count != self._truncations:
            raise LogChanged("it was truncated")

    def _scan_transactions(self) -> int:
        """Find the aborted transactions of the dirty part; return the offset below which all have ended."""
        limit = self._cleanable.first_uncleanable_offset
        scan = self._aborted
        for source in self._dirty:
            self._scan_segment(source)
        for source in self._uncleanable_sources:
            if not scan.has_open_below(limit):
                break
            self._scan_segment(source)
        still_open = scan.first_open_offset
        return limit if still_open is None else max(self.end_offset, min(limit, still_open))

    def _scan_segment(self, source: _Source) -> None:
        file = source.segment.open_file()
        for position, header in walk_headers(file, 0, source.size_bytes):
            if header.is_control:
                batch = memoryview(file.read_at(position, header.size_bytes))
                check_crc(batch, header)
                self._aborted.add_marker(header, batch)
            elif header.is_transactional:
                self._aborted.add_batch(header)

    def _fill_map(self, limit: int) -> None:
        """Put the keys of the dirty part into the map, up to `limit` or until it is full."""
        for source in self._dirty:
            file = source.segment.open_file()
            for _, header, batch in walk_batches(file, 0, source.size_bytes):
                if header.base_offset >= limit:
                    return
                if header.next_offset > self._cleanable.first_dirty_offset:
                    check_crc(batch, header)
                    if not self._map_batch(header, batch):
                        return
                    self.end_offset = header.next_offset
                self._throttle(len(batch))
        # Compaction leaves gaps, also at the end of a segment: nothing is dirty in there.
        self.end_offset = limit

    def _map_batch(self, header: BatchHeader, batch: memoryview) -> bool:
        """Return False if the map is full.

        The map may then hold a part of the batch, which is harmless: those records are at or above
        `end_offset`, where everything is kept.
        """
        if header.is_control or (header.is_transactional and self._aborted.includes(header)):
            return True
        try:
            records = list(throttled(iter_records(batch), self._throttle))
        except KafkaError:
            return True
        first_dirty, put = self._cleanable.first_dirty_offset, self._map.put
        for record in throttled(records, self._throttle):
            if record.key is not None and record.offset >= first_dirty and not put(record.key, record.offset):
                return False
        return True

    def _copy_segment(self, segment: Segment, cleaned: Segment, *, is_last: bool) -> bool:
        """Append what is kept of `segment` to `cleaned`; return whether something was dropped or changed."""
        assert self._filter is not None, "prepare() comes first"
        changed, size = False, segment.size_bytes
        stats = self.stats
        for position, header, batch in walk_batches(segment.open_file(), 0, size):
            must_keep = is_last and position + len(batch) == size
            kept = self._filter.compact(header, batch, must_keep=must_keep)
            changed |= kept is not batch
            stats.bytes_read += len(batch)
            if kept is not None:
                self._append(cleaned, kept, header if kept is batch else decode_header(kept))
                stats.bytes_written += len(kept)
            self._throttle(len(batch))
        stats.undecodable_batches = self._filter.undecodable
        return changed

    def _append(self, cleaned: Segment, batch: Batch, header: BatchHeader) -> None:
        cleaned.append(batch, header)
        if header.is_transactional:
            aborted = self._kept.add(header, batch)
            if aborted is not None:
                cleaned.append_aborted(aborted)


@dataclass(frozen=True, slots=True)
class _Source:
    """A segment and its size when the job started (the active segment grows)."""

    segment: Segment
    size_bytes: int

    @property
    def base_offset(self) -> int:
        return self.segment.base_offset
