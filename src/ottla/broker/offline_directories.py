"""Take the replicas of a failed log directory offline while the others are served (decision 0210).

A directory fails in whatever thread finds the error. On the loop, its partitions are closed, and the broker
publishes them in its registration: the controller removes them from the ISRs and elects other leaders. When
no directory is left, nothing is published: the broker stops, or, alone, refuses writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

from ottla.common.ids import TopicPartition
from ottla.common.tasks import cancel_and_wait
from ottla.controller.runner import Controller
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.storage import Storage
from ottla.metadata.image import ClusterImage
from ottla.metadata.registration import group_replicas
from ottla.metadata.state import ClusterState
from ottla.replication.registry import PartitionRegistry

logger = logging.getLogger(__name__)


def expected_replicas(image: ClusterImage, node_id: int) -> Iterator[TopicPartition]:
    """Yield the partitions of which the metadata has a replica on this broker."""
    for topic in image.topics.values():
        for partition in topic.partitions:
            if node_id in partition.replicas:
                yield TopicPartition(topic.name, partition.index)


def topic_ids_of(image: ClusterImage, partitions: Iterable[TopicPartition]) -> Iterator[tuple[UUID, int]]:
    """Yield the partitions that exist, by topic id."""
    for topic, index in sorted(partitions):
        if topic in image.topics:
            yield image.topics[topic].topic_id, index


class OfflineDirectories:
    """Watches the log directories; `on_all_offline` is called on the loop when none is left."""

    def __init__(
        self,
        directories: LogDirectories,
        partitions: PartitionRegistry,
        controller: Controller,
        cluster: ClusterState,
        on_all_offline: Callable[[], None],
    ) -> None:
        self._directories = directories
        self._partitions = partitions
        self._controller = controller
        self._cluster = cluster
        self._on_all_offline = on_all_offline
        self._published: set[TopicPartition] | None = None
        self._publishing: asyncio.Task[None] | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Watch from now on."""
        loop = asyncio.get_running_loop()
        for each in self._directories.directories:
            each.storage.on_offline = self._notifier(loop, each.storage)

    async def stop(self) -> None:
        """Watch no longer."""
        self._is_stopped = True
        await cancel_and_wait(self._publishing)

    def _notifier(self, loop: asyncio.AbstractEventLoop, storage: Storage) -> Callable[[], None]:
        def notify() -> None:
            loop.call_soon_threadsafe(self._failed, storage)

        return notify

    def _failed(self, storage: Storage) -> None:
        if self._is_stopped:
            return
        if self._directories.are_all_offline:
            self._on_all_offline()
            return
        lost = self._directories.take_offline(storage)
        logger.error(
            "log directory %s has failed: its %d replicas are offline, the others are served. Check the disk "
            "(dmesg), replace it if it is broken, then restart the broker",
            storage.path, len(lost), extra={"event": "log-directory-offline", "path": storage.path},
        )  # fmt: skip
        self._partitions.take_offline(lost)
        self.refresh()

    def take_offline(self, partition: TopicPartition) -> None:
        """Take one replica offline, whose log cannot be opened where it is now."""
        self._directories.offline.add(partition)
        self._partitions.take_offline([partition])
        self.refresh()

    def refresh(self) -> None:
        """Publish the offline replicas, if they have changed since."""
        offline = self._directories.offline
        if (offline or self._published) and self._published != offline and self._publishing is None:
            self._publishing = asyncio.create_task(self._publish(), name="publish offline replicas")

    async def _publish(self) -> None:
        try:
            while self._published != self._directories.offline:
                published = set(self._directories.offline)
                replicas = group_replicas(topic_ids_of(self._cluster.image, published))
                await self._controller.set_offline_replicas(replicas)
                self._published = published
        finally:
            self._publishing = None
