"""The interface of a metadata store: what the controller needs, and nothing more.

The log is a sequence of entries; one append makes one entry, completely or not at all. `version` counts
entries, from 1. A store may replace the entries up to some version by one snapshot entry of that version,
whose records create the same image; a reader that is further behind starts again from `EMPTY`.

Two checks protect the log against a controller that does not know that it has been replaced: an append names
the version that it is based on (compare-and-set), and the epoch that the controller was elected with (after a
newer election the store rejects older epochs, however long their owner was paused).

A session is a broker's lease. All brokers see the live sessions with their registrations. A broker that
cannot reach the store keeps its session until the store, when it is reachable again, reports that it has
ended: `lost` is never a guess, and may come too late. Fence by epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ottla.metadata.history import Terms
from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.records import MetadataError, MetadataRecord
from ottla.metadata.registration import BrokerRegistration, SessionInfo

NO_REGISTRATION = BrokerRegistration()


class VersionConflict(MetadataError):
    """The log has changed since the decision was made: read, and decide again."""


class ControllerFenced(MetadataError):
    """A newer controller has been elected."""


class SessionLost(MetadataError):
    """The session has ended: open another one."""


class StoreUnavailable(MetadataError):
    """The store does not respond.

    The operation may have been applied, or may be applied later: read before deciding anything again.
    """


class StoreRolledBack(MetadataError):
    """The store has an older state, or another history, than this broker has applied.

    ZooKeeper was restored from an older snapshot, or emptied. To follow it would undo acknowledged
    changes on some brokers and not on others.
    """

    def __init__(self, applied: int, found: int) -> None:
        what = "another history" if found >= applied else f"version {found}"
        super().__init__(
            f"the metadata went back: this broker has applied version {applied}, the store has {what}. Was "
            "ZooKeeper restored from an older snapshot? Put the newest ZooKeeper data back; or stop all "
            "brokers and run: ottla cluster rebuild (docs/backup.md)"
        )
        self.applied = applied
        self.found = found


class NodeIdInUse(MetadataError):
    """Another live broker has this node id."""


@dataclass(frozen=True, slots=True)
class MetadataEntry:
    """The records of one append."""

    version: int
    controller_epoch: int
    records: tuple[MetadataRecord, ...]
    is_snapshot: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """A broker's lease: it is alive while `lost` is not done.

    `broker_epoch` is greater than that of every earlier session of any broker. Two sessions are never equal.
    """

    node_id: int
    broker_epoch: int
    lost: asyncio.Future[None]


@dataclass(frozen=True, slots=True)
class StoreContact:
    """Whether the store answers this broker.

    After `session_timeout_ms` of silence others may have taken over.
    """

    kind: str
    """`embedded`, `zookeeper` or `memory`."""
    silent_ms: int = 0
    """Since when there is no connection; 0 while there is one."""
    session_timeout_ms: int = 0

    @property
    def is_trusted(self) -> bool:
        """Return whether this broker's session is certain to be alive if it was before."""
        return self.silent_ms <= self.session_timeout_ms


@dataclass(frozen=True, slots=True)
class StoreServer:
    """One server of the ensemble. `mode` is its role (leader, follower), "" while it does not serve."""

    address: str
    mode: str = ""
    problem: str = ""
    details: tuple[tuple[str, str], ...] = ()
    """What it reports: version, zxid, connections, latency."""


class MetadataStore(Protocol):
    """One broker's connection to the metadata log. Any call may raise StoreUnavailable."""

    async def open(self) -> None:
        """Open the store; raise MetadataError if its contents cannot be trusted."""
        ...

    async def close(self) -> None:
        """Close the store and end its sessions immediately."""
        ...

    async def open_session(self, node_id: int, registration: BrokerRegistration = NO_REGISTRATION) -> Session:
        """Open a session for a broker; an older one of this store is lost.

        The session of a dead process is taken over (see `may_take_over`); while another broker with this node
        id is alive, raise NodeIdInUse.
        """
        ...

    async def update_registration(self, session: Session, registration: BrokerRegistration) -> None:
        """Change the broker's registration; raise SessionLost if the session has ended."""
        ...

    async def sessions(self) -> list[SessionInfo]:
        """Return the live sessions, by node id."""
        ...

    def watch_sessions(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher()` on the loop when `sessions` may have changed; return a function that stops it."""
        ...

    async def stand_for_election(self, session: Session) -> int:
        """Wait until the session's broker is the controller; return its controller epoch.

        Raise SessionLost if the session ends first. Cancel to withdraw the candidacy; call `resign` to end
        the term.
        """
        ...

    async def resign(self, session: Session) -> None:
        """Stop being the controller, so that another candidate can be elected; the session stays alive."""
        ...

    async def append(
        self, records: Sequence[MetadataRecord], *, expected_version: int, controller_epoch: int
    ) -> int:
        """Append one entry and return its version, once it is durable.

        Raise VersionConflict if the log is not at `expected_version`, ControllerFenced if there has been an
        election after that of `controller_epoch`.
        """
        ...

    async def read(self, after_version: int) -> list[MetadataEntry]:
        """Return the entries after `after_version`, oldest first; the first may be a snapshot.

        Raise StoreRolledBack if the log has never been at `after_version`, or has gone back.
        """
        ...

    async def terms(self) -> Terms:
        """Return the controller terms of the log, oldest first; empty if the store does not note them."""
        ...

    async def compact(
        self, version: int, records: Iterable[MetadataRecord], *, controller_epoch: int
    ) -> None:
        """Replace the entries up to `version` by a snapshot; `records` create the image of that version.

        `records` may be consumed in another thread.
        """
        ...

    def watch(self, watcher: Callable[[int], None]) -> Callable[[], None]:
        """Call `watcher(version)` on the loop after each append; return a function that stops it.

        After a new connection to the store it is `watcher(0)` first: the store may have been replaced.
        """
        ...

    def contact(self) -> StoreContact:
        """Return whether the store answers this broker."""
        ...

    async def ensemble(self) -> list[StoreServer]:
        """Ask every server of the ensemble for its role; empty for a store without servers."""
        ...


def fold(image: ClusterImage, entries: Iterable[MetadataEntry]) -> ClusterImage:
    """Return the image after `entries`, as returned by `MetadataStore.read`."""
    for entry in entries:
        if entry.is_snapshot:
            image = EMPTY
        elif entry.version != image.version + 1:
            raise MetadataError(f"the metadata log jumps from version {image.version} to {entry.version}")
        image = image.apply(entry.records, entry.version)
    return image
