"""From decisions to everybody's new image, one at a time.

A change is decided on the newest image, appended to the store, folded into the next image and shown to
the subscribers; then whoever asked is answered. Changes wait in a bounded queue for the one task that
does all this, so a client that goes away in the middle of its request leaves nothing half done.

When it is not known whether an append happened (the disk failed, another controller was faster), the
log is read again before the next decision. Every so often the log is replaced by a snapshot of the image.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ottla.controller.machine import Decision
from ottla.metadata.image import ClusterImage
from ottla.metadata.records import MetadataError
from ottla.metadata.state import ClusterState
from ottla.metadata.store import ControllerFenced, MetadataStore, VersionConflict, fold
from ottla.protocol.errors import KafkaError, KafkaStorageError, NotController

logger = logging.getLogger(__name__)

R = TypeVar("R")
Decide = Callable[[ClusterImage], Decision[R]]

QUEUED_CHANGES = 500
ATTEMPTS = 5
RECORDS_BEFORE_SNAPSHOT = 5_000


class _Change(NamedTuple):
    decide: Decide[Any]
    done: asyncio.Future[tuple[Any, ...]]


class MetadataWriter:
    """Changes the metadata, as the controller of one epoch."""

    def __init__(self, store: MetadataStore, state: ClusterState) -> None:
        self._store = store
        self._state = state
        self._changes: asyncio.Queue[_Change | None] = asyncio.Queue(QUEUED_CHANGES)
        self._worker: asyncio.Task[None] | None = None
        self._controller_epoch = 0
        self._records_since_snapshot = 0
        self._is_behind = True

    def start(self, controller_epoch: int) -> None:
        """Take changes from here on."""
        self._controller_epoch = controller_epoch
        self._worker = asyncio.create_task(self._work(), name="metadata writer")

    async def stop(self) -> None:
        """Refuse new changes and finish those that are queued."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await self._changes.put(None)
            await worker

    async def change(self, decide: Decide[R]) -> tuple[R | KafkaError, ...]:
        """Carry out what `decide` makes of the newest image; return its results once they are durable."""
        if self._worker is None:
            raise NotController("the broker is stopping")
        done: asyncio.Future[tuple[R | KafkaError, ...]] = asyncio.get_running_loop().create_future()
        await self._changes.put(_Change(decide, done))
        return await done

    async def catch_up(self) -> None:
        """Read what the log has beyond our image."""
        image = self._state.image
        entries = await self._store.read(image.version)
        newest = fold(image, entries)
        self._records_since_snapshot += sum(len(each.records) for each in entries if not each.is_snapshot)
        if newest is not image:
            await self._state.publish(newest)
        self._is_behind = False

    async def _work(self) -> None:
        while (change := await self._changes.get()) is not None:
            try:
                results = await self._carry_out(change.decide)
            except Exception as error:
                if not change.done.done():
                    change.done.set_exception(error)
            else:
                if not change.done.done():
                    change.done.set_result(results)
                await self._compact_if_due()

    async def _carry_out(self, decide: Decide[R]) -> tuple[R | KafkaError, ...]:
        for _ in range(ATTEMPTS):
            try:
                if self._is_behind:
                    await self.catch_up()
                image = self._state.image
                decision = decide(image)
                if not decision.records:
                    return decision.results
                self._is_behind = True  # until the append is known to have happened
                version = await self._store.append(
                    decision.records, expected_version=image.version, controller_epoch=self._controller_epoch
                )
            except VersionConflict:
                continue
            except ControllerFenced as error:
                raise NotController(str(error)) from error
            except MetadataError as error:
                logger.error("the metadata cannot be changed: %s", error)
                raise KafkaStorageError(f"the metadata cannot be changed: {error}") from error
            await self._state.publish(image.apply(decision.records, version))
            self._is_behind = False
            self._records_since_snapshot += len(decision.records)
            return decision.results
        raise NotController("other changes to the metadata kept coming first")

    async def _compact_if_due(self) -> None:
        image, grown = self._state.image, self._records_since_snapshot
        if grown < RECORDS_BEFORE_SNAPSHOT or grown < image.record_count:
            return
        try:
            await self._store.compact(image.version, image.records(), controller_epoch=self._controller_epoch)
        except Exception:
            logger.exception("no snapshot of the metadata")
        # Also after a failure: the next attempt is due only when the log has grown as much again.
        self._records_since_snapshot = 0
