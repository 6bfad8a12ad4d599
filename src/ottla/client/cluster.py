"""The cluster as a client sees it: brokers, topics, who leads what, one connection to each.

A `Cluster` starts from the addresses the user gave, asks any of them for metadata, and from then
on talks to brokers at the addresses that they advertise. What it knows may be stale at any time:
callers that are told so by a broker (NotLeaderOrFollower and the like) ask again, and `retrying`
does that for them with a growing pause.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12 import MetadataRequest, MetadataResponse
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponseTopic

from ottla.client.address import Address
from ottla.client.connection import DEFAULT_TIMEOUT_MS, Connection
from ottla.client.errors import BrokerUnreachable, ClientError, ConnectionLost, NoLeader, raise_for
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError, LeaderNotAvailable
from ottla.protocol.types import TopicName

RETRY_MIN_MS = 50
RETRY_MAX_MS = 1_000
CREATION_TIMEOUT_MS = 3_000

TRANSIENT = frozenset(
    {
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.replica_not_available,
        ErrorCode.broker_not_available,
        ErrorCode.not_controller,
        ErrorCode.network_exception,
        ErrorCode.offset_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
    }
)
"""Errors that pass by themselves, once the client has fresh metadata."""

_UNKNOWN = frozenset({ErrorCode.unknown_topic_or_partition})

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker and the address that it advertises."""

    node_id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition: who leads it, who follows; `leader` is -1 if nobody leads it now."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic and its partitions, by index."""

    name: str
    topic_id: uuid.UUID | None
    is_internal: bool
    partitions: dict[int, PartitionInfo] = field(default_factory=dict)

    @property
    def replication_factor(self) -> int:
        """The number of replicas of its partitions (of the first one, should they differ)."""
        return len(self.partitions[min(self.partitions)].replicas) if self.partitions else 0


