"""All partitions of this broker, kept in step with the cluster image."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from ottla.common.clock import Clock
from ottla.common.config.broker import BrokerConfig
from ottla.common.config.topic import TopicConfig
from ottla.common.ids import TopicPartition
from ottla.log.directories.flusher import Flusher
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.log_config import LogConfig
from ottla.metadata.image import ClusterImage, PartitionImage, TopicImage, diff_images
from ottla.metadata.records import ConfigResource
from ottla.protocol.errors import (
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.replication.counters import PartitionEvents, TopicTraffic, Traffic
from ottla.replication.leader import LeaderState
from ottla.replication.partition import Partition
from ottla.replication.replicator import Replicator
from ottla.replication.throttle import includes_replica

logger = logging.getLogger(__name__)


def configure(partition: Partition, config: TopicConfig, node_id: int) -> None:
    """Apply a topic's configuration to a partition."""
    index = partition.topic_partition.partition
    throttled = config.leader_replication_throttled_replicas, config.follower_replication_throttled_replicas
    partition.throttled_as_leader = includes_replica(throttled[0], index, node_id)
    partition.throttled_as_follower = includes_replica(throttled[1], index, node_id)
    if config.min_insync_replicas != partition.min_insync_replicas:
        partition.min_insync_replicas = config.min_insync_replicas
        if partition.leader_state is not None:
            partition.leader_state.reevaluate()


LOGS_PER_ITERATION = 20
"""How many logs are created before yielding to the loop: each takes a few file operations."""
RETRY_OPEN_S = 5.0
"""After how long a log that could not be opened, or created on a full disk, is retried."""


