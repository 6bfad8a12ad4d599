"""The copy of the metadata that each broker of a cluster keeps beside its logs.

The metadata of a cluster is in ZooKeeper. If that is lost, the brokers' copies are the newest backup (`ottla
cluster rebuild`); and a broker that starts finds out from its copy that ZooKeeper was restored from an older
snapshot, even if new changes were made since (history.py). The file is written a moment after each change,
and when the broker stops; it is replaced atomically. Failures are logged and do not matter to the broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from ottla import __version__
from ottla.common.clock import Clock
from ottla.common.tasks import cancel_and_wait
from ottla.log.checkpoints import write_atomically
from ottla.log.disk import Disk
from ottla.metadata.backup_file import Backup, decode_backup, encode_backup
from ottla.metadata.history import Term
from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.records import MetadataError

logger = logging.getLogger(__name__)

COPY_FILE = "cluster-metadata.backup"
DELAY_S = 1.0
"""How long changes are collected before they are written."""
MAX_SHARE = 0.05
"""The share of the time that may be spent on writing: large metadata is written less often."""


def read_copy(disk: Disk, data: Path | str) -> Backup | None:
    """Return the copy in a data directory; None if there is none that can be trusted."""
    path = f"{data}/{COPY_FILE}"
    try:
        return decode_backup(disk.read_file(path))
    except FileNotFoundError:
        return None
    except (OSError, MetadataError) as error:
        logger.warning("%s cannot be used: %s", path, error)
        return None


class MetadataCopy:
    """Writes every change of the metadata to the copy."""

    def __init__(
        self,
        disk: Disk,
        data: Path,
        clock: Clock,
        term_at: Callable[[int], Term | None] = lambda _version: None,
    ) -> None:
        self._disk = disk
        self._path = f"{data}/{COPY_FILE}"
        self._clock = clock
        self._term_at = term_at
        self._image = EMPTY
        self._written = -1
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._writing: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Start to write changes."""
        self._task = asyncio.create_task(self._run(), name="copy the metadata")

    def note(self, _: ClusterImage, new: ClusterImage) -> None:
        """Take a new image; a subscriber of the metadata."""
        if new.version != self._image.version:
            self._image = new
            self._changed.set()

    async def stop(self) -> None:
        """Write the newest image, if it is not written."""
        task, self._task = self._task, None
        if task is not None:
            await cancel_and_wait(task)
            if self._writing is not None:  # two writes at once would share a temporary file
                await asyncio.wait([self._writing])
            await self._write()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await asyncio.sleep(DELAY_S)
            began_ms = self._clock.mono_ms()
            await self._write()
            took_s = (self._clock.mono_ms() - began_ms) / 1000
            await asyncio.sleep(took_s / MAX_SHARE)

    async def _write(self) -> None:
        image = self._image
        if image.version == self._written or not image.cluster_id:
            return
        term = self._term_at(image.version)
        backup = Backup(image, (), self._clock.wall_ms(), __version__, term)
        try:
            # In a thread, and whole even if this task is cancelled.
            loop = asyncio.get_running_loop()
            self._writing = loop.run_in_executor(None, self._replace, backup)
            await asyncio.shield(self._writing)
        except OSError as error:
            logger.warning("the copy of the metadata %s cannot be written: %s", self._path, error)
        else:
            self._written = image.version

    def _replace(self, backup: Backup) -> None:
        # It has the keys of SCRAM users.
        write_atomically(self._disk, self._path, encode_backup(backup), mode=0o600)
