"""The time index of a segment: from a timestamp to the offset where the log first reached it.

Entry, 12 bytes, big-endian:
    at  size  field
     0     8  the largest timestamp in the segment so far
     8     4  last offset of the batch that brought it, minus the segment's base offset

An entry is added together with one of the offset index, if the largest timestamp has grown since;
a sealed segment always ends with an entry for its largest timestamp. Both columns ascend. No record
before an entry's batch is as late as the entry's timestamp.
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar

from ottla.log.file_pool import PooledFile
from ottla.log.sparse_index import SparseIndex

NO_TIMESTAMP = -1


class TimeIndex(SparseIndex):
    """timestamp -> offset, sparse."""

    ENTRY: ClassVar[Struct] = Struct(">qI")

    __slots__ = ("_last_timestamp",)

    def __init__(self, file: PooledFile, base_offset: int, stored_entries: int = 0) -> None:
        super().__init__(file, base_offset, stored_entries)
        last = self.last()
        self._last_timestamp = NO_TIMESTAMP if last is None else last[0]

    def append_if_later(self, timestamp: int, offset: int) -> None:
        """Add an entry if `timestamp` is later than the last entry's."""
        if timestamp > self._last_timestamp:
            self.push(timestamp, offset - self._base)
            self._last_timestamp = timestamp

    def last(self) -> tuple[int, int] | None:
        """Return the last (timestamp, offset), or None."""
        return self._absolute(len(self) - 1)

    def lookup(self, timestamp: int) -> tuple[int, int] | None:
        """Return the last (timestamp, offset) at or before `timestamp`, or None."""
        return self._absolute(self.count_up_to(0, timestamp) - 1)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of batches that end at or after `offset`."""
        self.keep(self.count_up_to(1, offset - self._base - 1))
        last = self.last()
        self._last_timestamp = NO_TIMESTAMP if last is None else last[0]

    def is_sane_below(self, offset: int) -> bool:
        """Return whether the entries below `offset` ascend in both columns."""
        before = (NO_TIMESTAMP, -1)
        for entry in self:
            if entry[1] + self._base >= offset:
                return True
            if entry[0] <= before[0] or entry[1] <= before[1]:
                return False
            before = entry
        return True

    def _absolute(self, slot: int) -> tuple[int, int] | None:
        if slot < 0:
            return None
        timestamp, relative = self.entry(slot)
        return timestamp, self._base + relative
