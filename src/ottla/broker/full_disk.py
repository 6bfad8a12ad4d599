"""A broker whose disk is full steps aside: others lead its partitions until there is room again.

It is told by an append that found no room, and looks for room by writing: that is true with quotas, too. In
between it stays in the cluster as a follower that is not in sync, so that producers wait neither for its
leaderships nor for its copies. See decision 0032.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.log.disk import Disk

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
ROOM_BYTES = 4 << 20
"""As much room makes a disk full no longer; with less, it would be full again at once."""
PROBE = ".room"


class FullDisk:
    """Watches one log directory. `set_draining(True)` asks for others to lead; with False, it may."""

    def __init__(self, disk: Disk, path: str, set_draining: Callable[[bool], Awaitable[None]]) -> None:
        self._disk = disk
        self._path = path
        self._probe = f"{path}/{PROBE}"
        self._stand_aside = set_draining
        self._noticed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def notice(self) -> None:
        """An append found no room."""
        self._noticed.set()

    async def start(self) -> None:
        """Begin to watch."""
        self._clear_up()  # after a process that was killed while it looked
        self._task = asyncio.create_task(self._watch(), name="watch for a full disk")

    async def stop(self) -> None:
        """Watch no longer."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await self._noticed.wait()
            logger.warning("the disk of %s is full: others lead in this broker's place", self._path)
            await self._stand_aside(True)
            while not await asyncio.to_thread(self._has_room):
                await asyncio.sleep(LOOK_EVERY_S)
                await self._stand_aside(True)  # there may have been nobody else before
            self._noticed.clear()
            logger.info("the disk of %s has room again", self._path)
            await self._stand_aside(False)

    def _has_room(self) -> bool:
        try:
            self._disk.write_file(self._probe, bytes(ROOM_BYTES), sync=False)
        except OSError:
            return False
        finally:
            self._clear_up()
        return True

    def _clear_up(self) -> None:
        try:
            self._disk.remove(self._probe)
        except OSError as error:
            logger.warning("%s cannot be removed: %s", self._probe, error)
