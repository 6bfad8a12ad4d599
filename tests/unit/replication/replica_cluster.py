"""Brokers reduced to replication, in virtual time: real logs, registries, fetchers and the Fetch handler.

What is pretended: the network (a call, which can be cut), and the controller (changes one shared image).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, TypeVar, cast
from uuid import UUID

from tests.waiting import until as until

from ottla.api.fetch import fetch
from ottla.api.support.context import RequestContext
from ottla.api.support.fetch_sessions import FetchSessions
from ottla.common.config.broker import BrokerConfig
from ottla.common.file_range import FileRange
from ottla.common.ids import new_uuid
from ottla.log.directories.flusher import Flusher
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.log_config import LogConfig
from ottla.metadata.entities import IsrChange, PartitionImage, partition_changed
from ottla.metadata.image import EMPTY
from ottla.metadata.records import (
    BrokerRegistered,
    ConfigChanged,
    ConfigResource,
    MetadataRecord,
    PartitionCreated,
    TopicCreated,
)
from ottla.metadata.state import ClusterState
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import FencedLeaderEpoch, InvalidUpdateVersion, KafkaError, NetworkException
from ottla.protocol.records.batch import check_batch
from ottla.protocol.records.records import Record, encode_batch
from ottla.replication.partition import Partition
from ottla.replication.purgatory import Purgatory
from ottla.replication.registry import PartitionRegistry
from ottla.replication.replicator import Replicator
from ottla.testing.simulation.disk import SimDisk
from ottla.testing.simulation.loop import SimClock, SimLoop

T = TypeVar("T")

TOPIC = "orders"
DEADLINE_S = 20.0
RESPONSE_BODY_AT = 5


def run(scenario: Coroutine[Any, Any, T], seed: int = 1) -> T:
    """Run a scenario in virtual time."""
    loop = SimLoop(seed)
    try:
        result = loop.run(scenario)
        assert loop.problems == []
        return result
    finally:
        loop.close()


@dataclass(eq=False)
class Link:
    """A connection, as handlers see it."""

    peer: str
    host: str = ""
    listener_name: str = "PLAINTEXT"
    software: str = ""
    has_fetched: bool = False
    has_queued_request: bool = False
    principal: str = "User:ANONYMOUS"
    sasl: None = None


class Node:
    """One broker."""

    def __init__(self, cluster: Cluster, node_id: int, settings: dict[str, str]) -> None:
        loop = cast(SimLoop, asyncio.get_running_loop())
        self.node_id = node_id
        self.cluster = cluster
        self.clock = SimClock(loop)
        self.config = BrokerConfig(
            {
                "node.id": str(node_id),
                "broker.rack": f"rack-{node_id}",
                "replica.lag.time.max.ms": "1000",
                "replica.fetch.wait.max.ms": "100",
                "replica.fetch.backoff.ms": "100",
                **settings,
            }
        )
        self.disk = SimDisk()
        self.state = ClusterState()
        self.broker_epoch = 10 * node_id
        self._closed: dict[int, asyncio.Future[None]] = {}
        self.is_up = False

    async def start(self) -> None:
        """Open the logs, follow the image."""
        self.flusher = Flusher()
        await self.flusher.__aenter__()
        only = LogDirectory("/data", self.disk, self.clock, node_id=self.node_id, cluster_id="cluster")
        self.directory = LogDirectories([only], self.clock)
        self.directory.open(lambda _topic: LogConfig())
        self.replicator = Replicator(
            self.node_id,
            cast(Any, self),
            self,
            self.state,
            self.directory,
            self.flusher,
            lambda: self.config,
            self.clock,
        )
        self.registry = PartitionRegistry(
            self.node_id, self.directory, self.flusher, self.config, self.clock, self.replicator
        )
        self.services = SimpleNamespace(
            node_id=self.node_id,
            clock=self.clock,
            cluster=self.state,
            config=self.config,
            partitions=self.registry,
            purgatory=Purgatory(),
            fetch_sessions=FetchSessions(100, self.clock),
            quotas=None,
            replicator=self.replicator,
            authorizer=None,
            audit=None,
        )
        self.is_up = True
        self.state.image = EMPTY
        await self.replicator.start()
        await self.follow()

    async def follow(self) -> None:
        """Take over the newest image."""
        old, new = self.state.image, self.cluster.image
        self.state.image = new
        await self.registry.apply(old, new)

    async def stop(self, *, kill: bool = False) -> None:
        """Stop, as by kill -9 if so asked."""
        self.is_up = False
        await self.replicator.stop()
        self.services.purgatory.stop()
        await self.flusher.stop()
        if kill:
            self.disk.kill()
        else:
            self.directory.close(
                high_watermarks={each.topic_partition: each.high_watermark for each in self.registry}
            )

    # As Peers

    async def exchange(
        self, node_id: int, api_key: int, version: int, body: bytes, *, timeout_ms: int, channel: str
    ) -> tuple[memoryview, int]:
        """Call another node's Fetch."""
        assert api_key == ApiKey.FETCH
        await asyncio.sleep(0.001)
        target = self.cluster.nodes[node_id]
        if not target.is_up or (self.node_id, node_id) in self.cluster.cut:
            raise NetworkException(f"broker {node_id} cannot be reached")
        self.cluster.fetches.append((self.node_id, node_id, body))
        link = Link(f"broker-{self.node_id}")
        ctx = RequestContext(cast(Any, target.services), link, api_key, version, 7, None)
        reply = fetch(memoryview(body), 0, ctx)
        pieces = reply if isinstance(reply, list) else await self._unless_closed(node_id, cast(Any, reply))
        data = b"".join(each.read() if isinstance(each, FileRange) else each for each in pieces)
        await asyncio.sleep(0.001)
        if not target.is_up or (node_id, self.node_id) in self.cluster.cut:
            raise NetworkException(f"broker {node_id} is gone")
        return memoryview(data)[4:], RESPONSE_BODY_AT

    async def _unless_closed(self, node_id: int, reply: asyncio.Future[list[bytes]]) -> list[bytes]:
        closed = self._closed[node_id] = asyncio.get_running_loop().create_future()
        await asyncio.wait([reply, closed], return_when=asyncio.FIRST_COMPLETED)
        if closed.done():
            reply.cancel()
            raise NetworkException("closed")
        return reply.result()

    def close(self, node_id: int, channel: str, reason: str) -> None:
        """Abort the fetch in flight, as when a connection is closed."""
        closed = self._closed.pop(node_id, None)
        if closed is not None:
            closed.set_result(None)

    # As the controller

    async def alter_partitions(self, changes: Sequence[IsrChange]) -> list[PartitionImage | KafkaError]:
        """Ask the pretended controller."""
        return await self.cluster.alter_partitions(self.node_id, changes)


