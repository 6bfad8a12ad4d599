"""The partitions that this broker holds, kept in step with the cluster image."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from uuid import UUID

from ottla.common.broker_keys import BrokerConfig
from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition
from ottla.common.topic_keys import TopicConfig
from ottla.log.flusher import Flusher
from ottla.log.log_config import LogConfig
from ottla.log.log_directory import LogDirectory
from ottla.metadata.image import ClusterImage, PartitionImage, TopicImage, changes
from ottla.metadata.records import ConfigResource
from ottla.protocol.errors import (
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.replication.partition import Partition

log = logging.getLogger(__name__)

LOGS_PER_TURN = 20
"""How many logs are made before other work gets its turn: each costs a few file operations."""


class PartitionRegistry:
    """Every partition here, by topic name and by topic id."""

    def __init__(
        self,
        node_id: int,
        log_directory: LogDirectory,
        flusher: Flusher,
        config: BrokerConfig,
        clock: Clock,
    ) -> None:
        self._node_id = node_id
        self._log_directory = log_directory
        self._flusher = flusher
        self._config = config
        self._clock = clock
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[UUID, dict[int, Partition]] = {}
        self._image = ClusterImage()
        self._tasks: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Partition]:
        for partitions in list(self._by_name.values()):
            yield from list(partitions.values())

    def __len__(self) -> int:
        return sum(len(partitions) for partitions in self._by_name.values())

    def get(self, topic: str, index: int) -> Partition:
        """Return a partition that this broker leads, by name."""
        try:
            return self._by_name[topic][index]
        except KeyError:
            pass
        if self._image.partition(topic, index) is None:
            raise UnknownTopicOrPartition(f"{topic}-{index}")
        raise NotLeaderOrFollower(f"broker {self._node_id} does not lead {topic}-{index}")

    def get_by_id(self, topic_id: UUID, index: int) -> Partition:
        """Return a partition that this broker leads, by topic id."""
        try:
            return self._by_id[topic_id][index]
        except KeyError:
            pass
        topic = self._image.topic_by_id(topic_id)
        if topic is None:
            raise UnknownTopicId(str(topic_id))
        return self.get(topic.name, index)

    def high_watermark(self, at: TopicPartition) -> int:
        """Return how far a partition is committed; 0, which is safe, if it is not served here."""
        partition = self._by_name.get(at.topic, {}).get(at.partition)
        return 0 if partition is None else partition.high_watermark

    async def apply(self, old: ClusterImage, new: ClusterImage) -> None:
        """Make and remove logs so that they match the new image."""
        self._image = new
        difference = changes(old, new)
        if difference.deleted:
            await self._remove(difference.deleted)
        made = 0
        for topic in (*difference.created, *difference.grown):
            for each in topic.partitions:
                if self._open(topic, each):
                    made += 1
                    if made % LOGS_PER_TURN == 0:
                        await asyncio.sleep(0)
        self._reconfigure(difference.configs)

    def replace_config(self, config: BrokerConfig) -> None:
        """Take over new broker settings, which topics without their own inherit."""
        self._config = config
        self._reconfigure((ConfigResource.TOPIC, name) for name in self._by_name)

    async def stop(self) -> None:
        """Wait for the flushes under way."""
        await self.settle()

    async def settle(self) -> None:
        """Wait until no flush is under way: what a crash left unflushed is committed then."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _open(self, topic: TopicImage, image: PartitionImage) -> bool:
        """Open one partition if it belongs here and is not open yet."""
        partitions = self._by_name.setdefault(topic.name, {})
        known = partitions.get(image.index)
        if known is not None:
            known.leader_epoch = max(known.leader_epoch, image.leader_epoch)
            return False
        if image.leader != self._node_id:
            return False
        at = TopicPartition(topic.name, image.index)
        try:
            opened = self._log_directory.get(at)
            if opened is None:
                opened = self._log_directory.create(
                    at, topic.topic_id, self.log_config(self._image, topic.name)
                )
            else:
                opened.config = self.log_config(self._image, topic.name)
                if opened.topic_id is None:
                    self._log_directory.write_topic_id(opened, topic.topic_id)
        except (KafkaStorageError, OSError) as error:
            log.error("%s cannot be opened and is offline: %s", at, error)
            return False
        partition = Partition(
            opened, topic.topic_id, image.leader_epoch, self._flusher, self._clock, self._tasks
        )
        partitions[image.index] = partition
        self._by_id.setdefault(topic.topic_id, partitions)
        return True

    async def _remove(self, topics: Iterable[TopicImage]) -> None:
        """Take topics out, with all that the checkpoints say of them: their names may be given again."""
        done = 0
        for topic in topics:
            self._by_id.pop(topic.topic_id, None)
            partitions = self._by_name.pop(topic.name, {})
            for each in topic.partitions:
                if each.index in partitions:
                    partitions[each.index].close()
                self._delete(TopicPartition(topic.name, each.index))
                done += 1
                if done % LOGS_PER_TURN == 0:
                    await asyncio.sleep(0)
        # An old log start must not outlive its log: after a crash it would cut off the records of a new one.
        try:
            await asyncio.to_thread(self._log_directory.capture_checkpoints())
        except OSError as error:
            log.error("the checkpoints still name partitions that were deleted: %s", error)

    def _delete(self, at: TopicPartition) -> None:
        try:
            self._log_directory.delete(at)
        except KafkaStorageError as error:
            log.error("the files of %s are still there: %s", at, error)

    def _reconfigure(self, resources: Iterable[tuple[int, str]]) -> None:
        for resource_type, name in resources:
            if resource_type == ConfigResource.TOPIC and name in self._by_name:
                config = self.log_config(self._image, name)
                for partition in self._by_name[name].values():
                    partition.log.config = config

    def log_config(self, image: ClusterImage, topic: str) -> LogConfig:
        """Return how the logs of a topic are kept."""
        return LogConfig.from_topic_config(TopicConfig(image.topic_overrides(topic), self._config))
