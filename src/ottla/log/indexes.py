"""The indexes of a segment: from an offset to a position, and from a timestamp to an offset.

Both are files of ascending entries of a fixed size, big-endian.

    .index, 8 bytes per entry
    at  size  field
     0     4  last offset of a batch, minus the segment's base offset
     4     4  position of that batch in the .log file

    .timeindex, 12 bytes per entry
    at  size  field
     0     8  the largest timestamp in the segment so far
     8     4  last offset of the batch that has it, minus the segment's base offset

The offset index has an entry for the first batch after every `index.interval.bytes` of log. To find an
offset, take the last entry at or below it and walk the log from there. The time index gets an entry together
with the offset index, if the largest timestamp has grown; a sealed segment ends with an entry for its largest
timestamp. No record before an entry's batch has that timestamp or a later one.

The file holds all entries but the last few hundred, which are in memory and are appended one block at a time.
So an index uses a few kilobytes of memory, needs no descriptor while it is idle, and kill -9 leaves a valid
but shorter index that recovery completes. (Kafka maps a preallocated file instead; sealed segments are
identical.)

An entry is never trusted: every lookup compares it with the batch that it points to, and raises
`CorruptIndex` if they differ, which makes the segment rebuild its indexes. Rebuilding produces the same
entries as appending.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class
from typing import ClassVar, Self

from ottla.log.file_pool import PooledFile
from ottla.protocol.records.batch import BatchHeader

BLOCK_BYTES = 4096
"""How much is buffered in memory before it is written, and read at once when searching."""

Entry = tuple[int, int]


class CorruptIndex(Exception):
    """The index contradicts the log or itself, or is missing; it can be rebuilt."""


class SparseIndex:
    """A file of ascending pairs of numbers, the last of which are buffered in memory."""

    ENTRY: ClassVar[Struct]

    __slots__ = ("_base", "_file", "_needs_truncate", "_stored", "_tail")

    def __init__(self, file: PooledFile, base_offset: int, stored_entries: int = 0) -> None:
        self._file = file
        self._base = base_offset
        self._stored = stored_entries
        self._needs_truncate = False
        """Whether the file is longer than `_stored` entries; the excess is ignored, and truncated later."""
        self._tail = bytearray()

    @classmethod
    def create(cls, file: PooledFile, base_offset: int) -> Self:
        """Start an empty index; existing contents of the file are ignored."""
        index = cls(file, base_offset)
        index._needs_truncate = file.create().size() > 0
        return index

    @classmethod
    def open(cls, file: PooledFile, base_offset: int) -> Self:
        """Open the index as it is on disk; CorruptIndex if it is missing or has a partial entry."""
        try:
            size = file.open().size()
        except FileNotFoundError:
            raise CorruptIndex(f"{file.path} is missing") from None
        if size % cls.ENTRY.size:
            raise CorruptIndex(f"{file.path} has {size} bytes, not a multiple of {cls.ENTRY.size}")
        return cls(file, base_offset, size // cls.ENTRY.size)

    def __len__(self) -> int:
        return self._stored + len(self._tail) // self.ENTRY.size

    def contents(self) -> bytes:
        """Return all entries as the file has them once it is up to date."""
        stored = self._file.open().read_at(0, self._stored * self.ENTRY.size) if self._stored else b""
        return stored + self._tail

    def __iter__(self) -> Iterator[Entry]:
        yield from self.ENTRY.iter_unpack(self.contents())

    @property
    def size_bytes(self) -> int:
        """Return the size of all entries, written or buffered."""
        return len(self) * self.ENTRY.size

    def entry(self, slot: int) -> Entry:
        """Return entry number `slot`; -1 is the last one."""
        if slot < 0:
            slot += len(self)
        size = self.ENTRY.size
        if slot >= self._stored:
            a, b = self.ENTRY.unpack_from(self._tail, (slot - self._stored) * size)
        else:
            a, b = self._unpack(self._file.open().read_at(slot * size, size), 0)
        return a, b

    def append_entry(self, a: int, b: int) -> None:
        """Append an entry. If a full block cannot be written now, it is retried with the next one."""
        self._tail += self.ENTRY.pack(a, b)
        if len(self._tail) >= BLOCK_BYTES:
            try:
                self.write_pending()
            except OSError:
                pass

    @property
    def has_pending(self) -> bool:
        """Return whether the file is not up to date."""
        return bool(self._tail) or self._needs_truncate

    def write_pending(self) -> None:
        """Bring the file up to date."""
        if self._tail:
            self._file.create().write_at(self._stored * self.ENTRY.size, self._tail)
            self._stored = len(self)
            self._tail = bytearray()
        if self._needs_truncate:
            self._file.create().truncate(self._stored * self.ENTRY.size)
            self._needs_truncate = False

    def truncate_entries(self, entries: int) -> None:
        """Drop all entries after the first `entries`.

        The file is truncated when it is next written: by then it often has the same size again, and
        truncating a file to zero makes some file systems flush it when it is closed.
        """
        if entries >= self._stored:
            del self._tail[(entries - self._stored) * self.ENTRY.size :]
            return
        self._stored = entries
        self._needs_truncate = True
        self._tail = bytearray()

    def count_up_to(self, field: int, limit: int) -> int:
        """Return how many leading entries have `field` <= `limit`."""
        unpack, size = self.ENTRY.unpack_from, self.ENTRY.size
        if self._tail and (not self._stored or unpack(self._tail, 0)[field] <= limit):
            return self._stored + self._count_in(self._tail, len(self._tail) // size, field, limit)
        low, high = 0, self._stored
        block_entries = BLOCK_BYTES // size
        file = self._file.open() if high else None
        while high - low > block_entries:
            middle = (low + high) // 2
            assert file is not None
            if self._unpack(file.read_at(middle * size, size), 0)[field] <= limit:
                low = middle + 1
            else:
                high = middle
        if file is None or low == high:
            return low
        block = file.read_at(low * size, (high - low) * size)
        return low + self._count_in(block, high - low, field, limit)

    def _count_in(self, block: bytes | bytearray, entries: int, field: int, limit: int) -> int:
        low, high = 0, entries
        while low < high:
            middle = (low + high) // 2
            if self._unpack(block, middle * self.ENTRY.size)[field] <= limit:
                low = middle + 1
            else:
                high = middle
        return low

    def _unpack(self, block: bytes | bytearray, position: int) -> Entry:
        try:
            a, b = self.ENTRY.unpack_from(block, position)
        except StructError:
            raise CorruptIndex(f"{self._file.path} is shorter than it was") from None
        return a, b


class OffsetIndex(SparseIndex):
    """Maps offsets to positions, sparsely."""

    ENTRY: ClassVar[Struct] = Struct(">II")

    __slots__ = ()

    def append(self, last_offset: int, position: int) -> None:
        """Append an entry for the batch at `position`."""
        self.append_entry(last_offset - self._base, position)

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
        self.truncate_entries(self.count_up_to(0, offset - self._base - 1))

    def is_valid_below(self, offset: int, log_bytes: int) -> bool:
        """Return whether the entries below `offset` ascend in both columns and lie inside the log."""
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


NO_TIMESTAMP = -1


class TimeIndex(SparseIndex):
    """Maps timestamps to offsets, sparsely."""

    ENTRY: ClassVar[Struct] = Struct(">qI")

    __slots__ = ("_last_timestamp",)

    def __init__(self, file: PooledFile, base_offset: int, stored_entries: int = 0) -> None:
        super().__init__(file, base_offset, stored_entries)
        last = self.last()
        self._last_timestamp = NO_TIMESTAMP if last is None else last[0]

    def append_if_later(self, timestamp: int, offset: int) -> None:
        """Append an entry if `timestamp` is later than that of the last entry."""
        if timestamp > self._last_timestamp:
            self.append_entry(timestamp, offset - self._base)
            self._last_timestamp = timestamp

    def last(self) -> tuple[int, int] | None:
        """Return the last (timestamp, offset), or None."""
        return self._absolute(len(self) - 1)

    def lookup(self, timestamp: int) -> tuple[int, int] | None:
        """Return the last (timestamp, offset) at or before `timestamp`, or None."""
        return self._absolute(self.count_up_to(0, timestamp) - 1)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of batches that end at or after `offset`."""
        self.truncate_entries(self.count_up_to(1, offset - self._base - 1))
        last = self.last()
        self._last_timestamp = NO_TIMESTAMP if last is None else last[0]

    def is_valid_below(self, offset: int) -> bool:
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