class Cluster:
    """Some nodes and one image."""

    def __init__(self, **settings: str) -> None:
        raw = {key.replace("_", "."): value for key, value in settings.items()}
        self.image = EMPTY
        self.nodes = {node_id: Node(self, node_id, raw) for node_id in (1, 2, 3)}
        self.cut: set[tuple[int, int]] = set()
        """Links that carry nothing: (from, to)."""
        self.fetches: list[tuple[int, int, bytes]] = []
        self.changes: list[IsrChange] = []
        self.refuse: KafkaError | None = None
        """What the controller says to every proposal."""
        self.lose_answers = False
        """Whether proposals come true, and nobody hears of it."""

    async def __aenter__(self) -> Cluster:
        for node in self.nodes.values():
            self.image = self.image.apply([self._registered(node)])
        for node in self.nodes.values():
            await node.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self.nodes.values():
            if node.is_up:
                await node.stop()

    def _registered(self, node: Node) -> BrokerRegistered:
        return BrokerRegistered(node.node_id, node.broker_epoch, node.config.broker_rack, ())

    async def create(self, *replicas: int, name: str = TOPIC, **configs: str) -> UUID:
        """Create a topic with one partition, led by the first of `replicas`."""
        topic_id = new_uuid()
        await self.change(
            TopicCreated(name, topic_id),
            PartitionCreated(topic_id, 0, replicas[0], 0, replicas, replicas),
            *(
                ConfigChanged(ConfigResource.TOPIC, name, key.replace("_", "."), value)
                for key, value in configs.items()
            ),
        )
        return topic_id

    async def change(self, *records: MetadataRecord, told: Sequence[int] | None = None) -> None:
        """Change the image, and let the nodes that are up (or those `told`) follow."""
        self.image = self.image.apply(records)
        for node in self.nodes.values():
            if node.is_up and (told is None or node.node_id in told):
                await node.follow()

    async def alter(self, told: Sequence[int] | None = None, **fields: Any) -> None:
        """Change fields of the partition's image; its partition epoch grows."""
        topic = self.image.topics[TOPIC]
        (old,) = topic.partitions
        new = replace(old, partition_epoch=old.partition_epoch + 1, **fields)
        await self.change(partition_changed(topic.topic_id, new), told=told)

    async def elect(self, leader: int, isr: Sequence[int], told: Sequence[int] | None = None) -> None:
        """Make another broker the leader, in a new epoch."""
        await self.alter(
            told, leader=leader, leader_epoch=self.partition_image.leader_epoch + 1, isr=tuple(isr)
        )

    async def alter_partitions(
        self, node_id: int, changes: Sequence[IsrChange]
    ) -> list[PartitionImage | KafkaError]:
        """Decide on proposals as the controller does."""
        await asyncio.sleep(0.002)
        answers: list[PartitionImage | KafkaError] = []
        for change in changes:
            self.changes.append(change)
            now = self.partition_image
            if self.refuse is not None:
                answers.append(self.refuse)
            elif change.leader_epoch != now.leader_epoch or now.leader != node_id:
                answers.append(FencedLeaderEpoch("another leader"))
            elif change.partition_epoch != now.partition_epoch:
                answers.append(InvalidUpdateVersion("another epoch"))
            else:
                told: list[int] | None = [] if self.lose_answers else None
                await self.alter(told, isr=tuple(each for each, _ in change.new_isr))
                answers.append(self.partition_image)
        if self.lose_answers:
            raise NetworkException("the answer was lost")
        return answers

    @property
    def partition_image(self) -> PartitionImage:
        """The one partition, as the controller sees it."""
        return self.image.topics[TOPIC].partitions[0]

    def partition(self, node_id: int) -> Partition:
        """One node's replica."""
        return self.nodes[node_id].registry.get_replica(TOPIC, 0)

    def ends(self) -> list[int]:
        """Return the log end of every replica that is up."""
        return [
            self.partition(each).log.log_end_offset
            for each in self.partition_image.replicas
            if self.nodes[each].is_up
        ]

    def contents(self, node_id: int) -> bytes:
        """Return all bytes of one node's log."""
        log = self.partition(node_id).log
        found = b""
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            read = log.read(offset, 1 << 20, log.log_end_offset)
            found += read.records.read() if isinstance(read.records, FileRange) else read.records
            offset = read.next_offset
        return found


def append(partition: Partition, *values: bytes) -> int:
    """Append one batch; return the offset after it."""
    batch = memoryview(encode_batch([Record(i, 0, b"key", value) for i, value in enumerate(values)]))
    return partition.append(batch, check_batch(batch)).last_offset + 1


async def produce(partition: Partition, *values: bytes) -> int:
    """Append one batch as acks=all does, and wait until it is committed."""
    partition.check_in_sync()
    end = append(partition, *values)
    committed = partition.when_committed(end)
    if committed is not None:
        await committed
    return end
