"""Where the metadata log is kept: what the controller needs of a store, and nothing more.

The log is a sequence of entries; one append makes one entry, whole or not at all. `version` counts
entries, from 1. A store may replace the entries up to some version by one snapshot entry of that
version, whose records make the same image from nothing; a reader that is further behind than that
starts again from `EMPTY`.

Two things protect the log against a controller that does not know it has been replaced: an append
names the version it was decided on (compare-and-set), and the epoch that the controller was elected
with (a newer election makes the store refuse older epochs, however long their owner slept).

A session is a broker's lease. Everyone sees the live sessions with what their brokers say about
themselves. A broker that cannot reach the store keeps its session until the store, reached again, says
that it is over: `lost` is never a guess, and never certain to come in time. Fence by epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.records import MetadataError, MetadataRecord
from ottla.metadata.registration import BrokerRegistration, SessionInfo

NO_REGISTRATION = BrokerRegistration()


class VersionConflict(MetadataError):
    """The log has moved on since the change was decided: read, decide again."""


class ControllerFenced(MetadataError):
    """A newer controller has been elected."""


class SessionLost(MetadataError):
    """The session is over: open another one."""


class StoreUnavailable(MetadataError):
    """The store does not answer. What was asked of it may have happened, or may happen yet: read before
    deciding anything again."""


class NodeIdInUse(MetadataError):
    """Another live broker has this node id."""


@dataclass(frozen=True, slots=True)
class MetadataEntry:
    """What one append wrote."""

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


class MetadataStore(Protocol):
    """One broker's connection to where the metadata log is kept. Any call may raise StoreUnavailable."""

    async def open(self) -> None:
        """Make the store ready; raise MetadataError if what it holds cannot be trusted."""
        ...

    async def close(self) -> None:
        """Let go of everything, sessions included: they end at once, for all to see."""
        ...

    async def open_session(self, node_id: int, registration: BrokerRegistration = NO_REGISTRATION) -> Session:
        """Take a lease for a broker; an older one of this store is lost.

        The session of a process that died is taken over (see `may_take_over`); while another broker with
        this node id lives, raise NodeIdInUse.
        """
        ...

    async def update_registration(self, session: Session, registration: BrokerRegistration) -> None:
        """Change what the broker says about itself; raise SessionLost if the session is over."""
        ...

    async def sessions(self) -> list[SessionInfo]:
        """Return the live sessions, by node id."""
        ...

    def watch_sessions(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher()` on the loop when `sessions` may have changed; return what ends that."""
        ...

    async def stand_for_election(self, session: Session) -> int:
        """Wait until the session's broker is the controller; return its controller epoch.

        Raise SessionLost if the session ends first. To stand down, cancel; to step down, `resign`.
        """
        ...

    async def resign(self, session: Session) -> None:
        """Be the controller no longer, and let another candidate be elected; the session lives on."""
        ...

    async def append(
        self, records: Sequence[MetadataRecord], *, expected_version: int, controller_epoch: int
    ) -> int:
        """Append one entry and return its version, once it is durable.

        Raise VersionConflict if the log is not at `expected_version`, ControllerFenced if there has
        been an election after that of `controller_epoch`.
        """
        ...

    async def read(self, after_version: int) -> list[MetadataEntry]:
        """Return the entries after `after_version`, oldest first; the first may be a snapshot."""
        ...

    async def compact(
        self, version: int, records: Iterable[MetadataRecord], *, controller_epoch: int
    ) -> None:
        """Replace the entries up to `version` by a snapshot; `records` make the image of that version.

        `records` may be consumed on another thread.
        """
        ...

    def watch(self, watcher: Callable[[int], None]) -> Callable[[], None]:
        """Call `watcher(version)` on the loop after each append; return what ends that."""
        ...


def fold(image: ClusterImage, entries: Iterable[MetadataEntry]) -> ClusterImage:
    """Return the image after `entries`, as `MetadataStore.read` returned them."""
    for entry in entries:
        if entry.is_snapshot:
            image = EMPTY
        elif entry.version != image.version + 1:
            raise MetadataError(f"the metadata log jumps from version {image.version} to {entry.version}")
        image = image.apply(entry.records, entry.version)
    return image
