"""The metadata store of a broker that stands alone: one file (metadata_file.py).

SQLite blocks, so all of it happens on one worker thread.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from ottla.metadata.metadata_file import MetadataFile, explained
from ottla.metadata.records import MetadataError, MetadataRecord
from ottla.metadata.store import MetadataEntry, Session

T = TypeVar("T")


class EmbeddedStore:
    """Keeps the metadata log in one SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._worker: ThreadPoolExecutor | None = None
        self._database: MetadataFile | None = None
        self._sessions: list[Session] = []
        self._watchers: list[Callable[[int], None]] = []

    async def open(self) -> None:
        """Open or create the file; raise MetadataError if it is damaged, foreign or in use."""
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metadata")
        try:
            self._database = await self._run(lambda: MetadataFile(self._path))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish what is under way and let go of the file."""
        for session in self._sessions:
            if not session.lost.done():
                session.lost.set_result(None)
        worker, self._worker = self._worker, None
        database, self._database = self._database, None
        if worker is None:
            return
        if database is not None:
            await asyncio.get_running_loop().run_in_executor(worker, database.close)
        worker.shutdown(wait=False)

    async def open_session(self, node_id: int) -> Session:
        """Take the lease; there is only this process to take it from."""
        broker_epoch = await self._run(lambda: self._db.count_up("broker_epoch"))
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        session = Session(node_id, broker_epoch, lost)
        self._sessions.append(session)
        return session

    async def stand_for_election(self, session: Session) -> int:
        """Win at once: there is nobody else."""
        return await self._run(lambda: self._db.count_up("controller_epoch"))

    async def append(
        self, records: Sequence[MetadataRecord], *, expected_version: int, controller_epoch: int
    ) -> int:
        """Append one entry and return its version, once it is on the disk."""
        entry = MetadataEntry(expected_version + 1, controller_epoch, tuple(records))
        await self._run(lambda: self._db.append(entry))
        for watcher in tuple(self._watchers):
            watcher(entry.version)
        return entry.version

    async def read(self, after_version: int) -> list[MetadataEntry]:
        """Return the entries after `after_version`, oldest first; the first may be a snapshot."""
        return await self._run(lambda: self._db.read(after_version))

    async def compact(
        self, version: int, records: Iterable[MetadataRecord], *, controller_epoch: int
    ) -> None:
        """Replace the entries up to `version` by a snapshot."""
        await self._run(lambda: self._db.compact(version, records, controller_epoch))

    def watch(self, watcher: Callable[[int], None]) -> Callable[[], None]:
        """Call `watcher(version)` after each append; return what ends that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    @property
    def _db(self) -> MetadataFile:
        if self._database is None:
            raise MetadataError(f"{self._path} is not open")
        return self._database

    async def _run(self, work: Callable[[], T]) -> T:
        if self._worker is None:
            raise MetadataError(f"{self._path} is not open")
        return await asyncio.get_running_loop().run_in_executor(self._worker, self._translating(work))

    def _translating(self, work: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            try:
                return work()
            except (sqlite3.Error, OSError) as error:
                raise explained(self._path, error) from error

        return run
