"""The offset index of a segment: from an offset to a position nearby in the .log file.

Entry, 8 bytes, big-endian:
    at  size  field
     0     4  last offset of a batch, minus the segment's base offset
     4     4  position of that batch in the .log file

There is an entry for the first batch after every `index.interval.bytes` of log. Both columns
ascend. To find an offset: take the last entry at or below it, and walk the log from there.
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar

from ottla.log.sparse_index import SparseIndex


class OffsetIndex(SparseIndex):
    """offset -> position, sparse."""

    ENTRY: ClassVar[Struct] = Struct(">II")

    __slots__ = ()

    def append(self, last_offset: int, position: int) -> None:
        """Add an entry for the batch at `position`."""
        self.push(last_offset - self._base, position)

    def last(self) -> tuple[int, int] | None:
        """Return the last (offset, position), or None."""
        return self._absolute(len(self) - 1)

    def lookup(self, offset: int) -> tuple[int, int] | None:
        """Return the last (offset, position) at or below `offset`, or None."""
        return self._absolute(self.count_up_to(0, offset - self._base) - 1)

    def lookup_position(self, position: int) -> tuple[int, int] | None:
        """Return the last (offset, position) whose batch starts at or before `position`, or None."""
        return self._absolute(self.count_up_to(1, position) - 1)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of batches that end at or after `offset`."""
        self.keep(self.count_up_to(0, offset - self._base - 1))

    def is_sane_below(self, offset: int, log_bytes: int) -> bool:
        """Return whether the entries below `offset` ascend in both columns and stay inside the log."""
        before = (-1, -1)
        for entry in self:
            if entry[0] + self._base >= offset:
                return True
            if entry[0] <= before[0] or entry[1] <= before[1] or entry[1] >= log_bytes:
                return False
            before = entry
        return True

    def _absolute(self, slot: int) -> tuple[int, int] | None:
        if slot < 0:
            return None
        relative, position = self.entry(slot)
        return self._base + relative, position
