"""One segment of a log: `<base offset>.log` with its indexes by offset and time, and of aborted transactions.

Segments are many and mostly idle, so one that nobody uses is a few numbers: files open through the
pool, indexes load when they are first needed, and a sealed segment's largest timestamp is read from
its time index when somebody asks.

A segment is not thread-safe, but one that nobody else knows yet (the cleaner's copy) may be filled
in any one thread. A descriptor that somebody holds goes on working whatever happens to the name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

from ottla.log import segment_lookup as lookup
from ottla.log.batch_walk import in_order, walk_headers
from ottla.log.disk import Bytes, OpenFile
from ottla.log.file_names import LOG, OFFSET_INDEX, SEGMENT_KINDS, TIME_INDEX, TXN_INDEX, file_name
from ottla.log.file_pool import PooledFile
from ottla.log.indexes import NO_TIMESTAMP, CorruptIndex, SegmentIndex
from ottla.log.log_config import LogConfig
from ottla.log.storage import Storage
from ottla.log.transaction_index import AbortedTransaction, TransactionIndex
from ottla.protocol.errors import CorruptMessage
from ottla.protocol.records.batch import HEADER_BYTES, BatchHeader


class SegmentFiles:
    """`<base offset>.log` and its companions, all with the same suffix."""

    __slots__ = ("_handles", "base_offset", "directory", "storage", "suffix")

    def __init__(self, storage: Storage, directory: str, base_offset: int, suffix: str = "") -> None:
        self.storage = storage
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self._handles: dict[str, PooledFile] | None = None

    def path(self, kind: str) -> str:
        """Return the name of the file of this kind."""
        return f"{self.directory}/{file_name(self.base_offset, kind)}{self.suffix}"

    def paths(self) -> list[str]:
        """Return the names of all files, existing or not."""
        return [self.path(kind) for kind in SEGMENT_KINDS]

    def handle(self, kind: str) -> PooledFile:
        """Return the file of this kind, to be opened when it is needed."""
        if self._handles is None:
            self._handles = {}
        handle = self._handles.get(kind)
        if handle is None:
            handle = self._handles[kind] = PooledFile(self.storage.pool, self.path(kind))
        return handle

    def close(self) -> None:
        """Let go of all descriptors; they are opened again when needed."""
        for handle in (self._handles or {}).values():
            handle.close()

    def change_suffix(self, suffix: str) -> None:
        """Rename every file that exists.

        The .log file goes last when it takes a place (.swap, none) and first when it leaves one
        (.deleted): whether a segment is there is decided by its .log file alone. If one rename fails,
        those before it are undone.
        """
        leaving = self.suffix == ""
        kinds = sorted(SEGMENT_KINDS, key=lambda kind: (kind == LOG) != leaving)
        self.close()
        self._handles = None
        for number, kind in enumerate(kinds):
            try:
                self._rename(kind, self.suffix, suffix)
            except OSError:
                self._undo(kinds[:number], suffix)
                raise
        self.suffix = suffix

    def _undo(self, kinds: list[str], suffix: str) -> None:
        try:
            for kind in reversed(kinds):
                self._rename(kind, suffix, self.suffix)
        except OSError as error:
            self.storage.take_offline(f"{self.path(LOG)} is half renamed to {suffix}: {error}")

    def _rename(self, kind: str, old: str, new: str) -> None:
        """Rename one file. A segment may lack any but its .log file."""
        name = f"{self.directory}/{file_name(self.base_offset, kind)}"
        try:
            self.storage.disk.rename(name + old, name + new)
        except FileNotFoundError:
            if kind == LOG:
                raise

    def remove(self) -> None:
        """Remove every file, the .log file first."""
        self.close()
        for path in self.paths():
            self.storage.disk.remove(path)


logger = logging.getLogger(__name__)

T = TypeVar("T")


_POSITIONS_KEPT = 16


class TornAppend(OSError):
    """Part of a batch may be left at the end of the file; nothing must be written after it."""


class Segment:
    """A run of batches in a `.log` file with its indexes: append, truncate, find."""

    __slots__ = (
        "_first_timestamp",
        "_index",
        "_is_damaged",
        "_latest",
        "_log",
        "_next_offset",
        "_positions",
        "base_offset",
        "created_ms",
        "files",
        "index_interval_bytes",
        "is_sealed",
        "size_bytes",
        "txn_index",
    )

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
        self.files = files
        self.base_offset = files.base_offset
        self.index_interval_bytes = index_interval_bytes
        self.size_bytes = size_bytes
        self.created_ms = created_ms
        self.is_sealed = is_sealed
        self._log: PooledFile = files.handle(LOG)
        self._index: SegmentIndex | None = None
        self._is_damaged = False
        self._latest: tuple[int, int] | None = None
        """The cached result of `latest`; only for a sealed segment."""
        self._first_timestamp: int | None = None
        self._next_offset = -1 if size_bytes else files.base_offset
        self._positions: dict[int, int] = {}
        """Cached positions of offsets where a reader will continue."""
        self.txn_index: TransactionIndex | None = None
        """The aborted transactions whose markers are in this segment; None if there are none."""
        if txn_index_bytes:
            self.txn_index = TransactionIndex(files.handle(TXN_INDEX), txn_index_bytes)

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

    @property
    def next_offset(self) -> int:
        """The offset after the last batch; the base offset when it is empty."""
        if self._next_offset < 0:
            self._next_offset = self._search(lookup.end_offset)
        return self._next_offset

    def open_file(self) -> OpenFile:
        """Return the open .log file; who keeps it can read on when the segment is removed."""
        return self._log.open()

    def headers(self, start: int, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """Walk over (position, header) from the batch at `start`."""
        return walk_headers(self._log.open(), start, self.size_bytes if end is None else end)

    def header_at(self, position: int) -> BatchHeader:
        """Return the header of the batch at `position`."""
        walk = walk_headers(self._log.open(), position, self.size_bytes, chunk_bytes=HEADER_BYTES)
        return next(walk)[1]

    # Appending and truncating
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

    def append_aborted(self, aborted: AbortedTransaction) -> None:
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

    def _search(self, how: Callable[..., T], *what: int) -> T:
        """Search the file with the help of the indexes; one that proves wrong is rebuilt first."""
        file = self._log.open()
        try:
            return how(file, self._loaded(), self.size_bytes, *what)
        except CorruptIndex as problem:
            return how(file, self.rebuild_indexes(str(problem)), self.size_bytes, *what)

    # Indexes
    def rebuild_indexes(self, reason: str) -> SegmentIndex:
        """Build both indexes anew from the log.

        CorruptMessage if it is the log that is wrong. The indexes are then left as they are: they lead
        past the damage, and only reads that meet it fail.
        """
        files = self.files
        if self._is_damaged:
            raise CorruptMessage(f"{files.path(LOG)} is damaged")
        try:
            for _ in in_order(self.headers(0), self.base_offset):
                pass
        except CorruptMessage as problem:
            self._is_damaged = True
            logger.error("%s is damaged: %s. Its index found: %s", files.path(LOG), problem, reason)
            raise
        logger.warning("%s: rebuilding the indexes: %s", files.path(LOG), reason)
        index = SegmentIndex.create(files.handle(OFFSET_INDEX), files.handle(TIME_INDEX), self.base_offset)
        return self._catch_up(index)

    def recover_indexes(self, offset: int) -> None:
        """After a crash: keep what the indexes say below `offset`, if it makes sense; build the rest anew."""
        self._positions.clear()
        self._latest = None
        self._is_damaged = False
        try:
            index = self._open_index()
            index.distrust_from(offset, self.size_bytes)
            self._catch_up(index)
        except CorruptIndex as problem:
            self.rebuild_indexes(str(problem))

    def trusted_position(self, offset: int) -> int:
        """After a crash: return where to start looking for `offset`, by what of the index makes sense."""
        if offset <= self.base_offset or self.size_bytes == 0:
            return 0
        try:
            index = self._open_index()
            if index.offsets.is_sane_below(offset, self.size_bytes):
                return lookup.indexed_position(self._log.open(), index, self.size_bytes, offset - 1)
        except CorruptIndex:
            pass
        return 0

    def seal(self) -> None:
        """No more appends: the indexes are completed and written out."""
        index = self._loaded()
        self.is_sealed = True
        self._latest = None
        index.complete()
        self.write_indexes()

    def write_indexes(self) -> None:
        """Write to the index files what is only in memory."""
        if self._index is not None:
            self._index.write_out()
        if self.txn_index is not None:
            self.txn_index.write_out()

    def _loaded(self) -> SegmentIndex:
        if self._index is not None:
            return self._index
        try:
            index = self._open_index()
            return index if self.is_sealed else self._catch_up(index)
        except CorruptIndex as problem:
            return self.rebuild_indexes(str(problem))

    def _open_index(self) -> SegmentIndex:
        files = self.files
        self._index = SegmentIndex.open(
            files.handle(OFFSET_INDEX), files.handle(TIME_INDEX), self.base_offset
        )
        return self._index

    def _catch_up(self, index: SegmentIndex) -> SegmentIndex:
        rest = in_order(self.headers(index.resume_position()), self.base_offset)
        next_offset = index.catch_up(rest, self.index_interval_bytes)
        self._next_offset = max(next_offset, self.base_offset)
        if self.is_sealed:
            index.complete()
            index.write_out()
        self._index = index
        return index

    # Files
    def fsync(self) -> None:
        """Make the log file and its indexes durable; `seal` or `write_indexes` comes first."""
        for file in self.open_files():
            file.fsync()

    def open_files(self) -> list[OpenFile]:
        """Return the log file and its index files, open, to fsync them in a thread."""
        kinds = [LOG, OFFSET_INDEX, TIME_INDEX]
        if self.txn_index is not None and self.txn_index.has_file:
            kinds.append(TXN_INDEX)
        return [self.files.handle(kind).open() for kind in kinds]

    def close(self) -> None:
        """Let go of descriptors, and of the indexes of a sealed segment; both come back when needed."""
        self.files.close()
        if self.is_sealed and self._index is not None and not self._index.has_unwritten:
            self._index = None

    def change_suffix(self, suffix: str) -> None:
        """Rename all its files."""
        self._index = None
        self.files.change_suffix(suffix)
        self._log = self.files.handle(LOG)
        if self.txn_index is not None:
            self.txn_index.move_to(self.files.handle(TXN_INDEX))

    def remove(self) -> None:
        """Remove all its files."""
        self._index = None
        self.txn_index = None
        self.files.remove()
