"""The two indexes of a segment, kept in step, and what is needed to extend them.

Whether batches are noted one by one as they are appended or all at once from the log file, the same
entries come out: an index that is rebuilt equals the one that was lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.log.file_pool import PooledFile
from ottla.log.offset_index import OffsetIndex
from ottla.log.sparse_index import CorruptIndex
from ottla.log.time_index import NO_TIMESTAMP, TimeIndex
from ottla.protocol.records.batch import BatchHeader


class SegmentIndex:
    """Offset index, time index, and the running totals from which their next entries follow."""

    __slots__ = ("max_timestamp", "max_timestamp_offset", "offsets", "times", "unindexed_bytes")

    def __init__(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        self.offsets = offsets
        self.times = times
        self.unindexed_bytes = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = -1

    @classmethod
    def open(cls, offset_file: PooledFile, time_file: PooledFile, base_offset: int) -> SegmentIndex:
        """Open both as they are on disk; CorruptIndex if one cannot be."""
        return cls(OffsetIndex.open(offset_file, base_offset), TimeIndex.open(time_file, base_offset))

    @classmethod
    def create(cls, offset_file: PooledFile, time_file: PooledFile, base_offset: int) -> SegmentIndex:
        """Start both anew; whatever the files held is dropped."""
        return cls(OffsetIndex.create(offset_file, base_offset), TimeIndex.create(time_file, base_offset))

    def note(self, position: int, size: int, last_offset: int, timestamp: int, interval: int) -> None:
        """Take in a batch: `size` bytes at `position`, `timestamp` the latest of its records."""
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last_offset
        if self.unindexed_bytes > interval:
            self.offsets.append(last_offset, position)
            self.times.append_if_later(self.max_timestamp, self.max_timestamp_offset)
            self.unindexed_bytes = 0
        self.unindexed_bytes += size

    def resume_position(self) -> int:
        """Return where a walk starts that `catch_up` can take: the last indexed batch, or 0."""
        last = self.offsets.last()
        return 0 if last is None else last[1]

    def catch_up(self, batches: Iterable[tuple[int, BatchHeader]], interval: int) -> int:
        """Restore the totals, and add the entries that are missing, from the batches at `resume_position` on.

        Returns the offset after the last batch, or -1 if there was none.
        """
        indexed = self.offsets.last()
        latest = self.times.last()
        self.unindexed_bytes = 0
        self.max_timestamp, self.max_timestamp_offset = latest or (NO_TIMESTAMP, -1)
        next_offset = -1
        for position, header in batches:
            next_offset = header.next_offset
            if indexed is not None:
                if indexed != (header.last_offset, position):
                    raise CorruptIndex(f"its last entry {indexed} names another batch")
                indexed = None
            self.note(position, header.size_bytes, header.last_offset, header.max_timestamp, interval)
        if indexed is not None:
            raise CorruptIndex(f"its last entry {indexed} is beyond the log")
        return next_offset

    def truncate_to(self, offset: int) -> None:
        """Drop what belongs to batches that end at or after `offset`; `catch_up` is due then."""
        self.offsets.truncate_to(offset)
        self.times.truncate_to(offset)

    def distrust_from(self, offset: int, log_bytes: int) -> None:
        """After a crash: keep only entries below `offset`, and those only if they make sense."""
        if self.offsets.is_sane_below(offset, log_bytes) and self.times.is_sane_below(offset):
            self.truncate_to(offset)
        else:
            self.truncate_to(0)
        # The time index may be the shorter one: where it ends, nothing is known of later timestamps.
        latest = self.times.last()
        self.offsets.truncate_to(0 if latest is None else latest[1] + 1)

    def complete(self) -> None:
        """The segment is sealed: the time index ends with its largest timestamp."""
        self.times.append_if_later(self.max_timestamp, self.max_timestamp_offset)

    @property
    def has_unwritten(self) -> bool:
        """Whether some entries are only in memory."""
        return self.offsets.has_unwritten or self.times.has_unwritten

    def write_out(self) -> None:
        """Write what is only in memory to the files."""
        self.offsets.write_out()
        self.times.write_out()
