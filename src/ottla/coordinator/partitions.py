"""The partitions of an internal topic that this broker leads, each with a state machine on it.

Both coordinators have the same needs: find the partition of a key by its hash, make the topic on first
use, load a partition when this broker comes to lead it, and unload it when it does not any more. What is
on the partition (which machine, which records) the owner says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition
from ottla.controller.machine import NewTopic
from ottla.controller.runner import Controller
from ottla.coordinator.runtime import Machine, Runtime
from ottla.metadata.image import ClusterImage
from ottla.metadata.state import ClusterState
from ottla.protocol.errors import CoordinatorNotAvailable, KafkaError, NotCoordinator, TopicAlreadyExists
from ottla.replication.partition import Partition
from ottla.replication.registry import PartitionRegistry

# Which partition of `__consumer_offsets` a group lives on; every broker and every client tool agrees.


def partition_for(group_id: str, partition_count: int) -> int:
    """Return the partition of a group."""
    return _positive_hash(group_id) % partition_count


@lru_cache(maxsize=10_000)
def _positive_hash(text: str) -> int:
    """Return the absolute value of Java's String.hashCode: a polynomial over UTF-16 units in 32 bits."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        value = (value * 31 + (encoded[at] << 8 | encoded[at + 1])) & 0xFFFFFFFF
    if value >= 0x80000000:
        value -= 0x100000000
    return 0 if value == -0x80000000 else abs(value)


logger = logging.getLogger(__name__)

LOADS_AT_ONCE = 4
RETRY_S = 5.0
"""How long to wait before loading a partition again that could not be read."""
LEAD_AGAIN_S = 0.5
"""How long to wait for a partition that the image says is led from here, and is not yet."""

M = TypeVar("M", bound=Machine)


class Shard(Generic[M]):
    """One partition of the topic: its runtime, and since when this broker leads it."""

    __slots__ = ("index", "loading", "partition", "runtime", "since")

    def __init__(
        self, index: int, since: tuple[UUID, int], partition: Partition, runtime: Runtime[M]
    ) -> None:
        self.index = index
        self.since = since
        self.partition = partition
        self.runtime = runtime
        self.loading: asyncio.Task[None] | None = None

    @property
    def leader_epoch(self) -> int:
        """Return the leader epoch in which it was loaded."""
        return self.since[1]


class Owner(Protocol[M]):
    """What a coordinator says of its shards."""

    def new_topic(self, broker_count: int) -> NewTopic:
        """Return what its topic is to be made of."""
        ...

    def open_shard(self, index: int, partition: Partition) -> Runtime[M]:
        """Return a machine on a partition, not loaded yet."""
        ...

    def loaded(self, shard: Shard[M]) -> str:
        """Begin to use a shard whose records have been replayed; return what was loaded, in words."""
        ...

    def unloaded(self, shard: Shard[M]) -> None:
        """Let go of all that belongs to a shard."""
        ...

    def image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        """Hear of a new cluster image, before shards are loaded and unloaded for it."""
        ...


