"""What the offset index and the time index have in common: ascending entries of a fixed size.

The file holds all entries but the last few hundred: those are a short tail in memory that is
appended to the file one block at a time. So an index takes a few kilobytes of memory at most, needs
no descriptor while it is idle, and what a kill -9 leaves behind is a valid, if shorter, index that
recovery completes. (Kafka maps a preallocated file instead; sealed segments look the same.)

Lookups never trust an entry: who looks one up compares it with the batch it points to, and calls
for a rebuild with `CorruptIndex` when they differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class
from typing import ClassVar, Self

from ottla.log.file_pool import PooledFile

BLOCK_BYTES = 4096
"""How much is gathered in memory before it is written, and read at once when searching."""

Entry = tuple[int, int]


class CorruptIndex(Exception):
    """The index does not agree with the log, with itself, or is not there; it can be rebuilt."""


class SparseIndex:
    """A sorted file of pairs of numbers with a tail in memory."""

    ENTRY: ClassVar[Struct]

    __slots__ = ("_base", "_file", "_has_excess", "_stored", "_tail")

    def __init__(self, file: PooledFile, base_offset: int, stored_entries: int = 0) -> None:
        self._file = file
        self._base = base_offset
        self._stored = stored_entries
        self._has_excess = False
        """The file goes on after `_stored` entries; that part does not count, and will be cut off."""
        self._tail = bytearray()

    @classmethod
    def create(cls, file: PooledFile, base_offset: int) -> Self:
        """Start an empty index; what the file may hold does not count."""
        index = cls(file, base_offset)
        index._has_excess = file.create().size() > 0
        return index

    @classmethod
    def open(cls, file: PooledFile, base_offset: int) -> Self:
        """Open the index as it is on disk; CorruptIndex if it is missing or has half an entry."""
        try:
            size = file.open().size()
        except FileNotFoundError:
            raise CorruptIndex(f"{file.path} is missing") from None
        if size % cls.ENTRY.size:
            raise CorruptIndex(f"{file.path} has {size} bytes, not a multiple of {cls.ENTRY.size}")
        return cls(file, base_offset, size // cls.ENTRY.size)

    def __len__(self) -> int:
        return self._stored + len(self._tail) // self.ENTRY.size

    def __iter__(self) -> Iterator[Entry]:
        stored = self._file.open().read_at(0, self._stored * self.ENTRY.size) if self._stored else b""
        yield from self.ENTRY.iter_unpack(stored + self._tail)

    @property
    def size_bytes(self) -> int:
        """All entries, stored or not."""
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

    def push(self, a: int, b: int) -> None:
        """Add an entry. A disk that cannot take a full block now is asked again with the next one."""
        self._tail += self.ENTRY.pack(a, b)
        if len(self._tail) >= BLOCK_BYTES:
            try:
                self.write_out()
            except OSError:
                pass

    @property
    def has_unwritten(self) -> bool:
        """Whether the file is not yet what it should be."""
        return bool(self._tail) or self._has_excess

    def write_out(self) -> None:
        """Bring the file up to date."""
        if self._tail:
            self._file.create().write_at(self._stored * self.ENTRY.size, self._tail)
            self._stored = len(self)
            self._tail = bytearray()
        if self._has_excess:
            self._file.create().truncate(self._stored * self.ENTRY.size)
            self._has_excess = False

    def keep(self, entries: int) -> None:
        """Drop all entries after the first `entries`.

        The file is cut only when it is next written: by then it often has the same size again, and
        cutting a file to nothing makes some file systems write it all out when it is closed.
        """
        if entries >= self._stored:
            del self._tail[(entries - self._stored) * self.ENTRY.size :]
            return
        self._stored = entries
        self._has_excess = True
        self._tail = bytearray()

    def count_up_to(self, field: int, limit: int) -> int:
        """Return how many entries, from the first on, have `field` <= `limit`."""
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

    def _unpack(self, block: bytes | bytearray, at: int) -> Entry:
        try:
            a, b = self.ENTRY.unpack_from(block, at)
        except StructError:
            raise CorruptIndex(f"{self._file.path} is shorter than it was") from None
        return a, b
