"""The group coordinator of this broker: the partitions of `__consumer_offsets` that it leads.

It follows the cluster image: a partition that this broker comes to lead is loaded, one that it loses is
unloaded. Requests find their partition by the hash of the group id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from inspect import isawaitable
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from ottla.common.broker_keys import BrokerConfig
from ottla.common.clock import Clock
from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC
from ottla.controller.machine import NewTopic
from ottla.controller.runner import Controller
from ottla.coordinator.effects import Step
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import FetchRequest
from ottla.coordinator.lag import LedPartition, PartitionLag, RecordTimes, group_lag
from ottla.coordinator.partition_writer import PartitionWriter
from ottla.coordinator.placement import partition_for
from ottla.coordinator.runtime import Runtime
from ottla.metadata.image import ClusterImage, changes
from ottla.metadata.state import ClusterState
from ottla.protocol.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    TopicAlreadyExists,
)
from ottla.replication.registry import PartitionRegistry

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

LOADS_AT_ONCE = 4
LAGS_PER_TURN = 50
"""How many lags are computed before other work gets its turn: each may read and decompress a batch."""
RETRY_S = 5.0
"""How long to wait before loading a partition again that could not be read."""


class Shard:
    """One partition of the topic: its runtime, and since when this broker leads it."""

    __slots__ = ("loading", "runtime", "since")

    def __init__(self, since: tuple[UUID, int], runtime: Runtime[GroupMachine]) -> None:
        self.since = since
        self.runtime = runtime
        self.loading: asyncio.Task[None] | None = None


class GroupCoordinator:
    """All groups that this broker coordinates. `config` returns the broker's current configuration."""

    def __init__(
        self,
        node_id: int,
        cluster: ClusterState,
        controller: Controller,
        partitions: PartitionRegistry,
        config: Callable[[], BrokerConfig],
        clock: Clock,
    ) -> None:
        self._node_id = node_id
        self._cluster = cluster
        self._controller = controller
        self._partitions = partitions
        self._config = config
        self._clock = clock
        self._shards: dict[int, Shard] = {}
        self._waiting: dict[object, asyncio.Future[Any]] = {}
        self._unsubscribe: Callable[[], None] | None = None
        self._creating = asyncio.Lock()
        self._loads = asyncio.Semaphore(LOADS_AT_ONCE)
        self._times = RecordTimes()

    # Service

    async def start(self) -> None:
        """Load the partitions that this broker leads, in the background, and follow the cluster."""
        self._unsubscribe = self._cluster.subscribe(self._follow)
        self._lead(self._cluster.image)

    async def stop(self) -> None:
        """Unload everything."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        loading = [shard.loading for shard in self._shards.values() if shard.loading is not None]
        for index in list(self._shards):
            self._unload(index)
        await asyncio.gather(*loading, return_exceptions=True)

    # Requests

    def call(
        self,
        group_id: str,
        event: Callable[Concatenate[GroupMachine, int, int, P], Step],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Any:
        """Run an event on the machine of a group; return its reply, or a future for it."""
        return self._shard(group_id).runtime.call(event, *args, **kwargs)

    async def call_all(
        self,
        event: Callable[Concatenate[GroupMachine, int, int, P], Step],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> list[Any]:
        """Run an event on every machine here, and return all replies."""
        self._check_started()
        replies = []
        for shard in list(self._shards.values()):
            reply = shard.runtime.call(event, *args, **kwargs)
            replies.append(await reply if isawaitable(reply) else reply)
        return replies

    def park(self, owner: object, reply: T) -> T:
        """Remember who waits for a reply that may come much later, until `leave`."""
        if isinstance(reply, asyncio.Future):
            self._waiting[owner] = reply
            reply.add_done_callback(lambda done: self._forget(owner, done))
        return reply

    def leave(self, owner: object) -> None:
        """Stop waiting for an owner that went away. Its member lives on until its session ends."""
        waiting = self._waiting.get(owner)
        if waiting is not None:
            waiting.cancel()

    def _forget(self, owner: object, reply: asyncio.Future[Any]) -> None:
        if self._waiting.get(owner) is reply:
            del self._waiting[owner]

    async def find(self, group_id: str) -> int:
        """Return the node id of the broker that coordinates a group; the topic is made on first use."""
        topic = self._cluster.image.topics.get(CONSUMER_OFFSETS_TOPIC)
        if topic is None:
            await self.create_topic()
            topic = self._cluster.image.topics.get(CONSUMER_OFFSETS_TOPIC)
        if topic is None:
            raise CoordinatorNotAvailable(f"there is no {CONSUMER_OFFSETS_TOPIC}")
        leader = topic.partitions[partition_for(group_id, len(topic.partitions))].leader
        if leader < 0:
            raise CoordinatorNotAvailable(f"a partition of {CONSUMER_OFFSETS_TOPIC} has no leader")
        return leader

    async def lag(self, group_id: str) -> list[PartitionLag]:
        """Return how far a group is behind, by partition: in records and in seconds."""
        reply = self.call(group_id, GroupMachine.fetch, FetchRequest(group_id, None))
        offsets = await reply if isawaitable(reply) else reply
        lags = []
        for each in group_lag(offsets, self._led, self._clock.wall_ms()):
            lags.append(each)
            if len(lags) % LAGS_PER_TURN == 0:
                await asyncio.sleep(0)
        return lags

    def _led(self, topic: str, index: int) -> LedPartition | None:
        try:
            return LedPartition(self._partitions.get(topic, index), self._times)
        except KafkaError:
            return None

    def _shard(self, group_id: str) -> Shard:
        self._check_started()
        topic = self._cluster.image.topics.get(CONSUMER_OFFSETS_TOPIC)
        shard = None
        if topic is not None:
            shard = self._shards.get(partition_for(group_id, len(topic.partitions)))
        if shard is None:
            raise NotCoordinator(f"broker {self._node_id} does not coordinate {group_id}")
        return shard

    def _check_started(self) -> None:
        if self._unsubscribe is None:
            raise CoordinatorNotAvailable("the coordinator is not running")

    # The topic

    async def create_topic(self) -> None:
        """Make `__consumer_offsets`, unless it exists; raise CoordinatorNotAvailable if it cannot be made."""
        async with self._creating:
            if CONSUMER_OFFSETS_TOPIC in self._cluster.image.topics:
                return
            config = self._config()
            brokers = len(self._cluster.image.brokers)
            (made,) = await self._controller.create_topics(
                [
                    NewTopic(
                        CONSUMER_OFFSETS_TOPIC,
                        config.offsets_topic_num_partitions,
                        min(config.offsets_topic_replication_factor, brokers),
                        configs=(
                            ("cleanup.policy", "compact"),
                            ("compression.type", "producer"),
                            ("segment.bytes", str(config.offsets_topic_segment_bytes)),
                        ),
                    )
                ]
            )
        if isinstance(made, KafkaError) and not isinstance(made, TopicAlreadyExists):
            logger.error("%s cannot be created: %s", CONSUMER_OFFSETS_TOPIC, made)
            raise CoordinatorNotAvailable(f"{CONSUMER_OFFSETS_TOPIC} cannot be created: {made}")
        # Nothing is in them yet: this saves the first member of the first group a second attempt.
        loading = [shard.loading for shard in self._shards.values() if shard.loading is not None]
        await asyncio.gather(*loading, return_exceptions=True)

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Take over a new cluster image."""
        if old.topics is new.topics:
            return
        difference = changes(old, new)
        for shard in self._shards.values():
            if shard.runtime.is_active:
                shard.runtime.tell(GroupMachine.new_image, new, difference)
        if old.topics.get(CONSUMER_OFFSETS_TOPIC) is not new.topics.get(CONSUMER_OFFSETS_TOPIC):
            self._lead(new)

    def _lead(self, image: ClusterImage) -> None:
        """Load and unload partitions, so that they are those that this broker leads."""
        topic = image.topics.get(CONSUMER_OFFSETS_TOPIC)
        led = {}
        if topic is not None:
            led = {
                each.index: (topic.topic_id, each.leader_epoch)
                for each in topic.partitions
                if each.leader == self._node_id
            }
        for index, shard in list(self._shards.items()):
            if led.get(index) != shard.since:
                self._unload(index)
        for index, since in led.items():
            if index not in self._shards:
                self._begin_to_load(index, since)

    def _begin_to_load(self, index: int, since: tuple[UUID, int]) -> None:
        try:
            partition = self._partitions.get(CONSUMER_OFFSETS_TOPIC, index)
        except KafkaError as error:
            logger.error("%s-%d cannot be loaded: %s", CONSUMER_OFFSETS_TOPIC, index, error)
            return
        config = self._config()
        writer = PartitionWriter(partition, self._clock, config.offsets_topic_compression_codec)
        machine = GroupMachine(config, self._cluster.image)
        shard = Shard(since, Runtime(machine, writer, self._clock, config.offsets_commit_timeout_ms))
        self._shards[index] = shard
        name = f"load {CONSUMER_OFFSETS_TOPIC}-{index}"
        shard.loading = asyncio.get_running_loop().create_task(self._load(index, shard), name=name)

    async def _load(self, index: int, shard: Shard) -> None:
        runtime = shard.runtime
        try:
            async with self._loads:
                start_ms = self._clock.mono_ms()
                await runtime.load()
            runtime.machine.apply(self._cluster.image)
            runtime.activate()
        except Exception:
            logger.exception("%s-%d cannot be loaded", CONSUMER_OFFSETS_TOPIC, index)
            await asyncio.sleep(RETRY_S)
            self._unload(index)
            self._begin_to_load(index, shard.since)
            return
        shard.loading = None
        groups, took_ms = len(runtime.machine.groups), self._clock.mono_ms() - start_ms
        if groups:
            logger.info("%s-%d: %d groups loaded in %d ms", CONSUMER_OFFSETS_TOPIC, index, groups, took_ms)

    def _unload(self, index: int) -> None:
        shard = self._shards.pop(index)
        if shard.loading is not None and shard.loading is not asyncio.current_task():
            shard.loading.cancel()
        shard.runtime.unload()
