"""Retires the checkpoints of tasks that a connector no longer has, before new tasks take their place.

A checkpoint is named by what its task reads. When the tasks of a connector are divided anew, the checkpoints
of the old tasks would stay behind, and serve again when the division changes back: everything in between
would be written twice. And an old task may still be at its last batch on another worker while a new one
starts.

So a task first takes the lock of each checkpoint that no present task has: it waits for a query that still
runs. It stores the place where that query ended as the connector's place, and deletes the checkpoint.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.client.admin.groups import Groups
from ottla.common.ids import TopicPartition
from ottla.connect.config.providers import resolve
from ottla.connect.engine.spec import BASE_FILE, checkpoint_name
from ottla.connect.errors import RetriableError
from ottla.connect.sdk import SOURCE

if TYPE_CHECKING:
    from ottla.connect.herder.herder import Herder

log = logging.getLogger(__name__)

STORE_WAIT_S = 30.0
WAIT_S = 10.0
"""How long a new task waits for an old one before it counts as failed, and is tried again."""


class OldCheckpoints:
    """The checkpoints of one connector that none of its present tasks has."""

    def __init__(self, herder: Herder, connector: str, kind: Any, group: str) -> None:
        self._herder = herder
        self._connector = connector
        self._kind = kind
        self._group = group
        self._folder = herder.options.checkpoints_of(connector)

    async def retire(self) -> None:
        """Store their places, and delete them; RetriableError while one of their tasks runs."""
        tasks = self._herder.state.tasks.get(self._connector, [])
        present = {
            checkpoint_name(self._kind, number, resolve(config, self._herder.options.providers))
            for number, config in enumerate(tasks)
        }
        for checkpoint in await asyncio.to_thread(_folders, self._folder):
            if checkpoint.name not in present:
                await self._retire(checkpoint)

    async def _retire(self, checkpoint: Path) -> None:
        from ottla.spark.checkpoint_lock import CheckpointInUse, CheckpointLock

        lock = CheckpointLock(checkpoint)
        try:
            await asyncio.to_thread(lock.acquire, WAIT_S)
        except CheckpointInUse as error:
            raise RetriableError(f"an earlier task of {self._connector} has not ended yet: {error}") from None
        try:
            async with asyncio.timeout(STORE_WAIT_S):
                if self._kind.kind == SOURCE:
                    await self._store_source(checkpoint)
                else:
                    await self._store_sink(checkpoint)
            await asyncio.to_thread(shutil.rmtree, checkpoint, ignore_errors=True)
            log.info("%s: the checkpoint %s of an earlier task is retired", self._connector, checkpoint.name)
        finally:
            lock.release()

    async def _store_source(self, checkpoint: Path) -> None:
        await self._herder.offset_table.read_to_end()
        stored = self._herder.offsets.get(self._connector, {})
        ahead = places_ahead(source_history(checkpoint), stored)
        await self._herder.offset_table.put(
            (json.dumps([self._connector, json.loads(partition)], separators=(",", ":")), offset)
            for partition, offset in ahead.items()
        )

    async def _store_sink(self, checkpoint: Path) -> None:
        groups = Groups(self._herder.cluster)
        committed = await groups.committed(self._group)
        ahead = {
            place: offset
            for place, offset in sink_positions(checkpoint).items()
            if place not in committed or committed[place].offset < offset
        }
        if ahead:
            await groups.commit(self._group, ahead)


def _folders(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []


def sink_positions(checkpoint: Path) -> dict[TopicPartition, int]:
    """Return where a sink's query has ended: behind the last batch that is done."""
    from ottla.spark.checkpoint_files import CheckpointFiles, CheckpointProblem

    try:
        return CheckpointFiles(checkpoint).last_done.positions
    except CheckpointProblem:
        return {}


def source_history(checkpoint: Path) -> list[Mapping[str, Any]]:
    """Return the offsets that a source's query has had: its beginning, and each batch that is done."""
    from ottla.spark.checkpoint_files import NOTHING, CheckpointFiles, CheckpointProblem

    found: list[Mapping[str, Any]] = []
    with suppress(OSError, ValueError):
        found.append(json.loads((checkpoint / BASE_FILE).read_text()))
    try:
        files = CheckpointFiles(checkpoint)
        last = files.last_done.number
        batches = [files.read(number) for number in files.planned if number <= last]
    except CheckpointProblem:
        return found
    ends = [batch.sources[0] for batch in batches if batch.sources]
    return found + [json.loads(each) for each in ends if each != NOTHING]


def places_ahead(history: Iterable[Mapping[str, Any]], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the places of a source that are further than what is stored.

    Offsets of sources cannot be compared. But a query begins where the connector was, so a stored offset that
    it has had is not newer than its last one; another stored offset is of a task that came later.
    """
    had: dict[str, list[Any]] = {}
    for offsets in history:
        for partition, offset in offsets.items():
            had.setdefault(partition, []).append(offset)
    return {
        partition: offsets[-1]
        for partition, offsets in had.items()
        if partition not in stored or (stored[partition] in offsets and stored[partition] != offsets[-1])
    }
