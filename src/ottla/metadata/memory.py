"""A metadata store in memory, for simulations and tests, with injectable faults.

`MemoryStore()` is independent. The stores of several brokers share a `MemoryServer`:

    server = MemoryServer(session_timeout_s=2.0)
    stores = [MemoryStore(server, node_id) for node_id in (1, 2, 3)]

    server.cut(1)                    # broker 1 cannot reach the store; its session ends in 2 s
    server.heal(1)                   # it can again, and learns whether its session has ended
    server.expire_node(2)            # the session ends now, as if it had timed out
    server.lose_responses(3)         # appends of broker 3 succeed, but it gets no response
    old = server.snapshot()          # and later: server.restore(old)
    server.latency = lambda: ...     # seconds, called for every call and every notification

A broker that crashes is cut: its session outlives it by the timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ottla.metadata.history import Terms, with_term
from ottla.metadata.records import MetadataRecord
from ottla.metadata.registration import BrokerRegistration, SessionInfo, may_take_over
from ottla.metadata.store import (
    NO_REGISTRATION,
    ControllerFenced,
    MetadataEntry,
    NodeIdInUse,
    Session,
    SessionLost,
    StoreContact,
    StoreRolledBack,
    StoreServer,
    StoreUnavailable,
    VersionConflict,
)

SESSION_TIMEOUT_S = 6.0


def no_latency() -> float:
    """Return no latency, so that calls complete without yielding to the loop."""
    return 0.0


@dataclass(slots=True)
class _LiveSession:
    """A live session and its broker's registration."""

    session: Session
    registration: BrokerRegistration


@dataclass(slots=True, eq=False)
class Watcher:
    """A callback; `node_id` is the broker whose connection delivers the notification."""

    node_id: int | None
    notify: Callable[[], None]
    context: Context = field(default_factory=copy_context)
    """The context of the broker that watches, not of the one that made the change."""
    connected: Callable[[], None] = lambda: None
    """Called after each new connection."""


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """A copy of the metadata log."""

    entries: tuple[MetadataEntry, ...]
    version: int
    controller_epoch: int
    terms: Terms = ()


