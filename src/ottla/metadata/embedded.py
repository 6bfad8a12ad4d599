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
from ottla.metadata.registration import BrokerRegistration, SessionInfo
from ottla.metadata.store import NO_REGISTRATION, MetadataEntry, Session, SessionLost

T = TypeVar("T")


class EmbeddedStore:
    """Keeps the metadata log in one SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._worker: ThreadPoolExecutor | None = None
        self._database: MetadataFile | None = None
        self._session: Session | None = None
        self._registration = NO_REGISTRATION
        self._watchers: list[Callable[[int], None]] = []
        self._session_watchers: list[Callable[[], None]] = []

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
        self._end_session()
        worker, self._worker = self._worker, None
        database, self._database = self._database, None
        if worker is None:
            return
        if database is not None:
            await asyncio.get_running_loop().run_in_executor(worker, database.close)
        worker.shutdown(wait=False)

    async def open_session(self, node_id: int, registration: BrokerRegistration = NO_REGISTRATION) -> Session:
        """Take the lease; there is only this process to take it from."""
        broker_epoch = await self._run(lambda: self._db.count_up("broker_epoch"))
        self._end_session()
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._session = Session(node_id, broker_epoch, lost)
        self._register(registration)
        return self._session

    async def update_registration(self, session: Session, registration: BrokerRegistration) -> None:
        """Change what the broker says about itself."""
        if session is not self._session:
            raise SessionLost(f"the session of broker {session.node_id} is over")
        self._register(registration)

    async def sessions(self) -> list[SessionInfo]:
        """Return the one session, while it is open."""
        session = self._session
        if session is None:
            return []
        return [SessionInfo(session.node_id, session.broker_epoch, self._registration)]

    def watch_sessions(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher()` when the session begins or says something else; return what ends that."""
        self._session_watchers.append(watcher)
        return lambda: self._session_watchers.remove(watcher)

    def _register(self, registration: BrokerRegistration) -> None:
        self._registration = registration
        for watcher in tuple(self._session_watchers):
            watcher()

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None and not session.lost.done():
            session.lost.set_result(None)

    async def stand_for_election(self, session: Session) -> int:
        """Win at once: there is nobody else."""
        return await self._run(lambda: self._db.count_up("controller_epoch"))

    async def resign(self, session: Session) -> None:
        """There is nobody else to be elected; the next election raises the epoch."""

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
