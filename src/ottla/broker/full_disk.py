"""Give up leadership while the disk is full, and take part again once there is space (decision 32).

An append that fails with ENOSPC or EDQUOT reports it. The broker then drains: it leaves the in-sync replicas
and the controller elects other leaders, so that producers wait neither for this leader nor for its copies. It
still serves reads and follows. Once a second it writes a probe file: only a write is subject to the disk, the
quota and the file system in the same way as an append.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from ottla.log.disk import Disk
from ottla.log.storage import Storage

logger = logging.getLogger(__name__)

PROBE_EVERY_S = 1.0
ROOM_BYTES = 4 << 20
"""Free space that ends the state; with less, the disk would be full again at once."""
PROBE = ".room"


class FullDisks:
    """Watches all log directories: leadership moves away while one of them is full."""

    def __init__(
        self, disk: Disk, storages: Sequence[Storage], set_draining: Callable[[bool], Awaitable[None]]
    ) -> None:
        self._storages = storages
        self._set_draining = set_draining
        self._watchers = [FullDisk(disk, each.path, self._set, self._on_space(each)) for each in storages]
        for storage, watcher in zip(storages, self._watchers, strict=True):
            storage.on_disk_full = watcher.notice

    @staticmethod
    def _on_space(storage: Storage) -> Callable[[], None]:
        return lambda: setattr(storage, "is_full", False)

    async def _set(self, _: bool) -> None:
        """Drain while a directory is full; one that is offline has no leaders."""
        await self._set_draining(any(each.is_full and each.offline_reason is None for each in self._storages))

    async def start(self) -> None:
        """Begin to watch."""
        for each in self._watchers:
            await each.start()

    async def stop(self) -> None:
        """Watch no longer."""
        for each in self._watchers:
            await each.stop()


class FullDisk:
    """Watches one log directory; `set_draining(True)` moves leadership away, False allows it again.

    `on_space` is called when there is space again.
    """

    def __init__(
        self,
        disk: Disk,
        path: str,
        set_draining: Callable[[bool], Awaitable[None]],
        on_space: Callable[[], None] = lambda: None,
    ) -> None:
        self._disk = disk
        self._path = path
        self._probe = f"{path}/{PROBE}"
        self._set_draining = set_draining
        self._on_space = on_space
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
            await self._set_draining(True)
            while not await asyncio.to_thread(self._has_room):
                await asyncio.sleep(PROBE_EVERY_S)
                await self._set_draining(True)  # there may have been nobody else before
            self._noticed.clear()
            self._on_space()
            logger.info("the disk of %s has room again", self._path)
            await self._set_draining(False)

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
