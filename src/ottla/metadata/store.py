"""Where the metadata log is kept: what the controller needs of a store, and nothing more.

The log is a sequence of entries; one append makes one entry, whole or not at all. `version` counts
entries, from 1. A store may replace the entries up to some version by one snapshot entry of that
version, whose records make the same image from nothing; a reader that is further behind than that
starts again from `EMPTY`.

Two things protect the log against a controller that does not know it has been replaced: an append
names the version it was decided on (compare-and-set), and the epoch that the controller was elected
with (a newer election makes the store refuse older epochs, however long their owner slept).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.records import MetadataError, MetadataRecord


class VersionConflict(MetadataError):
    """The log has moved on since the change was decided: read, decide again."""


class ControllerFenced(MetadataError):
    """A newer controller has been elected."""


@dataclass(frozen=True, slots=True)
class MetadataEntry:
    """What one append wrote."""

    version: int
    controller_epoch: int
    records: tuple[MetadataRecord, ...]
    is_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """A broker's lease: it is alive while `lost` is not done.

    `broker_epoch` is greater than that of every earlier session of any broker.
    """

    node_id: int
    broker_epoch: int
    lost: asyncio.Future[None]


class MetadataStore(Protocol):
    """Keeps the metadata log."""

    async def open(self) -> None:
        """Make the store ready; raise MetadataError if what it holds cannot be trusted."""
        ...

    async def close(self) -> None:
        """Let go of everything, sessions included."""
        ...

    async def open_session(self, node_id: int) -> Session:
        """Take a lease for a broker."""
        ...

    async def stand_for_election(self, session: Session) -> int:
        """Wait until the session's broker is the controller; return its controller epoch."""
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
