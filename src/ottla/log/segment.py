"""One segment of a log: `<base offset>.log` with its indexes by offset and time, and of aborted transactions.

Segments are many and mostly idle, so one that nobody uses is a few numbers: files open through the
pool, indexes load when they are first needed, and a sealed segment's largest timestamp is read from
its time index when somebody asks.

A segment is not thread-safe, but one that nobody else knows yet (the cleaner's copy) may be filled
in any one thread. A descriptor that somebody holds goes on working whatever happens to the name.
"""

from __future__ import annotations

from ottla.log import segment_lookup as lookup
from ottla.log.disk import Bytes, OpenFile
from ottla.log.indexed_file import IndexedFile
from ottla.log.log_config import LogConfig
from ottla.log.names import LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX
from ottla.log.segment_files import SegmentFiles
from ottla.log.segment_index import SegmentIndex
from ottla.log.storage import Storage
from ottla.log.time_index import NO_TIMESTAMP
from ottla.log.transaction_index import AbortedTransaction, TransactionIndex
from ottla.protocol.records.batch import BatchHeader

_POSITIONS_KEPT = 16


class TornAppend(OSError):
    """Part of a batch may be left at the end of the file; nothing must be written after it."""


class Segment(IndexedFile):
    """A run of batches: append, truncate, find."""

    __slots__ = ("_first_timestamp", "created_ms")

    def __init__(
        self,
        files: SegmentFiles,
        index_interval_bytes: int,
        *,
        size_bytes: int = 0,
        created_ms: int = 0,
        is_sealed: bool = False,
        txn_index_bytes: int = 0,
    ) -> None:
        super().__init__(
            files,
            index_interval_bytes,
            size_bytes=size_bytes,
            is_sealed=is_sealed,
            txn_index_bytes=txn_index_bytes,
        )
        self.created_ms = created_ms
        self._first_timestamp: int | None = None

    @classmethod
    def create(
        cls,
        storage: Storage,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        now_ms: int,
        suffix: str = "",
    ) -> Segment:
        """Create the files of an empty segment; leftovers of the same name are emptied."""
        files = SegmentFiles(storage, directory, base_offset, suffix)
        segment = cls(files, config.index_interval_bytes, created_ms=now_ms)
        try:
            file = files.handle(LOG).create()
            if file.size():
                file.truncate(0)
            segment._index = SegmentIndex.create(
                files.handle(OFFSET_INDEX), files.handle(TIME_INDEX), base_offset
            )
            storage.disk.remove(files.path(TXN_INDEX))
        except OSError:
            files.remove()  # an empty .log would pass for the end of the log
            raise
        return segment

    def load(self) -> None:
        """Load the indexes and find the end; CorruptMessage if the file does not end with a whole batch."""
        self._loaded()
        self._search(lookup.check_times, self.index_interval_bytes)

    # What it holds
    @property
    def max_timestamp(self) -> int:
        """The latest timestamp of its records, -1 if there is none."""
        return self.latest()[0]

    def latest(self) -> tuple[int, int]:
        """Return the latest timestamp, and the last offset of the batch that brought it; (-1, -1) if none."""
        if not self.is_sealed:
            index = self._loaded()
            return index.max_timestamp, index.max_timestamp_offset
        if self._latest is None:
            self._latest = self._search(lookup.latest, self.index_interval_bytes)
        return self._latest

    @property
    def first_timestamp(self) -> int:
        """The max_timestamp of the first batch, -1 when empty: what its age is counted from."""
        if self._first_timestamp is None:
            if self.size_bytes == 0:
                return NO_TIMESTAMP
            self._first_timestamp = self.header_at(0).max_timestamp
        return self._first_timestamp

    @property
    def index_bytes(self) -> int:
        """The size of the larger one of its indexes."""
        index = self._loaded()
        return max(index.offsets.size_bytes, index.times.size_bytes)

    def modified_ms(self) -> int:
        """Return when the .log file last changed."""
        return self._log.open().modified_ms()

    # Changing it
    def append(self, batch: Bytes, header: BatchHeader) -> None:
        """Append one whole batch as it is. After an OSError it is as it was, except for `TornAppend`."""
        self.append_stamped(batch, header.last_offset, header.max_timestamp)

    def append_stamped(self, batch: Bytes, last_offset: int, max_timestamp: int) -> None:
        """Append one whole batch; the caller knows what its header says."""
        index = self._index or self._loaded()
        position = self.size_bytes
        file = self._log.open()
        try:
            file.write_at(position, batch)
        except OSError as error:
            self._cut_torn_tail(file, error)
            raise
        size = len(batch)
        index.note(position, size, last_offset, max_timestamp, self.index_interval_bytes)
        self.size_bytes = position + size
        self._next_offset = last_offset + 1
        if position == 0:
            self._first_timestamp = max_timestamp

    def _cut_torn_tail(self, file: OpenFile, error: OSError) -> None:
        """Remove what a failed append may have left after the last batch."""
        try:
            file.truncate(self.size_bytes)
        except OSError as worse:
            raise TornAppend(worse.errno, f"{error}; and it cannot be cut off: {worse}") from error

    def boundary_at(self, offset: int) -> int:
        """Return `offset`, or the base offset of the batch that it is inside of."""
        position = self.position_of(offset)
        if position == self.size_bytes:
            return offset
        return min(offset, self.header_at(position).base_offset)

    def truncate_to(self, offset: int) -> None:
        """Drop everything from `offset` on, which is a boundary between batches."""
        position = self.position_of(offset)
        index = self._loaded()
        index.truncate_to(offset)
        self._log.open().truncate(position)
        self.size_bytes = position
        self.is_sealed = False
        self._positions.clear()
        self._latest = None
        self._first_timestamp = None
        self._catch_up(index)
        self._next_offset = offset
        if self.txn_index is not None:
            self.txn_index.truncate_to(offset)

    def create_txn_index(self) -> None:
        """Create the file of aborted transactions, even if there will be none.

        For a copy that takes a segment's place: if a crash interrupts that, the old one's must not survive.
        """
        self.files.handle(TXN_INDEX).create()

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        """Take note of a transaction whose marker was appended; it counts even after an OSError."""
        if self.txn_index is None:
            self.txn_index = TransactionIndex(self.files.handle(TXN_INDEX))
        self.txn_index.append(aborted)

    # Finding
    def position_of(self, offset: int) -> int:
        """Return where the first batch with last_offset >= `offset` starts; size_bytes if there is none."""
        if offset <= self.base_offset:
            return 0
        if 0 <= self._next_offset <= offset:
            return self.size_bytes
        position = self._positions.get(offset)
        if position is None:
            position = self._search(lookup.position_of, offset, self.index_interval_bytes)
            self.remember(offset, position)
        return position

    def remember(self, offset: int, position: int) -> None:
        """Keep where `offset` is: a consumer's next read starts where its last one ended."""
        if len(self._positions) >= _POSITIONS_KEPT:
            self._positions.clear()
        self._positions[offset] = position

    def last_boundary(self, start: int, limit: int) -> tuple[int, int]:
        """Return (position, next offset) of the last boundary between batches in (start, limit].

        `start` must be one itself; (start, -1) says that the batch there reaches beyond `limit`.
        """
        return self._search(lookup.last_boundary, start, limit)

    def position_for_time(self, timestamp: int) -> int:
        """Return a position before which no record is as late as `timestamp`."""
        return self._search(lookup.position_for_time, timestamp, self.index_interval_bytes)
