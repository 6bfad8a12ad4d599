"""The group coordinator of this broker: the partitions of `__consumer_offsets` that it leads.

It follows the cluster image: a partition that this broker comes to lead is loaded, one that it loses is
unloaded. Requests find their partition by the hash of the group id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from inspect import isawaitable
from typing import Any, Concatenate, ParamSpec, TypeVar

from ottla.common.clock import Clock
from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition
from ottla.common.lag import first_unread
from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC
from ottla.controller.machine import NewTopic
from ottla.controller.runner import Controller
from ottla.coordinator.effects import Step
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import FetchRequest
from ottla.coordinator.lag import LatestOffsets, PartitionLag, Readable, RecordTimes, ReplicaToRead, group_lag
from ottla.coordinator.partition_writer import PartitionWriter
from ottla.coordinator.partitions import Shard, Shards
from ottla.coordinator.runtime import Runtime
from ottla.metadata.image import ClusterImage, diff_images
from ottla.metadata.state import ClusterState
from ottla.protocol.errors import KafkaError, NotCoordinator
from ottla.protocol.records.control import Marker
from ottla.replication.partition import Partition
from ottla.replication.registry import PartitionRegistry

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

LAGS_PER_SLICE = 50
"""How many lags are computed before other work runs: each may read and decompress a batch."""


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
        self._cluster = cluster
        self._partitions = partitions
        self._config = config
        self._clock = clock
        self._shards: Shards[GroupMachine] = Shards(
            CONSUMER_OFFSETS_TOPIC, self, node_id, cluster, controller, partitions, clock
        )
        self._waiting: dict[object, asyncio.Future[Any]] = {}
        self._times = RecordTimes()

    @property
    def machines(self) -> list[GroupMachine]:
        """The machines of the partitions that this broker coordinates now."""
        return self._shards.machines

    @property
    def loading_count(self) -> int:
        """How many partitions of the topic are still being loaded."""
        return self._shards.loading_count

    @property
    def parked_count(self) -> int:
        """How many requests are parked until other members have joined."""
        return sum(shard.runtime.parked_count for shard in self._shards)

    def listed_now(self) -> Iterator[tuple[GroupMachine, str]]:
        """Yield every group that is coordinated here, and its machine; groups may come and go meanwhile."""
        for machine in self.machines:
            for group_id in dict.fromkeys([*machine.groups, *machine.offsets.group_ids()]):
                yield machine, group_id

    # Service

    async def start(self) -> None:
        """Load the partitions that this broker leads, in the background, and follow the cluster."""
        await self._shards.start()

    async def stop(self) -> None:
        """Unload everything."""
        await self._shards.stop()

    # Requests

    def call(
        self,
        group_id: str,
        event: Callable[Concatenate[GroupMachine, int, int, P], Step[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R | asyncio.Future[R]:
        """Run an event on the machine of a group; return its reply, or a future for it."""
        return self._shards.of(group_id).runtime.call(event, *args, **kwargs)

    def led_partition(self, group_id: str) -> Partition:
        """Return the partition that a group lives on, which this broker leads."""
        return self._partitions.get(CONSUMER_OFFSETS_TOPIC, self._shards.of(group_id).index)

    def end_transaction(self, index: int, marker: Marker) -> asyncio.Future[None] | None:
        """Append a marker to a partition of the topic, and let what it decides count.

        Returns None if that is committed, else a future for when it is.
        """
        self._shards.check_started()
        shard = self._shards.at(index)
        if shard is None:
            raise NotCoordinator(f"{CONSUMER_OFFSETS_TOPIC}-{index} is led elsewhere")
        return shard.runtime.call(GroupMachine.end_transaction, marker)

    async def call_all(
        self,
        event: Callable[Concatenate[GroupMachine, int, int, P], Step[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> list[R]:
        """Run an event on every machine here, and return all replies."""
        self._shards.check_started()
        replies = []
        for shard in self._shards:
            reply = shard.runtime.call(event, *args, **kwargs)
            replies.append(await reply if isawaitable(reply) else reply)
        return replies

    def park(self, owner: object, reply: T) -> T:
        """Cancel a reply that may come much later if its owner, a connection, closes first (see `leave`)."""
        if isinstance(reply, asyncio.Future):
            self._waiting[owner] = reply
            reply.add_done_callback(lambda done: self._forget(owner, done))
        return reply

    def leave(self, owner: object) -> None:
        """Stop waiting for an owner that has closed. Its member stays until its session expires."""
        waiting = self._waiting.get(owner)
        if waiting is not None:
            waiting.cancel()

    def _forget(self, owner: object, reply: asyncio.Future[Any]) -> None:
        if self._waiting.get(owner) is reply:
            del self._waiting[owner]

    async def find(self, group_id: str) -> int:
        """Return the node id of the broker that coordinates a group; the topic is created on first use."""
        return await self._shards.find(group_id)

    async def find_partition(self, group_id: str) -> TopicPartition:
        """Return the partition of `__consumer_offsets` of a group; the topic is created on first use."""
        return await self._shards.partition_of(group_id)

    async def lag(self, group_id: str) -> list[PartitionLag]:
        """Return a group's lag by partition, in records and in seconds."""
        reply = self.call(group_id, GroupMachine.fetch, FetchRequest(group_id, None))
        offsets = await reply if isawaitable(reply) else reply
        lags = []
        for each in group_lag(offsets, self._replica, self._clock.wall_ms()):
            lags.append(each)
            if len(lags) % LAGS_PER_SLICE == 0:
                await asyncio.sleep(0)
        return lags

    def lag_now(
        self,
        machine: GroupMachine,
        group_id: str,
        elsewhere: Callable[[str, int], Readable | None] = lambda topic, index: None,
    ) -> Iterator[PartitionLag]:
        """Yield a group's lag, one partition at a time, without waiting for commits in flight.

        `elsewhere` looks up partitions that have no replica here.
        """
        offsets = machine.offsets.fetch(FetchRequest(group_id, None))
        return group_lag(
            offsets,
            lambda topic, index: self._replica(topic, index) or elsewhere(topic, index),
            self._clock.wall_ms(),
        )

    def measure(self, partition: Partition, offset: int) -> LatestOffsets:
        """Return how a partition here looks to a reader at this offset."""
        replica = ReplicaToRead(partition, self._times)
        start, end = replica.start_offset, replica.end_offset
        first = first_unread(offset, start, end)
        return LatestOffsets(start, end, None if first is None else replica.timestamp_from(first))

    def has_replica(self, topic: str, index: int) -> bool:
        """Return whether this broker leads or follows a partition."""
        return self._replica(topic, index) is not None

    def _replica(self, topic: str, index: int) -> ReplicaToRead | None:
        try:
            return ReplicaToRead(self._partitions.get_replica(topic, index), self._times)
        except KafkaError:
            return None

    # The topic and its state machines

    async def create_topic(self) -> None:
        """Create `__consumer_offsets`, unless it exists; raise CoordinatorNotAvailable if that fails."""
        await self._shards.create_topic()

    def new_topic(self, broker_count: int) -> NewTopic:
        """Return the partitions, replicas and configs with which `__consumer_offsets` is created."""
        config = self._config()
        return NewTopic(
            CONSUMER_OFFSETS_TOPIC,
            config.offsets_topic_num_partitions,
            min(config.offsets_topic_replication_factor, broker_count),
            configs=(
                ("cleanup.policy", "compact"),
                ("compression.type", "producer"),
                ("segment.bytes", str(config.offsets_topic_segment_bytes)),
            ),
        )

    def open_shard(self, index: int, partition: Partition) -> Runtime[GroupMachine]:
        """Return a machine on a partition of `__consumer_offsets`."""
        config = self._config()
        writer = PartitionWriter(partition, self._clock, config.offsets_topic_compression_codec)
        machine = GroupMachine(config, self._cluster.image)
        return Runtime(machine, writer, self._clock, config.offsets_commit_timeout_ms)

    def loaded(self, shard: Shard[GroupMachine]) -> str:
        """Begin to coordinate the groups of a partition."""
        machine = shard.runtime.machine
        machine.apply(self._cluster.image)
        shard.runtime.activate()
        return f"{len(machine.groups)} groups" if machine.groups else ""

    def unloaded(self, shard: Shard[GroupMachine]) -> None:
        """Do nothing: the runtime has answered all requests."""

    def image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        """Pass the changes to every machine."""
        difference = diff_images(old, new)
        for shard in self._shards:
            if shard.runtime.is_active:
                shard.runtime.run_event(GroupMachine.new_image, new, difference)