class Shards(Generic[M]):
    """All shards of one topic here."""

    def __init__(
        self,
        topic: str,
        owner: Owner[M],
        node_id: int,
        cluster: ClusterState,
        controller: Controller,
        partitions: PartitionRegistry,
        clock: Clock,
    ) -> None:
        self._topic = topic
        self._owner = owner
        self._node_id = node_id
        self._cluster = cluster
        self._controller = controller
        self._partitions = partitions
        self._clock = clock
        self._shards: dict[int, Shard[M]] = {}
        self._unsubscribe: Callable[[], None] | None = None
        self._later: asyncio.TimerHandle | None = None
        self._creating = asyncio.Lock()
        self._loads = asyncio.Semaphore(LOADS_AT_ONCE)

    def __iter__(self) -> Iterator[Shard[M]]:
        return iter(list(self._shards.values()))

    async def start(self) -> None:
        """Load the partitions that this broker leads, in the background, and follow the cluster."""
        self._unsubscribe = self._cluster.subscribe(self._follow)
        self._lead(self._cluster.image)

    async def stop(self) -> None:
        """Unload everything."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self._later is not None:
            self._later.cancel()
            self._later = None
        loading = [shard.loading for shard in self._shards.values() if shard.loading is not None]
        for index in list(self._shards):
            self._unload(index)
        await asyncio.gather(*loading, return_exceptions=True)

    @property
    def machines(self) -> list[M]:
        """The machines of the partitions that this broker coordinates now."""
        return [shard.runtime.machine for shard in self if shard.runtime.is_active]

    @property
    def loading_count(self) -> int:
        """How many partitions this broker is to coordinate and has not loaded yet."""
        return sum(not shard.runtime.is_active for shard in self)

    def check_started(self) -> None:
        """Refuse to work before the start, and after the stop."""
        if self._unsubscribe is None:
            raise CoordinatorNotAvailable("the coordinator is not running")

    def of(self, key: str) -> Shard[M]:
        """Return the shard of a key; NotCoordinator if it is not here."""
        if self._unsubscribe is None:
            self.check_started()
        topic = self._cluster.image.topics.get(self._topic)
        shard = None
        if topic is not None:
            shard = self._shards.get(_positive_hash(key) % len(topic.partitions))
        if shard is None or not shard.partition.is_leader:
            # Without its session this broker leads nothing, though the image does not say so yet.
            raise NotCoordinator(f"broker {self._node_id} does not coordinate {key}")
        return shard

    def at(self, index: int) -> Shard[M] | None:
        """Return the shard on a partition, if it is here."""
        shard = self._shards.get(index)
        return None if shard is None or not shard.partition.is_leader else shard

    def leader_of(self, key: str) -> int:
        """Return the node id of the broker that coordinates a key, -1 if there is none."""
        topic = self._cluster.image.topics.get(self._topic)
        return -1 if topic is None else topic.partitions[partition_for(key, len(topic.partitions))].leader

    async def find(self, key: str) -> int:
        """Return the node id of the broker that coordinates a key; the topic is made on first use."""
        await self.partition_of(key)
        leader = self.leader_of(key)
        if leader < 0:
            raise CoordinatorNotAvailable(f"a partition of {self._topic} has no leader")
        return leader

    async def partition_of(self, key: str) -> TopicPartition:
        """Return the partition that a key belongs to; the topic is made on first use."""
        if self._cluster.image.topics.get(self._topic) is None:
            await self.create_topic()
        topic = self._cluster.image.topics.get(self._topic)
        if topic is None:
            raise CoordinatorNotAvailable(f"there is no {self._topic}")
        return TopicPartition(self._topic, partition_for(key, len(topic.partitions)))

    async def create_topic(self) -> None:
        """Make the topic, unless it exists; raise CoordinatorNotAvailable if it cannot be made."""
        async with self._creating:
            if self._topic in self._cluster.image.topics:
                return
            wanted = self._owner.new_topic(len(self._cluster.image.brokers))
            try:
                (made,) = await self._controller.create_topics([wanted])
            except KafkaError as error:  # no controller, for the moment
                made = error
        if isinstance(made, KafkaError) and not isinstance(made, TopicAlreadyExists):
            logger.error("%s cannot be created: %s", self._topic, made)
            raise CoordinatorNotAvailable(f"{self._topic} cannot be created: {made}")
        # Nothing is in them yet: this saves the first client a retry.
        loading = [shard.loading for shard in self._shards.values() if shard.loading is not None]
        if loading:
            await asyncio.wait(loading)  # who stops waiting does not stop them

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Take over a new cluster image."""
        if old.topics is new.topics and old.acls is new.acls:
            return
        self._owner.image_changed(old, new)
        if old.topics.get(self._topic) is not new.topics.get(self._topic):
            self._lead(new)

    def _lead(self, image: ClusterImage) -> None:
        """Load and unload partitions, so that they are those that this broker leads."""
        topic = image.topics.get(self._topic)
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
                self._start_loading(index, since)

    def _start_loading(self, index: int, since: tuple[UUID, int]) -> None:
        try:
            partition = self._partitions.get(self._topic, index)
        except KafkaError as error:
            logger.warning("%s-%d cannot be loaded yet: %s", self._topic, index, error)
            self._retry_later()
            return
        shard = Shard(index, since, partition, self._owner.open_shard(index, partition))
        self._shards[index] = shard
        name = f"load {self._topic}-{index}"
        shard.loading = asyncio.get_running_loop().create_task(self._load(index, shard), name=name)

    def _retry_later(self) -> None:
        """Look again in a while: a broker without its session leads nothing, until it has another one."""
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(LEAD_AGAIN_S, self._retry)

    def _retry(self) -> None:
        self._later = None
        self._lead(self._cluster.image)

    async def _load(self, index: int, shard: Shard[M]) -> None:
        try:
            async with self._loads:
                start_ms = self._clock.mono_ms()
                await shard.runtime.load()
            loaded = self._owner.loaded(shard)
        except Exception:
            logger.exception("%s-%d cannot be loaded", self._topic, index)
            await asyncio.sleep(RETRY_S)
            self._unload(index)
            self._start_loading(index, shard.since)
            return
        shard.loading = None
        if loaded:
            took_ms = self._clock.mono_ms() - start_ms
            logger.info("%s-%d: %s loaded in %d ms", self._topic, index, loaded, took_ms)

    def _unload(self, index: int) -> None:
        shard = self._shards.pop(index)
        if shard.loading is not None and shard.loading is not asyncio.current_task():
            shard.loading.cancel()
        shard.runtime.unload()
        self._owner.unloaded(shard)
