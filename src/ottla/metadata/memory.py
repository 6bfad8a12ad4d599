"""A metadata store that lives in memory: for simulations and tests.

`MemoryStore()` stands alone. The stores of several brokers share a `MemoryServer` (memory_server.py), which
also makes the faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ottla.metadata.memory_server import MemoryServer, Watcher
from ottla.metadata.records import MetadataRecord
from ottla.metadata.registration import BrokerRegistration, SessionInfo
from ottla.metadata.store import NO_REGISTRATION, MetadataEntry, Session, SessionLost, StoreUnavailable


class MemoryStore:
    """One broker's connection to a `MemoryServer`."""

    def __init__(self, server: MemoryServer | None = None, node_id: int | None = None) -> None:
        self.server = server or MemoryServer()
        self.node_id = node_id
        self._opened: list[Session] = []
        self._watches: list[Callable[[], None]] = []

    async def open(self) -> None:
        """There is nothing to open."""

    async def close(self) -> None:
        """End every session of this store; the server hears of it only if it can be reached."""
        for stop in self._watches:
            stop()
        self._watches.clear()
        for session in self._opened:
            if self.server.cut_until(self.node_id) is None:
                self.server.expire(session)
            if not session.lost.done():
                session.lost.set_result(None)

    def expire(self, session: Session) -> None:
        """End a session, as a lost lease would."""
        self.server.expire(session)

    async def open_session(self, node_id: int, registration: BrokerRegistration = NO_REGISTRATION) -> Session:
        """Take a lease for a broker; an older one of the same broker is lost."""
        await self._reach()
        is_first = all(each.node_id != node_id for each in self._opened)
        session = self.server.open_session(node_id, registration, is_first_session=is_first)
        self._opened = [*(each for each in self._opened if each.node_id != node_id), session]
        return session

    async def update_registration(self, session: Session, registration: BrokerRegistration) -> None:
        """Change what the broker says about itself."""
        await self._reach()
        if not self.server.update_registration(session, registration):
            raise SessionLost(f"the session of broker {session.node_id} is over")

    async def sessions(self) -> list[SessionInfo]:
        """Return the live sessions, by node id."""
        await self._reach()
        return self.server.sessions()

    def watch_sessions(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher()` when the sessions change; return what ends that."""
        return self._watching(self.server.watch_sessions(Watcher(self.node_id, watcher)))

    async def stand_for_election(self, session: Session) -> int:
        """Wait until the session's broker is the controller; return its controller epoch."""
        await self._reach()
        if not self.server.is_alive(session):
            raise SessionLost(f"the session of broker {session.node_id} is over")
        elected = self.server.stand(session)
        try:
            outcomes: list[asyncio.Future[Any]] = [elected, session.lost]
            await asyncio.wait(outcomes, return_when=asyncio.FIRST_COMPLETED)
            if session.lost.done():
                raise SessionLost(f"the session of broker {session.node_id} ended before it was elected")
            await self._reach()
            return elected.result()
        except BaseException:
            elected.cancel()
            if self.server.cut_until(self.node_id) is None:
                self.server.resign(session)  # nobody is there to take office
            raise

    async def resign(self, session: Session) -> None:
        """Be the controller no longer."""
        await self._reach()
        self.server.resign(session)

    async def append(
        self, records: Sequence[MetadataRecord], *, expected_version: int, controller_epoch: int
    ) -> int:
        """Append one entry and return its version."""
        await self._reach()
        version = self.server.append(records, expected_version, controller_epoch)
        if self.server.loses_answers(self.node_id):
            raise StoreUnavailable("the answer of the store was lost")
        return version

    async def read(self, after_version: int) -> list[MetadataEntry]:
        """Return the entries after `after_version`, oldest first; the first may be a snapshot."""
        await self._reach()
        return [entry for entry in self.server.entries if entry.version > after_version]

    async def compact(
        self, version: int, records: Iterable[MetadataRecord], *, controller_epoch: int
    ) -> None:
        """Replace the entries up to `version` by a snapshot."""
        await self._reach()
        self.server.compact(version, records, controller_epoch)

    def watch(self, watcher: Callable[[int], None]) -> Callable[[], None]:
        """Call `watcher(version)` after each append; return what ends that."""
        notice = Watcher(self.node_id, lambda: watcher(self.server.version))
        return self._watching(self.server.watch_log(notice))

    def _watching(self, stop: Callable[[], None]) -> Callable[[], None]:
        self._watches.append(stop)
        return stop

    async def _reach(self) -> None:
        """Take as long as the network does; raise StoreUnavailable if it stays cut for a session's length."""
        if (delay_s := self.server.latency()) > 0:
            await asyncio.sleep(delay_s)
        while (healed := self.server.cut_until(self.node_id)) is not None:
            try:
                # Not wait_for: before Python 3.12 it forgets a cancellation that comes with the healing.
                async with asyncio.timeout(self.server.session_timeout_s):
                    await healed.wait()
            except TimeoutError:
                raise StoreUnavailable("the store cannot be reached") from None
