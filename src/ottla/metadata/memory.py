"""A metadata store that lives in memory: for simulations and tests.

Several brokers may share one; `expire` ends a session as a lost lease would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from ottla.metadata.records import MetadataRecord
from ottla.metadata.store import ControllerFenced, MetadataEntry, Session, VersionConflict


class MemoryStore:
    """Keeps the metadata log in a list."""

    def __init__(self) -> None:
        self._entries: list[MetadataEntry] = []
        self._version = 0
        self._controller_epoch = 0
        self._controller: Session | None = None
        self._candidates: list[tuple[Session, asyncio.Future[int]]] = []
        self._sessions: dict[int, Session] = {}
        self._broker_epoch = 0
        self._watchers: list[Callable[[int], None]] = []

    async def open(self) -> None:
        """There is nothing to open."""

    async def close(self) -> None:
        """End every session."""
        for session in tuple(self._sessions.values()):
            self.expire(session)

    async def open_session(self, node_id: int) -> Session:
        """Take a lease for a broker; an older one of the same broker is lost."""
        if (older := self._sessions.get(node_id)) is not None:
            self.expire(older)
        self._broker_epoch += 1
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        session = self._sessions[node_id] = Session(node_id, self._broker_epoch, lost)
        return session

    def expire(self, session: Session) -> None:
        """End a session: its broker is no longer the controller, and the next candidate is."""
        if self._sessions.get(session.node_id) is session:
            del self._sessions[session.node_id]
        if not session.lost.done():
            session.lost.set_result(None)
        for candidate, elected in self._candidates:
            if candidate is session:
                elected.cancel()
        if self._controller is session:
            self._controller = None
            self._elect()

    async def stand_for_election(self, session: Session) -> int:
        """Wait until the session's broker is the controller; return its controller epoch."""
        elected: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._candidates.append((session, elected))
        self._elect()
        return await elected

    def _elect(self) -> None:
        while self._controller is None and self._candidates:
            candidate, elected = self._candidates.pop(0)
            if not elected.done() and not candidate.lost.done():
                self._controller = candidate
                self._controller_epoch += 1
                elected.set_result(self._controller_epoch)

    async def append(
        self, records: Sequence[MetadataRecord], *, expected_version: int, controller_epoch: int
    ) -> int:
        """Append one entry and return its version."""
        self._fence(controller_epoch)
        if expected_version != self._version:
            raise VersionConflict(f"the metadata is at version {self._version}, not {expected_version}")
        self._version += 1
        self._entries.append(MetadataEntry(self._version, controller_epoch, tuple(records)))
        for watcher in tuple(self._watchers):
            watcher(self._version)
        return self._version

    async def read(self, after_version: int) -> list[MetadataEntry]:
        """Return the entries after `after_version`, oldest first; the first may be a snapshot."""
        return [entry for entry in self._entries if entry.version > after_version]

    async def compact(
        self, version: int, records: Iterable[MetadataRecord], *, controller_epoch: int
    ) -> None:
        """Replace the entries up to `version` by a snapshot."""
        self._fence(controller_epoch)
        snapshot = MetadataEntry(version, controller_epoch, tuple(records), is_snapshot=True)
        self._entries = [snapshot, *(entry for entry in self._entries if entry.version > version)]

    def watch(self, watcher: Callable[[int], None]) -> Callable[[], None]:
        """Call `watcher(version)` after each append; return what ends that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def _fence(self, controller_epoch: int) -> None:
        if controller_epoch != self._controller_epoch:
            raise ControllerFenced(
                f"controller epoch {controller_epoch} is over: epoch {self._controller_epoch} was elected"
            )
