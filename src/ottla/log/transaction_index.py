"""The aborted transactions whose markers are in a segment: `<base offset>.txnindex`, in Kafka's format.

    34 bytes per aborted transaction, big-endian, in the order of their markers
    at  size  field
     0     2  version, 0
     2     8  producer id
    10     8  first offset: where the transaction starts, which may be in an earlier segment
    18     8  last offset: that of its marker
    26     8  last stable offset: all transactions below it had ended when the marker was appended; every
              transaction that ended later starts there or after it

The file exists only if something was aborted. It is written immediately, but not fsynced: after a crash it is
rebuilt from the batches. An entry that cannot be written stays in memory and is written with the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception class
from typing import NamedTuple

from ottla.log.file_pool import PooledFile
from ottla.log.indexes import CorruptIndex

ENTRY = Struct(">hqqqq")
_VERSION = 0
_READ_ENTRIES = 512


class AbortedTransaction(NamedTuple):
    """One aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The transaction index of one segment."""

    __slots__ = ("_file", "_needs_truncate", "_stored", "_unwritten")

    def __init__(self, file: PooledFile, size_bytes: int = 0) -> None:
        self._file = file
        self._stored = size_bytes // ENTRY.size
        self._needs_truncate = size_bytes % ENTRY.size != 0
        self._unwritten: list[AbortedTransaction] = []

    def __len__(self) -> int:
        return self._stored + len(self._unwritten)

    @property
    def has_file(self) -> bool:
        """Return whether there is, or may be, anything in the file."""
        return self._stored > 0 or self._needs_truncate

    @property
    def has_pending(self) -> bool:
        """Return whether the file is not up to date."""
        return bool(self._unwritten) or self._needs_truncate

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an entry; it is added even if an OSError is raised because it cannot be written now."""
        self._unwritten.append(aborted)
        self.write_pending()

    def write_pending(self) -> None:
        """Bring the file up to date."""
        if self._unwritten:
            data = b"".join(ENTRY.pack(_VERSION, *each) for each in self._unwritten)
            self._file.create().write_at(self._stored * ENTRY.size, data)
            self._stored += len(self._unwritten)
            self._unwritten = []
        if self._needs_truncate:
            self._file.create().truncate(self._stored * ENTRY.size)
            self._needs_truncate = False

    def contents(self) -> bytes:
        """Return all entries as the file has them once it is up to date."""
        return b"".join(ENTRY.pack(_VERSION, *each) for each in self.entries())

    def move_to(self, file: PooledFile) -> None:
        """Use another name after the file was renamed."""
        self._file = file

    def clear(self) -> None:
        """Drop all entries."""
        self._keep(0)

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose markers are at or after `offset`."""
        self._keep(self._count_below(offset))

    def _keep(self, entries: int) -> None:
        if entries >= self._stored:
            del self._unwritten[entries - self._stored :]
        else:
            self._stored, self._needs_truncate, self._unwritten = entries, True, []

    def overlapping(self, offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the entries that overlap [offset, end_offset), and whether no later transaction can."""
        found: list[AbortedTransaction] = []
        for each in self.entries(self._count_below(offset)):
            if each.first_offset < end_offset:
                found.append(each)
            if each.last_stable_offset >= end_offset:
                return found, True
        return found, False

    def entries(self, start: int = 0) -> Iterator[AbortedTransaction]:
        """Yield the entries from number `start` on."""
        while start < self._stored:
            count = min(_READ_ENTRIES, self._stored - start)
            data = self._file.open().read_at(start * ENTRY.size, count * ENTRY.size)
            for position in range(0, count * ENTRY.size, ENTRY.size):
                yield self._unpack(data, position)
            start += count
        yield from self._unwritten[start - self._stored :]

    def _count_below(self, offset: int) -> int:
        """Return how many entries have their markers below `offset`; entries are in that order."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle).last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _entry(self, number: int) -> AbortedTransaction:
        if number >= self._stored:
            return self._unwritten[number - self._stored]
        return self._unpack(self._file.open().read_at(number * ENTRY.size, ENTRY.size), 0)

    def _unpack(self, data: bytes, position: int) -> AbortedTransaction:
        try:
            version, *fields = ENTRY.unpack_from(data, position)
        except StructError:
            raise CorruptIndex(f"{self._file.path} is shorter than it was") from None
        if version != _VERSION:
            raise CorruptIndex(f"{self._file.path} has an entry of version {version}")
        return AbortedTransaction(*fields)