class MemoryServer:
    """The log, the live sessions and the election."""

    def __init__(self, session_timeout_s: float = SESSION_TIMEOUT_S) -> None:
        self.session_timeout_s = session_timeout_s
        self.latency: Callable[[], float] = no_latency
        self.entries: list[MetadataEntry] = []
        self.version = 0
        self.controller_epoch = 0
        self.terms: Terms = ()
        self._term_ids = count(1)
        self._is_new_term = True
        self.controller: Session | None = None
        self._candidates: list[tuple[Session, asyncio.Future[int]]] = []
        self._live: dict[int, _LiveSession] = {}
        self._broker_epoch = 0
        self._cut: dict[int, asyncio.Event] = {}
        self._cut_s: dict[int, float] = {}
        self.is_frozen = False
        """Whether the ensemble has no quorum: no session ends then."""
        self._expiries: dict[int, asyncio.TimerHandle] = {}
        self._unnotified: dict[int, list[Session]] = {}
        self._responses_lost: set[int] = set()
        self._log_watchers: list[Watcher] = []
        self._session_watchers: list[Watcher] = []

    # Faults

    def cut(self, node_id: int) -> None:
        """Disconnect a broker from the store; its session ends after the timeout."""
        if node_id in self._cut:
            return
        self._cut[node_id] = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._cut_s[node_id] = loop.time()
        self._expiries[node_id] = loop.call_later(self.session_timeout_s, self.expire_node, node_id)

    def heal(self, node_id: int) -> None:
        """Undo `cut`: waiting calls continue, an expired session is reported as lost, watchers are
        notified.
        """
        healed = self._cut.pop(node_id, None)
        if healed is None:
            return
        del self._cut_s[node_id]
        self._expiries.pop(node_id).cancel()
        for session in self._unnotified.pop(node_id, ()):
            _lose(session)
        self._reconnect(node_id)
        healed.set()
        for watcher in (*self._log_watchers, *self._session_watchers):
            if watcher.node_id == node_id:
                self._notify_later(watcher)

    def expire_node(self, node_id: int) -> None:
        """End the session of a broker, if it has one."""
        if (live := self._live.get(node_id)) is not None:
            self.expire(live.session)

    def lose_quorum(self, node_ids: Iterable[int]) -> None:
        """Disconnect all brokers from the store, whose sessions stay alive."""
        self.is_frozen = True
        for node_id in node_ids:
            self.cut(node_id)

    def regain_quorum(self, node_ids: Iterable[int]) -> None:
        """Undo `lose_quorum`, for these brokers; the sessions of the others end after the timeout."""
        self.is_frozen = False
        for node_id in node_ids:
            self.heal(node_id)

    def snapshot(self) -> MemorySnapshot:
        """Return a copy of the log, as an operator copies the data of ZooKeeper."""
        return MemorySnapshot(tuple(self.entries), self.version, self.controller_epoch, self.terms)

    def restore(self, snapshot: MemorySnapshot) -> None:
        """Replace the log by a copy; every session ends, as after a restart of the ensemble."""
        self.entries = list(snapshot.entries)
        self.version = snapshot.version
        self.controller_epoch = snapshot.controller_epoch
        self.terms = snapshot.terms
        for live in tuple(self._live.values()):
            self.expire(live.session)
        for node_id in {each.node_id for each in self._log_watchers} - self._cut.keys():
            self._reconnect(node_id)
        self._notify(self._log_watchers)

    def _reconnect(self, node_id: int | None) -> None:
        for watcher in self._log_watchers:
            if watcher.node_id == node_id:
                watcher.context.run(watcher.connected)

    def silent_ms(self, node_id: int | None) -> int:
        """Return for how long a broker has been disconnected; 0 if it is connected."""
        since_s = None if node_id is None else self._cut_s.get(node_id)
        return 0 if since_s is None else max(1, int((asyncio.get_running_loop().time() - since_s) * 1000))

    def expire(self, session: Session) -> None:
        """End a session. Its broker is no longer the controller; it learns that as soon as it is
        connected. Without a quorum that waits.
        """
        if self.is_frozen:
            again = asyncio.get_running_loop().call_later(self.session_timeout_s, self.expire, session)
            if session.node_id in self._cut:
                self._expiries[session.node_id] = again
            return
        node_id = session.node_id
        if (live := self._live.get(node_id)) is not None and live.session is session:
            del self._live[node_id]
            self._notify(self._session_watchers)
        if node_id in self._cut:
            self._unnotified.setdefault(node_id, []).append(session)
        else:
            _lose(session)
        if self.controller is session:
            self.controller = None
        self._elect()

    def session_of(self, node_id: int) -> Session | None:
        """Return the live session of a broker."""
        live = self._live.get(node_id)
        return None if live is None else live.session

    def lose_responses(self, node_id: int, lost: bool = True) -> None:
        """Apply the broker's appends without a response (or stop doing that)."""
        (self._responses_lost.add if lost else self._responses_lost.discard)(node_id)

    def loses_responses(self, node_id: int | None) -> bool:
        """Return whether the broker gets no responses to its appends."""
        return node_id in self._responses_lost

    def cut_until(self, node_id: int | None) -> asyncio.Event | None:
        """Return the event that is set when the broker is reconnected; None if it is connected."""
        return None if node_id is None else self._cut.get(node_id)

    # Sessions and the election

    def open_session(
        self, node_id: int, registration: BrokerRegistration, *, is_first_session: bool
    ) -> Session:
        """Open a session."""
        if (older := self._live.get(node_id)) is not None:
            if not may_take_over(registration, older.registration, is_first_session=is_first_session):
                raise NodeIdInUse(f"another broker with node.id {node_id} is alive")
            self.expire(older.session)
        self._broker_epoch += 1
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        session = Session(node_id, self._broker_epoch, lost)
        self._live[node_id] = _LiveSession(session, registration)
        self._notify(self._session_watchers)
        return session

    def update_registration(self, session: Session, registration: BrokerRegistration) -> bool:
        """Change a broker's registration; return whether its session is alive."""
        live = self._live.get(session.node_id)
        if live is None or live.session is not session:
            return False
        live.registration = registration
        self._notify(self._session_watchers)
        return True

    def sessions(self) -> list[SessionInfo]:
        """Return the live sessions."""
        return [
            SessionInfo(node_id, live.session.broker_epoch, live.registration)
            for node_id, live in sorted(self._live.items())
        ]

    def is_alive(self, session: Session) -> bool:
        """Return whether a session is alive, regardless of what its owner knows."""
        live = self._live.get(session.node_id)
        return live is not None and live.session is session

    def add_candidate(self, session: Session) -> asyncio.Future[int]:
        """Add a candidate; the future gets its controller epoch."""
        elected: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._candidates.append((session, elected))
        self._elect()
        return elected

    def resign(self, session: Session) -> None:
        """End the controller's term."""
        if self.controller is session:
            self.controller = None
            self._elect()

    def _elect(self) -> None:
        self._candidates = [
            each for each in self._candidates if self.is_alive(each[0]) and not each[1].done()
        ]
        if self.controller is None and self._candidates:
            self.controller, elected = self._candidates.pop(0)
            self.controller_epoch += 1
            self._is_new_term = True
            elected.set_result(self.controller_epoch)

    # The log

    def append(self, records: Sequence[MetadataRecord], expected_version: int, controller_epoch: int) -> int:
        """Append one entry and return its version."""
        self._fence(controller_epoch)
        if expected_version != self.version:
            raise VersionConflict(f"the metadata is at version {self.version}, not {expected_version}")
        self.version += 1
        if self._is_new_term:
            self._is_new_term = False
            self.terms = with_term(self.terms, self.version, f"term-{next(self._term_ids)}")
        self.entries.append(MetadataEntry(self.version, controller_epoch, tuple(records)))
        self._notify(self._log_watchers)
        return self.version

    def compact(self, version: int, records: Iterable[MetadataRecord], controller_epoch: int) -> None:
        """Replace the entries up to `version` by a snapshot."""
        self._fence(controller_epoch)
        snapshot = MetadataEntry(version, controller_epoch, tuple(records), is_snapshot=True)
        self.entries = [snapshot, *(entry for entry in self.entries if entry.version > version)]

    def _fence(self, controller_epoch: int) -> None:
        if controller_epoch != self.controller_epoch:
            raise ControllerFenced(
                f"controller epoch {controller_epoch} is over: epoch {self.controller_epoch} was elected"
            )

    # Watchers

    def watch_log(self, watcher: Watcher) -> Callable[[], None]:
        """Notify `watcher` of appends; return a function that stops it."""
        return _added(self._log_watchers, watcher)

    def watch_sessions(self, watcher: Watcher) -> Callable[[], None]:
        """Notify `watcher` when sessions or registrations change; return a function that stops it."""
        return _added(self._session_watchers, watcher)

    def _notify(self, watchers: list[Watcher]) -> None:
        for watcher in tuple(watchers):
            self._notify_later(watcher)

    def _notify_later(self, watcher: Watcher) -> None:
        delay_s = self.latency()
        if delay_s > 0:
            asyncio.get_running_loop().call_later(delay_s, self._notify_now, watcher, context=watcher.context)
        else:
            self._notify_now(watcher)

    def _notify_now(self, watcher: Watcher) -> None:
        is_wanted = watcher in self._log_watchers or watcher in self._session_watchers
        if is_wanted and watcher.node_id not in self._cut:
            watcher.notify()