class PartitionRegistry:
    """Every partition here, by topic name and by topic id. `replicator` is None with one broker."""

    def __init__(
        self,
        node_id: int,
        log_directories: LogDirectories,
        flusher: Flusher,
        config: BrokerConfig,
        clock: Clock,
        replicator: Replicator | None = None,
    ) -> None:
        self._node_id = node_id
        self._log_directories = log_directories
        self._flusher = flusher
        self._config = config
        self._clock = clock
        self._replicator = replicator
        self._led_by_name: dict[str, dict[int, Partition]] = {}
        self._led_by_id: dict[UUID, dict[int, Partition]] = {}
        self._hosted: dict[str, dict[int, Partition]] = {}
        """All partitions with a replica here, led or followed."""
        self.traffic = Traffic()
        self.events = PartitionEvents()
        self._image = ClusterImage()
        self._fenced = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._unopened: dict[TopicPartition, asyncio.TimerHandle] = {}
        if replicator is not None:
            replicator.partitions = self
            replicator.step_down = self.step_down

    def __iter__(self) -> Iterator[Partition]:
        for partitions in list(self._hosted.values()):
            yield from list(partitions.values())

    def __len__(self) -> int:
        return sum(len(partitions) for partitions in self._hosted.values())

    def get(self, topic: str, index: int) -> Partition:
        """Return a partition that this broker leads, by name."""
        try:
            return self._led_by_name[topic][index]
        except KeyError:
            pass
        if self._image.partition(topic, index) is None:
            raise UnknownTopicOrPartition(f"{topic}-{index}")
        if TopicPartition(topic, index) in self._log_directories.offline:
            raise KafkaStorageError(f"the log directory with the log of {topic}-{index} is offline")
        raise NotLeaderOrFollower(f"broker {self._node_id} does not lead {topic}-{index}")

    def get_by_id(self, topic_id: UUID, index: int) -> Partition:
        """Return a partition that this broker leads, by topic id."""
        try:
            return self._led_by_id[topic_id][index]
        except KeyError:
            pass
        return self.get(self._name_of(topic_id), index)

    def get_replica(self, topic: str | UUID, index: int) -> Partition:
        """Return a partition that this broker leads or follows, by name or topic id."""
        name = self._name_of(topic) if isinstance(topic, UUID) else topic
        partition = self._hosted.get(name, {}).get(index)
        return self.get(name, index) if partition is None or self._fenced else partition

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """Return the high watermark of a partition; 0, which is safe, if it is not hosted here."""
        partition = self._hosted.get(topic_partition.topic, {}).get(topic_partition.partition)
        return 0 if partition is None else partition.high_watermark

    def is_replicated(self, topic_partition: TopicPartition) -> bool:
        """Return whether all replicas of a partition are in sync, so that each has what is committed."""
        image = self._image.partition(*topic_partition)
        return not self._fenced and image is not None and set(image.isr) == set(image.replicas)

    def traffic_of(self, topic: str | UUID | None) -> TopicTraffic:
        """Return the counters for a topic from a client's request, by name or topic id."""
        if isinstance(topic, UUID):
            topic = self._image.names_by_id.get(topic)
        return self.traffic.for_client(topic)

    def _name_of(self, topic_id: UUID) -> str:
        topic = self._image.topic_by_id(topic_id)
        if topic is None:
            raise UnknownTopicId(str(topic_id))
        return topic.name

    # Following the cluster

    async def apply(self, old: ClusterImage, new: ClusterImage) -> None:
        """Create and remove logs, and start and end roles, to match the new image."""
        self._image = new
        difference = diff_images(old, new)
        if difference.deleted:
            await self._remove_topics(difference.deleted)
        await self._apply_roles(difference.created, {})
        await self._apply_roles(difference.changed, old.topics)
        self._reconfigure(name for kind, name in difference.configs if kind == ConfigResource.TOPIC)

    def replace_config(self, config: BrokerConfig) -> None:
        """Apply new broker settings, which topics without their own inherit."""
        self._config = config
        self._reconfigure(list(self._hosted))

    def fence(self) -> None:
        """Stop leading all partitions immediately: this broker has lost its session, and others may lead by
        now.
        """
        self._fenced = True
        for partition in self:
            self.step_down(partition)

    async def unfence(self, image: ClusterImage) -> None:
        """Resume the roles of `image`, in which this broker is registered again."""
        self._image = image
        self._fenced = False
        await self._apply_roles(image.topics.values(), {})

    def step_down(self, partition: Partition) -> None:
        """Stop leading a partition, until the image assigns a role."""
        topic_partition = partition.topic_partition
        self._led_by_name.get(topic_partition.topic, {}).pop(topic_partition.partition, None)
        if partition.is_leader:
            partition.follow(partition.leader_epoch)

    def take_offline(self, partitions: Iterable[TopicPartition]) -> None:
        """Neither lead nor follow partitions whose log directory failed."""
        for each in partitions:
            partition = self._hosted.get(each.topic, {}).pop(each.partition, None)
            if partition is not None:
                self.step_down(partition)
                self._close(partition)

    async def stop(self) -> None:
        """Wait for the running flushes."""
        for again in self._unopened.values():
            again.cancel()
        await self.wait_for_flushes()

    async def wait_for_flushes(self) -> None:
        """Wait until no flush is running: then what a crash left unflushed is committed."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _apply_roles(self, topics: Iterable[TopicImage], known: Mapping[str, TopicImage]) -> None:
        """Apply the roles of partitions, except those that have not changed since `known`."""
        done = 0
        for topic in topics:
            before = known[topic.name].partitions if topic.name in known else ()
            for each in topic.partitions:
                if each.index < len(before):
                    if before[each.index] is each:
                        continue
                    is_controller = self._image.controller_id == self._node_id
                    self.events.count_change(
                        before[each.index], each, self._node_id, is_controller=is_controller
                    )
                self._apply_role(topic, each)
                done += 1
                if done % LOGS_PER_ITERATION == 0:
                    await asyncio.sleep(0)

    def _apply_role(self, topic: TopicImage, image: PartitionImage) -> None:
        """Open or remove the log of one partition, and apply its role."""
        hosted = self._hosted.setdefault(topic.name, {})
        partition = hosted.get(image.index)
        if self._node_id not in image.replicas:
            if partition is not None:
                self._remove_replica(partition)
            elif self._log_directories.offline:
                self._log_directories.forget_offline(TopicPartition(topic.name, image.index))
            return
        if partition is None:
            partition = self._open(topic, image)
            if partition is None:
                return
            hosted[image.index] = partition
        led = self._led_by_name.setdefault(topic.name, {})
        self._led_by_id.setdefault(topic.topic_id, led)
        if image.leader == self._node_id and not self._fenced:
            self._lead(partition, image)
            led[image.index] = partition
        else:
            led.pop(image.index, None)
            self._follow(partition, image)

    def _lead(self, partition: Partition, image: PartitionImage) -> None:
        if self._replicator is not None:
            self._replicator.unfollow(partition)
        is_alone = image.replicas == (self._node_id,)
        is_same = partition.is_leader and partition.leader_epoch == image.leader_epoch
        if is_same and (partition.leader_state is None) == is_alone:
            if partition.leader_state is not None:
                partition.leader_state.update(image)
            return
        replication = None
        if not is_alone:
            assert self._replicator is not None, "partitions with several replicas need a replicator"
            replication = LeaderState(partition, image, self._replicator)
        partition.lead(image.leader_epoch, replication)

    def _follow(self, partition: Partition, image: PartitionImage) -> None:
        if partition.is_leader or partition.leader_epoch != image.leader_epoch:
            partition.follow(image.leader_epoch)
        if self._replicator is None:
            return
        if image.leader >= 0 and image.leader != self._node_id:
            is_in_sync = self._node_id in image.isr
            self._replicator.follow(partition, image.leader, image.leader_epoch, is_in_sync=is_in_sync)
        else:
            self._replicator.unfollow(partition)

    # Logs

    def _open(self, topic: TopicImage, image: PartitionImage) -> Partition | None:
        """Open or create the log of a partition; None if that fails, and it is offline."""
        topic_partition = TopicPartition(topic.name, image.index)
        config = TopicConfig(self._image.topic_overrides(topic.name), self._config)
        try:
            if topic_partition in self._unopened:
                self._log_directories.retry_open(topic_partition, LogConfig.from_topic_config(config))
            opened = self._log_directories.get(topic_partition)
            if opened is None:
                opened = self._log_directories.create(
                    topic_partition, topic.topic_id, LogConfig.from_topic_config(config)
                )
            else:
                opened.set_config(LogConfig.from_topic_config(config))
                if opened.topic_id is None:
                    self._log_directories.write_topic_id(opened, topic.topic_id)
        except (KafkaStorageError, OSError) as error:
            if topic_partition not in self._log_directories.offline:  # until the broker restarts
                self._schedule_retry(topic_partition, error)
            return None
        if topic_partition in self._unopened:
            self._unopened.pop(topic_partition).cancel()
        committed = self._log_directories.take_high_watermark(topic_partition)
        leads_alone = image.replicas == (image.leader,) and not self._fenced
        partition = Partition(
            opened,
            topic.topic_id,
            image.leader_epoch,
            self._flusher,
            self._clock,
            self._tasks,
            None if leads_alone else committed,
        )
        partition.traffic = self.traffic.of(topic.name)
        partition.events = self.events
        configure(partition, config, self._node_id)
        return partition

    def _schedule_retry(self, topic_partition: TopicPartition, error: Exception) -> None:
        if topic_partition in self._unopened:
            self._unopened[topic_partition].cancel()
        else:
            logger.error("cannot open the log of %s, it is offline; retrying: %s", topic_partition, error)
        self._unopened[topic_partition] = asyncio.get_running_loop().call_later(
            RETRY_OPEN_S, self._retry_open, topic_partition
        )

    def _retry_open(self, topic_partition: TopicPartition) -> None:
        image = self._image.partition(topic_partition.topic, topic_partition.partition)
        if image is None or self._node_id not in image.replicas:
            del self._unopened[topic_partition]
        else:
            self._apply_role(self._image.topics[topic_partition.topic], image)

    async def _remove_topics(self, topics: Iterable[TopicImage]) -> None:
        """Remove topics and their entries in the checkpoints: their names may be reused."""
        done = 0
        for topic in topics:
            self.traffic.forget(topic.name)
            self._led_by_id.pop(topic.topic_id, None)
            self._led_by_name.pop(topic.name, None)
            partitions = self._hosted.pop(topic.name, {})
            for each in topic.partitions:
                if each.index in partitions:
                    self._close(partitions[each.index])
                self._delete(TopicPartition(topic.name, each.index))
                done += 1
                if done % LOGS_PER_ITERATION == 0:
                    await asyncio.sleep(0)
        # An old log start must not outlive its log: after a crash it would hide the records of a new one.
        try:
            await asyncio.to_thread(self._log_directories.capture_checkpoints())
        except OSError as error:
            logger.error("cannot remove deleted partitions from the checkpoints: %s", error)

    def _remove_replica(self, partition: Partition) -> None:
        """Remove a replica: the partition stays on other brokers."""
        topic_partition = partition.topic_partition
        logger.info("deleting the log of %s: this broker no longer has a replica", topic_partition)
        self.step_down(partition)
        del self._hosted[topic_partition.topic][topic_partition.partition]
        self._close(partition)
        self._delete(topic_partition)

    def _close(self, partition: Partition) -> None:
        if self._replicator is not None:
            self._replicator.unfollow(partition)
        partition.close()

    def _delete(self, topic_partition: TopicPartition) -> None:
        self._log_directories.take_high_watermark(topic_partition)
        try:
            self._log_directories.delete(topic_partition)
        except KafkaStorageError as error:
            logger.error("cannot delete the files of %s: %s", topic_partition, error)

    # Configuration

    def _reconfigure(self, topics: Iterable[str]) -> None:
        for name in topics:
            if self._hosted.get(name):
                config = TopicConfig(self._image.topic_overrides(name), self._config)
                written = LogConfig.from_topic_config(config)
                for partition in self._hosted[name].values():
                    partition.log.set_config(written)
                    configure(partition, config, self._node_id)

    def log_config(self, image: ClusterImage, topic: str) -> LogConfig:
        """Return the log configuration of a topic."""
        return LogConfig.from_topic_config(TopicConfig(image.topic_overrides(topic), self._config))