class Cluster:
    """Metadata and connections; use it as `async with Cluster(addresses) as cluster`."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        client_id: str = "ottla",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        self.bootstrap = tuple(bootstrap)
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, Broker] = {}
        self.timeout_ms = timeout_ms
        self._client_id = client_id
        self._topics: dict[str, TopicInfo] = {}
        self._connections: dict[Address, Connection] = {}
        self._opening: dict[Address, asyncio.Lock] = {}

    async def __aenter__(self) -> Self:
        await self.refresh([])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; return when what was written has left."""
        connections = list(self._connections.values())
        self._connections.clear()
        for connection in connections:
            connection.close()
        await asyncio.gather(*(connection.wait_closed() for connection in connections))

    async def any_broker(self) -> Connection:
        """Return a connection to whichever broker answers: one that is open, known, or given by the user."""
        for connection in self._connections.values():
            if connection.is_open:
                return connection
        known = dict.fromkeys([*self.bootstrap, *(broker.address for broker in self.brokers.values())])
        failures: list[BrokerUnreachable] = []
        for address in known:
            try:
                return await self._connect(address)
            except BrokerUnreachable as failure:
                failures.append(failure)
        reasons = dict.fromkeys(failure.reason for failure in failures)
        raise BrokerUnreachable(tuple(known), "; ".join(reasons))

    async def broker(self, node_id: int) -> Connection:
        """Return a connection to one broker."""
        if node_id not in self.brokers:
            await self.refresh([])
        if node_id not in self.brokers:
            raise NoLeader(f"broker {node_id} is not in the cluster now")
        address = self.brokers[node_id].address
        try:
            return await self._connect(address)
        except BrokerUnreachable as failure:
            if address in self.bootstrap:
                raise
            raise BrokerUnreachable([address], failure.reason, advertised_by=f"broker {node_id}") from None

    async def controller(self) -> Connection:
        """Return a connection to the broker that changes topics and configs."""
        if self.controller_id in self.brokers:
            return await self.broker(self.controller_id)
        return await self.any_broker()

    async def refresh(self, topics: Iterable[str] | None, *, create: bool = False) -> dict[str, TopicInfo]:
        """Ask for the metadata of `topics` (None: all) and return it by name.

        Raises the error of the first topic that has one. With `create`, the broker may create the
        topics that it does not know, if its configuration says so.
        """
        wanted = None if topics is None else tuple(_by_name(name) for name in topics)
        request = MetadataRequest(
            topics=wanted, allow_auto_topic_creation=create, include_topic_authorized_operations=False
        )
        connection = await self.any_broker()
        response = await connection.request(request, MetadataResponse, timeout_ms=self.timeout_ms)
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            each.node_id: Broker(each.node_id, Address(each.host, each.port), each.rack)
            for each in response.brokers
        }
        for each in response.topics:
            self._topics.pop(each.name or "", None)
        found = {topic.name: topic for topic in map(_topic_info, response.topics)}
        self._topics.update(found)
        return found

    async def topic(self, name: str, *, create: bool = False) -> TopicInfo:
        """Return what is known of a topic; ask if nothing is.

        With `create`, a broker that is willing creates it: it answers that it does not know the
        topic first, so that answer is believed only after a while.
        """
        if name not in self._topics:
            await self.retrying(
                lambda: self.refresh([name], create=create),
                also=_UNKNOWN if create else frozenset(),
                timeout_ms=CREATION_TIMEOUT_MS if create else None,
            )
        return self._topics[name]

    def forget(self, name: str) -> None:
        """Drop what is known of a topic: a broker said that it is stale."""
        self._topics.pop(name, None)

    async def leader(self, partition: TopicPartition) -> int:
        """Return the node id of the partition's leader; raise LeaderNotAvailable if it has none now."""
        info = (await self.topic(partition.topic)).partitions.get(partition.partition)
        if info is None or info.leader < 0:
            self.forget(partition.topic)
            raise LeaderNotAvailable(f"{partition} has no leader now")
        return info.leader

    async def retrying(
        self,
        attempt: Callable[[], Awaitable[Result]],
        *,
        also: frozenset[ErrorCode] = frozenset(),
        patient: bool = False,
        timeout_ms: int | None = None,
    ) -> Result:
        """Return what `attempt` returns; repeat it while it fails in ways that pass by themselves.

        `also` names further error codes worth waiting for; `patient` waits for brokers to come back.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self.timeout_ms if timeout_ms is None else timeout_ms) / 1000
        pause_ms = RETRY_MIN_MS
        while True:
            try:
                return await attempt()
            except (KafkaError, ClientError) as error:
                if not _passes(error, also, patient) or loop.time() + pause_ms / 1000 > deadline:
                    raise
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, RETRY_MAX_MS)

    async def _connect(self, address: Address) -> Connection:
        async with self._opening.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or not connection.is_open:
                connection = await Connection.open(address, client_id=self._client_id)
                self._connections[address] = connection
            return connection


def _passes(error: KafkaError | ClientError, also: frozenset[ErrorCode], patient: bool) -> bool:
    if isinstance(error, KafkaError):
        return error.code in TRANSIENT or error.code in also
    return isinstance(error, ConnectionLost) or (patient and isinstance(error, BrokerUnreachable | NoLeader))


def _by_name(name: str) -> MetadataRequestTopic:
    return MetadataRequestTopic(topic_id=None, name=TopicName(name))


def _topic_info(topic: MetadataResponseTopic) -> TopicInfo:
    raise_for(topic.error_code, topic.name)
    partitions = {
        int(each.partition_index): PartitionInfo(
            index=each.partition_index,
            leader=each.leader_id,
            leader_epoch=each.leader_epoch,
            replicas=tuple(each.replica_nodes),
            isr=tuple(each.isr_nodes),
            offline=tuple(each.offline_replicas),
        )
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    }
    return TopicInfo(topic.name or "", topic.topic_id, topic.is_internal, partitions)