def _added(watchers: list[Watcher], watcher: Watcher) -> Callable[[], None]:
    watchers.append(watcher)

    def end() -> None:
        if watcher in watchers:
            watchers.remove(watcher)

    return end


def _lose(session: Session) -> None:
    if not session.lost.done():
        session.lost.set_result(None)


class MemoryStore:
    """One broker's connection to a `MemoryServer`."""

    def __init__(self, server: MemoryServer | None = None, node_id: int | None = None) -> None:
        self.server = server or MemoryServer()
        self.node_id = node_id
        self._opened: list[Session] = []
        self._watches: list[Callable[[], None]] = []

    async def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """End every session of this store; the server notices only if it is reachable."""
        for stop in self._watches:
            stop()
        self._watches.clear()
        for session in self._opened:
            if self.server.cut_until(self.node_id) is None:
                self.server.expire(session)
            if not session.lost.done():
                session.lost.set_result(None)

    def expire(self, session: Session) -> None:
        """End a session, as if it had timed out."""
        self.server.expire(session)

    async def open_session(self, node_id: int, registration: BrokerRegistration = NO_REGISTRATION) -> Session:
        """Open a session for a broker; an older one of the same broker is lost."""
        await self._wait_for_store()
        is_first = all(each.node_id != node_id for each in self._opened)
        session = self.server.open_session(node_id, registration, is_first_session=is_first)
        self._opened = [*(each for each in self._opened if each.node_id != node_id), session]
        return session

    async def update_registration(self, session: Session, registration: BrokerRegistration) -> None:
        """Change the broker's registration."""
        await self._wait_for_store()
        if not self.server.update_registration(session, registration):
            raise SessionLost(f"the session of broker {session.node_id} is over")

    async def sessions(self) -> list[SessionInfo]:
        """Return the live sessions, by node id."""
        await self._wait_for_store()
        return self.server.sessions()

    def watch_sessions(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher()` when the sessions change; return a function that stops it."""
        return self._watching(self.server.watch_sessions(Watcher(self.node_id, watcher)))

    async def stand_for_election(self, session: Session) -> int:
        """Wait until the session's broker is the controller; return its controller epoch."""
        await self._wait_for_store()
        if not self.server.is_alive(session):
            raise SessionLost(f"the session of broker {session.node_id} is over")
        elected = self.server.add_candidate(session)
        try:
            outcomes: list[asyncio.Future[Any]] = [elected, session.lost]
            await asyncio.wait(outcomes, return_when=asyncio.FIRST_COMPLETED)
            if session.lost.done():
                raise SessionLost(f"the session of broker {session.node_id} ended before it was elected")
            await self._wait_for_store()
            return elected.result()
        except BaseException:
            elected.cancel()
            if self.server.cut_until(self.node_id) is None:
                self.server.resign(session)  # the candidate is gone
            raise

    async def resign(self, session: Session) -> None:
        """Stop being the controller."""
        await self._wait_for_store()
        self.server.resign(session)

    async def append(
        self, records: Sequence[MetadataRecord], *, expected_version: int, controller_epoch: int
    ) -> int:
        """Append one entry and return its version."""
        await self._wait_for_store()
        version = self.server.append(records, expected_version, controller_epoch)
        if self.server.loses_responses(self.node_id):
            raise StoreUnavailable("the answer of the store was lost")
        return version

    async def read(self, after_version: int) -> list[MetadataEntry]:
        """Return the entries after `after_version`, oldest first; the first may be a snapshot."""
        await self._wait_for_store()
        if after_version > self.server.version:
            raise StoreRolledBack(after_version, self.server.version)
        return [entry for entry in self.server.entries if entry.version > after_version]

    async def terms(self) -> Terms:
        """Return the controller terms of the log, without latency: simulations keep their seeds."""
        if self.server.cut_until(self.node_id) is not None:
            await self._wait_for_store()
        return self.server.terms

    async def compact(
        self, version: int, records: Iterable[MetadataRecord], *, controller_epoch: int
    ) -> None:
        """Replace the entries up to `version` by a snapshot."""
        await self._wait_for_store()
        self.server.compact(version, records, controller_epoch)

    def watch(self, watcher: Callable[[int], None]) -> Callable[[], None]:
        """Call `watcher(version)` after each append, and `watcher(0)` after each new connection; return a
        function that stops it.
        """
        notice = Watcher(self.node_id, lambda: watcher(self.server.version), connected=lambda: watcher(0))
        return self._watching(self.server.watch_log(notice))

    def contact(self) -> StoreContact:
        """Return whether the server is reachable."""
        timeout_ms = int(self.server.session_timeout_s * 1000)
        return StoreContact("memory", self.server.silent_ms(self.node_id), timeout_ms)

    async def ensemble(self) -> list[StoreServer]:
        """Return the server, as an ensemble of one."""
        if self.server.is_frozen:
            return [StoreServer("memory:0", problem="no quorum")]
        return [StoreServer("memory:0", "standalone")]

    def _watching(self, stop: Callable[[], None]) -> Callable[[], None]:
        self._watches.append(stop)
        return stop

    async def _wait_for_store(self) -> None:
        """Wait for the network's latency; raise StoreUnavailable if it is cut for a session timeout."""
        if (delay_s := self.server.latency()) > 0:
            await asyncio.sleep(delay_s)
        while (healed := self.server.cut_until(self.node_id)) is not None:
            try:
                # Not wait_for: before Python 3.12 it forgets a cancellation that comes with the healing.
                async with asyncio.timeout(self.server.session_timeout_s):
                    await healed.wait()
            except TimeoutError:
                raise StoreUnavailable("the store cannot be reached") from None
