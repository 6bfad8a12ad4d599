"""Let others lead what is on a full disk, and take part again once there is space (decisions 32 and 300).

An append that fails with ENOSPC or EDQUOT reports the log directory. If others of this broker have space, it
publishes the replicas in the full one: they leave the in-sync replicas, and the controller elects other
leaders for them. If none has, the whole broker drains. So producers wait neither for these leaders nor for
these copies. Reads are still served, and followers follow. Once a second a probe file is written in each full
directory: only a write is subject to the disk, the quota and the file system in the same way as an append.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from ottla.broker.offline_directories import topic_ids_of
from ottla.common.tasks import cancel_and_wait
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.disk import Disk
from ottla.log.storage import Storage
from ottla.metadata.registration import GroupedReplicas, group_replicas
from ottla.metadata.state import ClusterState

logger = logging.getLogger(__name__)

PROBE_EVERY_S = 1.0
ROOM_BYTES = 4 << 20
"""Free space that ends the state; with less, the disk would be full again at once."""
PROBE = ".room"


class Publish(Protocol):
    """Publishes what others shall lead: everything of this broker (`draining`), or these replicas."""

    def __call__(self, *, draining: bool, replicas: GroupedReplicas) -> Awaitable[None]:
        """Publish it."""
        ...


class FullDisks:
    """Watches all log directories: leadership moves away from those that are full."""

    def __init__(
        self, disk: Disk, directories: LogDirectories, cluster: ClusterState, publish: Publish
    ) -> None:
        self._directories = directories
        self._cluster = cluster
        self._publish = publish
        self._watchers: list[FullDisk] = []
        for each in directories.directories:
            watcher = FullDisk(disk, each.storage, self._publish_full)
            each.storage.on_disk_full = watcher.notice
            self._watchers.append(watcher)

    async def _publish_full(self) -> None:
        """Publish what is in full directories; in one that is offline is nothing that could lead."""
        full = self._directories.full
        if not full or self._directories.is_any_writable:
            partitions = [each for directory in full for each in directory.logs]
            replicas = group_replicas(topic_ids_of(self._cluster.image, partitions))
            await self._publish(draining=False, replicas=replicas)
        else:
            await self._publish(draining=True, replicas=())

    async def start(self) -> None:
        """Begin to watch."""
        for each in self._watchers:
            await each.start()

    async def stop(self) -> None:
        """Watch no longer."""
        for each in self._watchers:
            await each.stop()


class FullDisk:
    """Watches one log directory; `publish` is called every second while it is full, and when that ends."""

    def __init__(self, disk: Disk, storage: Storage, publish: Callable[[], Awaitable[None]]) -> None:
        self._disk = disk
        self._storage = storage
        self._probe = f"{storage.path}/{PROBE}"
        self._publish = publish
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
        await cancel_and_wait(task)

    async def _watch(self) -> None:
        path = self._storage.path
        while True:
            await self._noticed.wait()
            extra = {"event": "disk-full", "path": path}
            logger.warning("the disk of %s is full: others lead the replicas in it", path, extra=extra)
            await self._publish()
            while not await asyncio.to_thread(self._has_room):
                await asyncio.sleep(PROBE_EVERY_S)
                await self._publish()  # replicas were moved, or there was no other broker that could lead
            self._noticed.clear()
            self._storage.is_full = False
            extra = {"event": "disk-has-room", "path": path}
            logger.info("the disk of %s has room again", path, extra=extra)
            await self._publish()

    def _has_room(self) -> bool:
        if self._storage.offline_reason is not None:
            return False
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
