"""The newest image and its subscribers, and the task that keeps it in step with the metadata log.

The store notifies the follower of appends; it reads the new entries, folds them and publishes the image. The
controller's own appends are published here too, so that everything in this broker sees the images in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from ottla.metadata.history import Term, Terms, is_other_history, term_at
from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.records import MetadataError, MetadataRecord, encode_records
from ottla.metadata.store import MetadataEntry, MetadataStore, StoreRolledBack, StoreUnavailable, fold

logger = logging.getLogger(__name__)
Subscriber = Callable[[ClusterImage, ClusterImage], Awaitable[None] | None]


class ClusterState:
    """Holds the newest `ClusterImage`; lives as long as the broker."""

    def __init__(self, image: ClusterImage = EMPTY) -> None:
        self.image = image
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber(old, new)` after every change; return a function that stops it.

        A subscriber may return an awaitable (for example to open a thousand logs without blocking the loop).
        The request that caused the change is answered, and the next change begins, only when it is done;
        `image` is the new one from the start.
        """
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    async def publish(self, new: ClusterImage) -> None:
        """Make `new` the newest image and notify the subscribers, in the order of their subscription."""
        old, self.image = self.image, new
        for subscriber in tuple(self._subscribers):
            # The change is committed: one subscriber's failure must not hide it from the others.
            try:
                done = subscriber(old, new)
                if done is not None:
                    await done
            except Exception:
                logger.exception("a subscriber failed to apply metadata version %d", new.version)

    async def wait_until(self, predicate: Callable[[ClusterImage], bool]) -> ClusterImage:
        """Wait for an image that fulfils `predicate`, and until the subscribers have processed it; return
        it.
        """
        if predicate(self.image):
            return self.image
        seen: asyncio.Future[ClusterImage] = asyncio.get_running_loop().create_future()

        def check(_: ClusterImage, new: ClusterImage) -> None:
            if not seen.done() and predicate(new):
                seen.set_result(new)

        unsubscribe = self.subscribe(check)
        try:
            return await seen
        finally:
            unsubscribe()


RETRY_S = 0.5
"""How long to wait after the store failed."""
ROLLED_BACK_RETRY_S = 2.0
"""How long to wait before looking whether the newest state is back."""


