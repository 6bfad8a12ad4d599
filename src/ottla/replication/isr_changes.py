"""Carries proposed in-sync replicas to the controller: all that have gathered in one request.

One request is under way at a time. What cannot be decided now (no controller, no answer) is asked again: a
leader keeps to the maximal ISR until it knows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from ottla.metadata.entities import PartitionImage
from ottla.metadata.isr_change import IsrChange
from ottla.protocol.errors import KafkaError
from ottla.replication.leader import Leading

log = logging.getLogger(__name__)

RETRY_MS = 100
MOST_AT_ONCE = 1_000


class PartitionAlterer(Protocol):
    """The controller, as leaders see it."""

    async def alter_partitions(self, changes: Sequence[IsrChange]) -> Sequence[PartitionImage | KafkaError]:
        """Make changes true; return each partition as it then is, or why not."""
        ...


class IsrChanges:
    """Proposals that the controller has not answered yet. `run` is a task of its owner's."""

    def __init__(self, controller: PartitionAlterer) -> None:
        self._controller = controller
        self._waiting: dict[Leading, None] = {}
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, leading: Leading) -> None:
        """Ask for what `leading` proposes."""
        self._waiting[leading] = None
        self._arrived.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            try:
                undecided = await self._ask()
            except Exception:
                log.exception("the in-sync replicas cannot be changed")
                undecided = True
            if undecided:
                await asyncio.sleep(RETRY_MS / 1000)
            if self._waiting:
                self._arrived.set()

    async def _ask(self) -> bool:
        """Send one request; return whether something has to be asked again."""
        batch: list[tuple[Leading, IsrChange]] = []
        for leading in list(self._waiting)[:MOST_AT_ONCE]:
            change = leading.change()
            if change is None:
                del self._waiting[leading]
            else:
                batch.append((leading, change))
        if not batch:
            return False
        try:
            answers = await self._controller.alter_partitions([change for _, change in batch])
        except KafkaError as error:
            log.info("the controller cannot be asked now: %r", error)
            answers = [error] * len(batch)
        undecided = False
        for (leading, change), answer in zip(batch, answers, strict=True):
            if leading.answered(change, answer):
                undecided = True
            elif (now := leading.change()) is None or now.partition_epoch == change.partition_epoch:
                self._waiting.pop(leading, None)  # unless it has proposed something else by now
        return undecided
