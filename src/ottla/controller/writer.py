"""Write decisions to the metadata log, one at a time.

A change is decided on the newest image, appended to the store, folded into the next image and published to
the subscribers; then its caller gets the results. Changes wait in a bounded queue for the one task that does
this, so that a client that disconnects leaves nothing half done.

If it is unknown whether an append succeeded (the disk failed, another controller was faster), the log is read
again before the next decision. From time to time the log is replaced by a snapshot of the image.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ottla.controller.events import log_events
from ottla.controller.machine import Decision
from ottla.metadata.image import ClusterImage
from ottla.metadata.records import MetadataError
from ottla.metadata.state import ClusterState, MetadataFollower
from ottla.metadata.store import (
    ControllerFenced,
    MetadataStore,
    SessionLost,
    StoreUnavailable,
    VersionConflict,
)
from ottla.protocol.errors import KafkaError, KafkaStorageError, NotController, RequestTimedOut

logger = logging.getLogger(__name__)

R = TypeVar("R")
Decide = Callable[[ClusterImage], Decision[R]]

MAX_QUEUED_CHANGES = 500
MAX_ATTEMPTS = 5
RECORDS_BEFORE_SNAPSHOT = 5_000


class _Change(NamedTuple):
    decide: Decide[Any]
    done: asyncio.Future[tuple[Any, ...]]


class MetadataWriter:
    """Changes the metadata, as the controller of one epoch."""

    def __init__(
        self,
        store: MetadataStore,
        state: ClusterState,
        follower: MetadataFollower,
        controller_epoch: int,
        on_fenced: Callable[[], None],
    ) -> None:
        self._store = store
        self._state = state
        self._follower = follower
        self._controller_epoch = controller_epoch
        self._changes: asyncio.Queue[_Change | None] = asyncio.Queue(MAX_QUEUED_CHANGES)
        self._worker: asyncio.Task[None] | None = None
        self._is_behind = True
        self._on_fenced = on_fenced
        self.is_fenced = False
        """Whether another controller is known to have been elected."""

    def start(self) -> None:
        """Start to accept changes."""
        self._worker = asyncio.create_task(self._work(), name="metadata writer")

    async def stop(self) -> None:
        """Reject new changes and finish the queued ones."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await self._changes.put(None)
            await worker

    async def step_down(self) -> None:
        """Reject new and queued changes: this broker is no longer the controller."""
        self._fence()
        await self.stop()

    async def change(self, decide: Decide[R]) -> tuple[R | KafkaError, ...]:
        """Apply the decision of `decide` on the newest image; return its results once they are durable."""
        if self._worker is None:
            raise NotController("this broker is not the controller any more")
        done: asyncio.Future[tuple[R | KafkaError, ...]] = asyncio.get_running_loop().create_future()
        await self._changes.put(_Change(decide, done))
        return await done

    async def _work(self) -> None:
        while (change := await self._changes.get()) is not None:
            try:
                results = await self._write(change.decide)
            except Exception as error:
                if not change.done.done():
                    change.done.set_exception(error)
            else:
                if not change.done.done():
                    change.done.set_result(results)
                await self._compact_if_due()

    async def _write(self, decide: Decide[R]) -> tuple[R | KafkaError, ...]:
        for _ in range(MAX_ATTEMPTS):
            if self.is_fenced:
                raise NotController("another broker is the controller now")
            try:
                if self._is_behind:
                    await self._follower.catch_up()
                    self._is_behind = False
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
            except (ControllerFenced, SessionLost) as error:
                self._fence()
                raise NotController(str(error)) from error
            except StoreUnavailable as error:
                raise RequestTimedOut(f"the metadata store does not respond: {error}") from error
            except MetadataError as error:
                logger.error("the metadata cannot be changed: %s", error)
                raise KafkaStorageError(f"the metadata cannot be changed: {error}") from error
            await self._follower.publish_appended(decision.records, version)
            self._is_behind = False
            log_events(image, image.apply(decision.records, version))
            return decision.results
        raise NotController("other changes to the metadata kept coming first")

    def _fence(self) -> None:
        self.is_fenced = True
        self._on_fenced()

    async def _compact_if_due(self) -> None:
        image, grown = self._state.image, self._follower.records_read
        if grown < RECORDS_BEFORE_SNAPSHOT or grown < image.record_count:
            return
        try:
            await self._store.compact(image.version, image.records(), controller_epoch=self._controller_epoch)
        except Exception:
            logger.exception("cannot write a snapshot of the metadata")
        # Also after a failure: the next attempt is due only when the log has grown as much again.
        self._follower.records_read = 0