class SegmentIndex:
    """The offset index and time index of a segment, and the totals that determine their next entries."""

    __slots__ = ("max_timestamp", "max_timestamp_offset", "offsets", "times", "unindexed_bytes")

    def __init__(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        self.offsets = offsets
        self.times = times
        self.unindexed_bytes = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = -1

    @classmethod
    def open(cls, offset_file: PooledFile, time_file: PooledFile, base_offset: int) -> SegmentIndex:
        """Open both as they are on disk; CorruptIndex if one cannot be opened."""
        return cls(OffsetIndex.open(offset_file, base_offset), TimeIndex.open(time_file, base_offset))

    @classmethod
    def create(cls, offset_file: PooledFile, time_file: PooledFile, base_offset: int) -> SegmentIndex:
        """Create both empty; existing contents of the files are dropped."""
        return cls(OffsetIndex.create(offset_file, base_offset), TimeIndex.create(time_file, base_offset))

    def add_batch(self, position: int, size: int, last_offset: int, timestamp: int, interval: int) -> None:
        """Index a batch: `size` bytes at `position`; `timestamp` is the latest of its records."""
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last_offset
        if self.unindexed_bytes > interval:
            self.offsets.append(last_offset, position)
            self.times.append_if_later(self.max_timestamp, self.max_timestamp_offset)
            self.unindexed_bytes = 0
        self.unindexed_bytes += size

    def resume_position(self) -> int:
        """Return where `catch_up` must start: at the last indexed batch, or 0."""
        last = self.offsets.last()
        return 0 if last is None else last[1]

    def catch_up(self, batches: Iterable[tuple[int, BatchHeader]], interval: int) -> int:
        """Restore the totals and append missing entries from the batches at `resume_position` and after it.

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
            self.add_batch(position, header.size_bytes, header.last_offset, header.max_timestamp, interval)
        if indexed is not None:
            raise CorruptIndex(f"its last entry {indexed} is beyond the log")
        return next_offset

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of batches that end at or after `offset`; call `catch_up` next."""
        self.offsets.truncate_to(offset)
        self.times.truncate_to(offset)

    def discard_untrusted(self, offset: int, log_bytes: int) -> None:
        """After a crash: keep only entries below `offset`, and only if they are valid."""
        if self.offsets.is_valid_below(offset, log_bytes) and self.times.is_valid_below(offset):
            self.truncate_to(offset)
        else:
            self.truncate_to(0)
        # The time index may be the shorter one: where it ends, nothing is known of later timestamps.
        latest = self.times.last()
        self.offsets.truncate_to(0 if latest is None else latest[1] + 1)

    def finish(self) -> None:
        """Complete the time index of a segment that is being sealed: it ends with the largest timestamp."""
        self.times.append_if_later(self.max_timestamp, self.max_timestamp_offset)

    @property
    def has_pending(self) -> bool:
        """Return whether some entries are only in memory."""
        return self.offsets.has_pending or self.times.has_pending

    def write_pending(self) -> None:
        """Write the entries that are only in memory."""
        self.offsets.write_pending()
        self.times.write_pending()
