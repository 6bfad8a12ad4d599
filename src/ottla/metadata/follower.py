"""Keeps this broker's image in step with the metadata log.

The store says when the log has grown; the follower reads what is new, folds it and publishes the image. The
controller's own appends come here too, so that everyone in this broker sees one image after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ottla.metadata.image import EMPTY
from ottla.metadata.records import MetadataError, MetadataRecord
from ottla.metadata.state import ClusterState, Subscriber
from ottla.metadata.store import MetadataStore, fold

logger = logging.getLogger(__name__)

RETRY_S = 0.5
"""How long to wait before the store is asked again after it failed."""


class MetadataFollower:
    """Publishes every change of the metadata log to the `ClusterState`."""

    def __init__(self, store: MetadataStore, state: ClusterState) -> None:
        self._store = store
        self._state = state
        self._turn = asyncio.Lock()
        self._newest = 0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], None] | None = None
        self.records_read = 0
        """Records that were read since the last snapshot."""

    def start(self) -> None:
        """Follow the log from here on."""
        self._unwatch = self._store.watch(self._grown)
        self._wake.set()
        self._task = asyncio.create_task(self._follow(), name="follow the metadata")

    async def stop(self) -> None:
        """Follow no longer; what is being published is published to the end."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        task, self._task = self._task, None
        if task is not None:
            async with self._turn:
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Show `subscriber` the image as it is (a change from nothing), then every change; none is missed."""
        async with self._turn:
            shown = subscriber(EMPTY, self._state.image)
            if shown is not None:
                await shown
            return self._state.subscribe(subscriber)

    async def show_again(self) -> None:
        """Show every subscriber the image once more: what it means for this broker has changed."""
        async with self._turn:
            await self._state.publish(self._state.image)

    async def catch_up(self) -> None:
        """Read what the log has beyond our image, now."""
        async with self._turn:
            image = self._state.image
            entries = await self._store.read(image.version)
            newest = fold(image, entries)
            if newest is not image:
                self.records_read += sum(len(each.records) for each in entries if not each.is_snapshot)
                await self._state.publish(newest)

    async def take(self, records: Sequence[MetadataRecord], version: int) -> None:
        """Publish an entry that this broker has just appended, without reading it again."""
        async with self._turn:
            image = self._state.image
            if version == image.version + 1:
                self.records_read += len(records)
                await self._state.publish(image.apply(records, version))
                return
        if version > image.version:
            await self.catch_up()

    def _grown(self, version: int) -> None:
        self._newest = max(self._newest, version)
        self._wake.set()

    async def _follow(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                # What this broker appended itself is being taken already: wait for that, do not read it.
                async with self._turn:
                    is_behind = self._state.image.version < self._newest or not self._newest
                if is_behind:
                    await self.catch_up()
            except MetadataError as error:
                logger.warning("the metadata cannot be read, trying again: %s", error)
                await asyncio.sleep(RETRY_S)
                self._wake.set()