class MetadataFollower:
    """Publishes every change of the metadata log to the `ClusterState`."""

    def __init__(self, store: MetadataStore, state: ClusterState) -> None:
        self._store = store
        self._state = state
        self._lock = asyncio.Lock()
        self._newest = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], None] | None = None
        self._behind_since_s: float | None = None
        self.records_read = 0
        """Records read since the last snapshot."""
        self.rolled_back: StoreRolledBack | None = None
        """Why the store is not followed: it went back."""
        self.on_rolled_back: Callable[[], None] = lambda: None
        """Called immediately when the store turns out to have gone back."""
        self._newest_entry: MetadataEntry | None = None
        self._doubts = self._dispelled = 0
        """How often the store may have been replaced, and how often that was found not to be so."""
        self._terms: Terms = ()
        """The controller terms, up to that of the current image."""
        self._terms_epoch = 0

    def start(self) -> None:
        """Start to follow the log."""
        self._unwatch = self._store.watch(self._on_append)
        self._wake.set()
        self._task = asyncio.create_task(self._follow(), name="follow the metadata")

    async def stop(self) -> None:
        """Stop following; a running publication is completed."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        task, self._task = self._task, None
        if task is not None:
            async with self._lock:
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def behind_ms(self) -> int:
        """Return for how long an entry of the log has been known that is not in the image; 0 if there is
        none.
        """
        if self._behind_since_s is None:
            return 0
        return max(1, int((asyncio.get_running_loop().time() - self._behind_since_s) * 1000))

    async def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with the current image (as a change from nothing), then with every change; none
        is missed.
        """
        async with self._lock:
            shown = subscriber(EMPTY, self._state.image)
            if shown is not None:
                await shown
            return self._state.subscribe(subscriber)

    async def republish(self) -> None:
        """Publish the image again to every subscriber, because its meaning for this broker has changed."""
        async with self._lock:
            await self._state.publish(self._state.image)

    @property
    def _is_doubtful(self) -> bool:
        """Return whether to check that the store has the history of this broker."""
        return self._doubts != self._dispelled

    async def catch_up(self) -> None:
        """Read the entries after the current image now."""
        async with self._lock:
            image = self._state.image
            was_rolled_back = self.rolled_back is not None
            entries = await self._read(image.version)
            newest = fold(image, entries)
            if newest is not image or was_rolled_back:
                self.records_read += sum(len(each.records) for each in entries if not each.is_snapshot)
                if entries:
                    self._newest_entry = None if entries[-1].is_snapshot else entries[-1]
                await self._read_terms(newest)
                await self._state.publish(newest)
            self._check_behind()

    def term_at(self, version: int) -> Term | None:
        """Return the controller term in which a version was written; None if it is not known."""
        return term_at(self._terms, version)

    async def check_applied(self, version: int, term: Term | None) -> None:
        """Raise StoreRolledBack if the store has not the history of which this broker applied `version`."""
        newest = self._state.image.version
        if newest < version or is_other_history(term, await self._store.terms(), version):
            raise StoreRolledBack(version, newest)

    async def _read_terms(self, image: ClusterImage) -> None:
        """Read the terms if `image` has another controller; retry with the next image if that fails."""
        if image.controller_epoch != self._terms_epoch:
            try:
                self._terms = await self._store.terms()
                self._terms_epoch = image.controller_epoch
            except StoreUnavailable:
                self._terms = ()

    async def verify(self) -> None:
        """Read the entries after the current image, from a store that may have been replaced meanwhile.

        Raise StoreRolledBack if it has an older state, or another history.
        """
        self._doubts += 1
        await self.catch_up()

    async def _read(self, version: int) -> list[MetadataEntry]:
        """Return the entries after `version`; note whether the store has gone back."""
        if self.rolled_back is None and not self._is_doubtful:
            entries = await self._store.read(version)
            if not self._is_doubtful:
                return entries
        try:
            entries = await self._read_verified(version)
        except StoreRolledBack as error:
            self._refuse(error)
            raise
        if self.rolled_back is not None:
            self.rolled_back = None
            logger.info(
                "the metadata store has the state of this broker again", extra={"event": "rolled-back"}
            )
        return entries

    async def _read_verified(self, version: int) -> list[MetadataEntry]:
        """Read from a store that has the history of this broker, and is not replaced meanwhile."""
        while True:
            doubts = self._doubts
            self._newest = version  # the version of another store does not count
            self._check_behind()
            entries = await self._read_same_history(version)
            self._dispelled = doubts
            if not self._is_doubtful:
                return entries

    async def _read_same_history(self, version: int) -> list[MetadataEntry]:
        entries = await self._store.read(max(0, version - 1))
        if is_other_history(self.term_at(version), await self._store.terms(), version):
            raise StoreRolledBack(version, max((each.version for each in entries), default=version))
        if not version or (entries and entries[0].is_snapshot):
            return entries
        if not entries:
            raise StoreRolledBack(version, version - 1)
        if self._newest_entry is not None and not _is_same(entries[0], self._newest_entry):
            raise StoreRolledBack(version, entries[-1].version)
        return entries[1:]

    def _refuse(self, error: StoreRolledBack) -> None:
        if self.rolled_back is None:
            logger.error("%s", error, extra={"event": "rolled-back", "applied": error.applied})
            self.rolled_back = error
            self.on_rolled_back()

    async def publish_appended(self, records: Sequence[MetadataRecord], version: int) -> None:
        """Publish an entry that this broker has just appended, without reading it again."""
        async with self._lock:
            image = self._state.image
            if version == image.version + 1:
                self.records_read += len(records)
                newest = image.apply(records, version)
                self._newest_entry = MetadataEntry(version, newest.controller_epoch, tuple(records))
                await self._read_terms(newest)
                await self._state.publish(newest)
                self._check_behind()
                return
        if version > image.version:
            await self.catch_up()

    def _on_append(self, version: int) -> None:
        self._newest = max(self._newest, version)
        if version < self._state.image.version:
            self._doubts += 1
        self._wake.set()
        self._check_behind()

    def _check_behind(self) -> None:
        if self._state.image.version >= self._newest:
            self._behind_since_s = None
        elif self._behind_since_s is None:
            self._behind_since_s = asyncio.get_running_loop().time()

    async def _follow(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                # What this broker appended itself is being taken already: wait for that, do not read it.
                async with self._lock:
                    is_behind = self._state.image.version < self._newest or not self._newest
                if is_behind or self._is_doubtful or self.rolled_back is not None:
                    await self.catch_up()
            except StoreRolledBack:  # logged once
                await asyncio.sleep(ROLLED_BACK_RETRY_S)
                self._wake.set()
            except MetadataError as error:
                logger.warning("cannot read the metadata, retrying: %s", error)
                await asyncio.sleep(RETRY_S)
                self._wake.set()


def _is_same(one: MetadataEntry, other: MetadataEntry) -> bool:
    """Return whether two entries are the same, as they are stored."""
    return (one.version, one.controller_epoch, encode_records(one.records)) == (
        other.version,
        other.controller_epoch,
        encode_records(other.records),
    )
