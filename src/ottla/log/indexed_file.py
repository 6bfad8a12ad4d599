"""A .log file together with its indexes: loading, completing, rebuilding and renaming them.

Indexes load when they are first needed. An entry is believed only as far as the log bears it out: the
batch that it points to must be the one that it names. If it is not (or a file is missing, or has half
an entry), both indexes are rebuilt from the log on the spot. (The third one, of aborted transactions, cannot
be rebuilt from one segment alone: see replay.py.)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

from ottla.log import segment_lookup as lookup
from ottla.log.batch_walk import in_order, walk_headers
from ottla.log.disk import OpenFile
from ottla.log.file_pool import PooledFile
from ottla.log.names import LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX
from ottla.log.segment_files import SegmentFiles
from ottla.log.segment_index import SegmentIndex
from ottla.log.sparse_index import CorruptIndex
from ottla.log.transaction_index import TransactionIndex
from ottla.protocol.errors import CorruptMessage
from ottla.protocol.records.batch import HEADER_BYTES, BatchHeader

logger = logging.getLogger(__name__)

T = TypeVar("T")


class IndexedFile:
    """Batches in a file, found by index; the part of a segment that is about files."""

    __slots__ = (
        "_index",
        "_is_damaged",
        "_latest",
        "_log",
        "_next_offset",
        "_positions",
        "base_offset",
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
        size_bytes: int,
        is_sealed: bool,
        txn_index_bytes: int = 0,
    ) -> None:
        self.files = files
        self.base_offset = files.base_offset
        self.index_interval_bytes = index_interval_bytes
        self.size_bytes = size_bytes
        self.is_sealed = is_sealed
        self._log: PooledFile = files.handle(LOG)
        self._index: SegmentIndex | None = None
        self._is_damaged = False
        self._latest: tuple[int, int] | None = None
        """What `latest` has found, of a sealed segment."""
        self._next_offset = -1 if size_bytes else files.base_offset
        self._positions: dict[int, int] = {}
        self.txn_index: TransactionIndex | None = None
        """The aborted transactions whose markers are here; None if there are none."""
        if txn_index_bytes:
            self.txn_index = TransactionIndex(files.handle(TXN_INDEX), txn_index_bytes)

    # Reading
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
