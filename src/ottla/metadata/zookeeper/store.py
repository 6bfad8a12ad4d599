"""The metadata store of a cluster: ZooKeeper.

    client.py     the connection (kazoo)
    sessions.py   sessions and the controller election
    log.py        the metadata log
    ensemble.py   the servers and their roles

Everything is stored below `/ottla` in the chroot of `zookeeper.connect`, so that several clusters, and even a
Kafka, can share one ZooKeeper. This module connects the three parts: connection events are passed to them,
and watchers are called on the loop.

ZooKeeper calls a watch once; to be notified again, a client must read again. A `_NodeWatcher` does that, also
after the connection was lost, when a change may have been missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from ottla.metadata.history import Terms
from ottla.metadata.records import MetadataError, MetadataRecord
from ottla.metadata.registration import BrokerRegistration, SessionInfo
from ottla.metadata.store import NO_REGISTRATION, MetadataEntry, Session, StoreContact, StoreServer
from ottla.metadata.zookeeper.client import ZooKeeperClient
from ottla.metadata.zookeeper.ensemble import ask_servers
from ottla.metadata.zookeeper.log import ZooKeeperLog
from ottla.metadata.zookeeper.sessions import ZooKeeperSessions
from ottla.metadata.zookeeper.types import ZooKeeperSettings

logger = logging.getLogger(__name__)


__all__ = ["ZooKeeperSettings", "ZooKeeperStore"]


RETRY_S = 0.5


class ZooKeeperStore:
    """One broker's connection to ZooKeeper."""

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self._settings = settings
        self._client = ZooKeeperClient(settings, self._on_connected, self._on_session_over)
        self._log = ZooKeeperLog(self._client)
        self._sessions = ZooKeeperSessions(self._client, settings.session_timeout_ms)
        self._own_node = _NodeWatcher("own session", self._check_own_node)
        self._head = _NodeWatcher("metadata log", self._check_head)
        self._members = _NodeWatcher("sessions", self._check_sessions)
        self._log_watchers: list[Callable[[int], None]] = []
        self._session_watchers: list[Callable[[], None]] = []

    async def open(self) -> None:
        """Connect, and create the permanent nodes; raise StoreUnavailable if no ZooKeeper responds."""
        await self._client.open()
        try:
            await self._log.prepare()
            await self._sessions.prepare()
        except BaseException:
            await self._client.close()
            raise
        for watcher_task in (self._own_node, self._head, self._members):
            watcher_task.start()

    async def close(self) -> None:
        """End the session and disconnect."""
        for watcher_task in (self._own_node, self._head, self._members):
            await watcher_task.stop()
        await self._client.close()
        self._sessions.lose()

    # Sessions and the election

    async def open_session(self, node_id: int, registration: BrokerRegistration = NO_REGISTRATION) -> Session:
        """Open a session for a broker; an older one of this store is lost."""
        session = await self._sessions.open(node_id, registration)
        self._own_node.trigger()
        return session

    async def update_registration(self, session: Session, registration: BrokerRegistration) -> None:
        """Change the broker's registration."""
        await self._sessions.update(session, registration)

    async def sessions(self) -> list[SessionInfo]:
        """Return the live sessions, by node id."""
        return await self._sessions.all()

    def watch_sessions(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher()` on the loop when the sessions may have changed; return a function that stops
        it.
        """
        self._session_watchers.append(watcher)
        self._members.trigger()
        return lambda: self._session_watchers.remove(watcher)

    async def stand_for_election(self, session: Session) -> int:
        """Wait until the session's broker is the controller; return its controller epoch."""
        return await self._sessions.elect(session)

    async def resign(self, session: Session) -> None:
        """Stop being the controller."""
        await self._sessions.resign(session)

    # The log

    async def append(
        self, records: Sequence[MetadataRecord], *, expected_version: int, controller_epoch: int
    ) -> int:
        """Append one entry and return its version, once a majority of the ensemble has it on disk."""
        return await self._log.append(records, expected_version, controller_epoch)

    async def read(self, after_version: int) -> list[MetadataEntry]:
        """Return the entries after `after_version`, oldest first; the first may be a snapshot."""
        return await self._log.read(after_version)

    async def terms(self) -> Terms:
        """Return the controller terms of the log, oldest first."""
        return await self._log.terms()

    async def compact(
        self, version: int, records: Iterable[MetadataRecord], *, controller_epoch: int
    ) -> None:
        """Replace the entries up to `version` by a snapshot."""
        await self._log.compact(version, records, controller_epoch)

    async def replace_log(
        self, version: int, records: Iterable[MetadataRecord], *, controller_epoch: int
    ) -> None:
        """Replace the whole log, for a cluster that is rebuilt; raise MetadataError if a broker is alive."""
        if alive := [each.node_id for each in await self.sessions()]:
            raise MetadataError(f"broker {alive[0]} is alive: stop all brokers first")
        await self._log.replace(version, records, controller_epoch)

    def watch(self, watcher: Callable[[int], None]) -> Callable[[], None]:
        """Call `watcher(version)` on the loop after appends, `watcher(0)` after each new connection; return a
        function that stops it.
        """
        self._log_watchers.append(watcher)
        return lambda: self._log_watchers.remove(watcher)

    # Health

    def contact(self) -> StoreContact:
        """Return whether ZooKeeper answers this broker."""
        return StoreContact("zookeeper", self._client.silent_ms, self._settings.session_timeout_ms)

    async def ensemble(self) -> list[StoreServer]:
        """Ask every server of `zookeeper.connect` for its role."""
        return await ask_servers(self._settings)

    # Events of ZooKeeper

    def _on_connected(self, session_id: int) -> None:
        self._sessions.connected(session_id)
        for watcher in tuple(self._log_watchers):
            watcher(0)
        for watcher_task in (self._own_node, self._head, self._members):
            watcher_task.trigger()

    def _on_session_over(self) -> None:
        logger.warning("ZooKeeper has ended the session")
        self._sessions.lose()

    async def _check_own_node(self) -> None:
        await self._sessions.verify(self._own_node.trigger)

    async def _check_head(self) -> None:
        version = await self._log.version(self._head.trigger)
        for watcher in tuple(self._log_watchers):
            watcher(version)

    async def _check_sessions(self) -> None:
        if self._session_watchers:
            await self._sessions.all(self._members.trigger)
            for watcher in tuple(self._session_watchers):
                watcher()


class _NodeWatcher:
    """A task that reads a node whenever it may have changed. Reading sets the next watch."""

    def __init__(self, what: str, trigger: Callable[[], Awaitable[None]]) -> None:
        self._what = what
        self._refresh = trigger
        self._triggered = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.trigger = self._triggered.set

    def start(self) -> None:
        self._triggered.set()
        self._task = asyncio.create_task(self._follow(), name=f"follow {self._what}")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _follow(self) -> None:
        while True:
            await self._triggered.wait()
            self._triggered.clear()
            try:
                await self._refresh()
            except MetadataError as error:
                logger.warning("cannot follow the %s: %s", self._what, error)
                await asyncio.sleep(RETRY_S)
                self._triggered.set()
