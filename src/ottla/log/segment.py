"""One segment of a log: `<base offset>.log` with its offset index, time index and transaction index.

Segments are many and mostly idle, so an idle one is a few numbers: files are opened through the pool, indexes
are loaded when they are first needed, and a sealed segment's largest timestamp is read from its time index on
demand.

An index entry is trusted only if the log confirms it: the batch that it points to must be the one that it
names. Otherwise (or if a file is missing, or has a partial entry) both indexes are rebuilt from the log
immediately. The transaction index cannot be rebuilt from one segment alone: see loading/replay.py.

A segment is not thread-safe, but one that is not shared yet (the cleaner's copy) may be filled in one thread.
An open descriptor keeps working when the file is renamed or removed.
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

logger = logging.getLogger(__name__)


class SegmentFiles:
    """The files of one segment, all with the same suffix: names, handles and renames."""

    __slots__ = ("_handles", "base_offset", "directory", "storage", "suffix")

    def __init__(self, storage: Storage, directory: str, base_offset: int, suffix: str = "") -> None:
        self.storage = storage
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self._handles: dict[str, PooledFile] | None = None

    def path(self, kind: str) -> str:
        """Return the path of the file of this kind."""
        return f"{self.directory}/{file_name(self.base_offset, kind)}{self.suffix}"

    def paths(self) -> list[str]:
        """Return the paths of all files, existing or not."""
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
        """Release all descriptors; they are reopened when needed."""
        for handle in (self._handles or {}).values():
            handle.close()

    def change_suffix(self, suffix: str) -> None:
        """Rename every file that exists.

        The .log file is renamed last when the segment is added (.swap, none) and first when it is removed
        (.deleted): only its .log file determines whether a segment exists. If one rename fails, the earlier
        ones are undone.
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
        """Rename one file. All but the .log file are optional."""
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
        """Create the files of an empty segment; leftovers of the same name are truncated."""
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
            files.remove()  # an empty .log file would be taken for the end of the log
            raise
        return segment

    def load(self) -> None:
        """Load the indexes and find the end; CorruptMessage if the file does not end with a complete
        batch.
        """
        self._load_index()
        self._search(lookup.check_times, self.index_interval_bytes)

    # Contents
    @property
    def max_timestamp(self) -> int:
        """Return the latest timestamp of its records, -1 if there is none."""
        return self.latest()[0]

    def latest(self) -> tuple[int, int]:
        """Return the latest timestamp and the last offset of the batch that has it; (-1, -1) if there is
        none.
        """
        if not self.is_sealed:
            index = self._load_index()
            return index.max_timestamp, index.max_timestamp_offset
        if self._latest is None:
            self._latest = self._search(lookup.latest, self.index_interval_bytes)
        return self._latest

    @property
    def first_timestamp(self) -> int:
        """Return the max_timestamp of the first batch, from which the age counts; -1 if it is empty."""
        if self._first_timestamp is None:
            if self.size_bytes == 0:
                return NO_TIMESTAMP
            self._first_timestamp = self.header_at(0).max_timestamp
        return self._first_timestamp

    @property
    def index_bytes(self) -> int:
        """Return the size of the larger index."""
        index = self._load_index()
        return max(index.offsets.size_bytes, index.times.size_bytes)

    def modified_ms(self) -> int:
        """Return when the .log file last changed."""
        return self._log.open().modified_ms()

    @property
    def next_offset(self) -> int:
        """Return the offset after the last batch; the base offset if it is empty."""
        if self._next_offset < 0:
            self._next_offset = self._search(lookup.end_offset)
        return self._next_offset

    def open_file(self) -> OpenFile:
        """Return the open .log file, which stays readable when the segment is removed."""
        return self._log.open()

    def headers(self, start: int, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """Yield (position, header) from the batch at `start`."""
        return walk_headers(self._log.open(), start, self.size_bytes if end is None else end)

    def header_at(self, position: int) -> BatchHeader:
        """Return the header of the batch at `position`."""
        walk = walk_headers(self._log.open(), position, self.size_bytes, chunk_bytes=HEADER_BYTES)
        return next(walk)[1]

    # Appending and truncating
    def append(self, batch: Bytes, header: BatchHeader) -> None:
        """Append one whole batch unchanged. After an OSError nothing has changed, except for `TornAppend`."""
        self.append_stamped(batch, header.last_offset, header.max_timestamp)

    def append_stamped(self, batch: Bytes, last_offset: int, max_timestamp: int) -> None:
        """Append one whole batch whose last offset and timestamp the caller knows."""
        index = self._index or self._load_index()
        position = self.size_bytes
        file = self._log.open()
        try:
            file.write_at(position, batch)
        except OSError as error:
            self._truncate_torn_append(file, error)
            raise
        size = len(batch)
        index.add_batch(position, size, last_offset, max_timestamp, self.index_interval_bytes)
        self.size_bytes = position + size
        self._next_offset = last_offset + 1
        if position == 0:
            self._first_timestamp = max_timestamp

    def _truncate_torn_append(self, file: OpenFile, error: OSError) -> None:
        """Remove what a failed append may have left after the last batch."""
        try:
            file.truncate(self.size_bytes)
        except OSError as worse:
            said = f"{error.strerror or error}; and truncating it failed: {worse.strerror or worse}"
            raise TornAppend(worse.errno, said) from error

    def batch_boundary(self, offset: int) -> int:
        """Return `offset`, or the base offset of the batch that contains it."""
        position = self.position_of(offset)
        if position == self.size_bytes:
            return offset
        return min(offset, self.header_at(position).base_offset)

    def truncate_to(self, offset: int) -> None:
        """Remove everything from `offset` on, which must be a boundary between batches."""
        position = self.position_of(offset)
        index = self._load_index()
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
        """Create the transaction index file, even if it will stay empty.

        For a copy that replaces a segment: if a crash interrupts that, the old index must not survive.
        """
        self.files.handle(TXN_INDEX).create()

    def append_aborted(self, aborted: AbortedTransaction) -> None:
        """Add a transaction whose abort marker was appended; it is added even if an OSError is raised."""
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
            self.cache_position(offset, position)
        return position

    def cache_position(self, offset: int, position: int) -> None:
        """Cache the position of `offset`: a consumer's next read starts where its last one ended."""
        if len(self._positions) >= _POSITIONS_KEPT:
            self._positions.clear()
        self._positions[offset] = position

    def last_boundary(self, start: int, limit: int) -> tuple[int, int]:
        """Return (position, next offset) of the last batch boundary in (start, limit].

        `start` must be a boundary itself; (start, -1) means that the batch there extends beyond `limit`.
        """
        return self._search(lookup.last_boundary, start, limit)

    def position_for_time(self, timestamp: int) -> int:
        """Return a position before which every record is earlier than `timestamp`."""
        return self._search(lookup.position_for_time, timestamp, self.index_interval_bytes)

    def _search(self, function: Callable[..., T], *arguments: int) -> T:
        """Search the file with the indexes; rebuild them and search again if they prove wrong."""
        file = self._log.open()
        try:
            return function(file, self._load_index(), self.size_bytes, *arguments)
        except CorruptIndex as problem:
            return function(file, self.rebuild_indexes(str(problem)), self.size_bytes, *arguments)

    # Indexes
    def rebuild_indexes(self, reason: str) -> SegmentIndex:
        """Rebuild both indexes from the log.

        Raise CorruptMessage if the log itself is damaged. The indexes then stay as they are: they lead past
        the damage, and only reads that meet it fail.
        """
        files = self.files
        if self._is_damaged:
            raise CorruptMessage(f"{files.path(LOG)} is damaged")
        try:
            for _ in in_order(self.headers(0), self.base_offset):
                pass
        except CorruptMessage as problem:
            self._is_damaged = True
            logger.error(
                "%s is damaged, cannot rebuild its indexes: %s (reason for the rebuild: %s)",
                files.path(LOG), problem, reason,
            )  # fmt: skip
            raise
        logger.warning("%s: rebuilding the indexes: %s", files.path(LOG), reason)
        index = SegmentIndex.create(files.handle(OFFSET_INDEX), files.handle(TIME_INDEX), self.base_offset)
        return self._catch_up(index)

    def recover_indexes(self, offset: int) -> None:
        """After a crash: keep the valid index entries below `offset`, and rebuild the rest."""
        self._positions.clear()
        self._latest = None
        self._is_damaged = False
        try:
            index = self._open_index()
            index.discard_untrusted(offset, self.size_bytes)
            self._catch_up(index)
        except CorruptIndex as problem:
            self.rebuild_indexes(str(problem))

    def trusted_position(self, offset: int) -> int:
        """After a crash: return where to start scanning for `offset`, from the valid part of the index."""
        if offset <= self.base_offset or self.size_bytes == 0:
            return 0
        try:
            index = self._open_index()
            if index.offsets.is_valid_below(offset, self.size_bytes):
                return lookup.indexed_position(self._log.open(), index, self.size_bytes, offset - 1)
        except CorruptIndex:
            pass
        return 0

    def seal(self) -> None:
        """End the appends: complete and write the indexes."""
        index = self._load_index()
        self.is_sealed = True
        self._latest = None
        index.finish()
        self.write_indexes()

    def write_indexes(self) -> None:
        """Write the index entries that are only in memory."""
        if self._index is not None:
            self._index.write_pending()
        if self.txn_index is not None:
            self.txn_index.write_pending()

    def unwritten_indexes(self) -> dict[str, bytes]:
        """Return the complete contents of index files that are not up to date, by kind."""
        found: dict[str, bytes] = {}
        if self._index is not None and self._index.has_pending:
            found[OFFSET_INDEX] = self._index.offsets.contents()
            found[TIME_INDEX] = self._index.times.contents()
        if self.txn_index is not None and self.txn_index.has_pending:
            found[TXN_INDEX] = self.txn_index.contents()
        return found

    def _load_index(self) -> SegmentIndex:
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
            index.finish()
            index.write_pending()
        self._index = index
        return index

    # Files
    def fsync(self) -> None:
        """Make the log file and its indexes durable; call `seal` or `write_indexes` first."""
        for file in self.open_files():
            file.fsync()

    def open_files(self) -> list[OpenFile]:
        """Return the open log and index files, to fsync them in a thread."""
        kinds = [LOG, OFFSET_INDEX, TIME_INDEX]
        if self.txn_index is not None and self.txn_index.has_file:
            kinds.append(TXN_INDEX)
        return [self.files.handle(kind).open() for kind in kinds]

    def close(self) -> None:
        """Release the descriptors, and the indexes of a sealed segment; both are reloaded when needed."""
        self.files.close()
        if self.is_sealed and self._index is not None and not self._index.has_pending:
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
