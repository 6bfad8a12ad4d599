"""Brokers, leaders, replicas and reassignments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from kio.schema.alter_partition_reassignments.v1 import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kio.schema.alter_partition_reassignments.v1.request import ReassignablePartition, ReassignableTopic
from kio.schema.alter_replica_log_dirs.v2 import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDir, AlterReplicaLogDirTopic
from kio.schema.describe_cluster.v2 import DescribeClusterRequest, DescribeClusterResponse
from kio.schema.describe_log_dirs.v4 import DescribeLogDirsRequest, DescribeLogDirsResponse
from kio.schema.describe_log_dirs.v4.request import DescribableLogDirTopic
from kio.schema.describe_topic_partitions.v0 import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kio.schema.describe_topic_partitions.v0.request import Cursor, TopicRequest
from kio.schema.elect_leaders.v2 import ElectLeadersRequest, ElectLeadersResponse
from kio.schema.elect_leaders.v2.request import TopicPartitions
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0 import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kio.schema.unregister_broker.v0 import UnregisterBrokerRequest, UnregisterBrokerResponse

from ottla.client.cluster import Cluster, PartitionInfo, TopicInfo
from ottla.client.errors import ConnectionLost, error_for, raise_for
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import ERRORS, KafkaError, UnknownServerError
from ottla.protocol.types import BrokerId, TopicName, i8, i32
from ottla.wire.address import Address


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    """A partition in a log directory: its bytes, and how far its end is behind the high watermark."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A directory of a broker; sizes of the volume are -1 where they are not known."""

    path: str
    error: KafkaError | None
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, ReplicaSize]


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition with those that may lead it though they are not in sync (KIP-966)."""

    partition: TopicPartition
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    eligible_leaders: tuple[int, ...]
    last_known_eligible: tuple[int, ...]
    offline: tuple[int, ...]


async def describe_log_dirs(
    cluster: Cluster, node_ids: Iterable[int] | None
) -> dict[int, list[LogDirectory]]:
    """Return the log directories of these brokers, or of all."""
    wanted = None if node_ids is None else list(node_ids)
    return await cluster.retrying(
        lambda: _describe_log_dirs(cluster, wanted), what="no broker described its log directories"
    )


async def _describe_log_dirs(
    cluster: Cluster, node_ids: Sequence[int] | None
) -> dict[int, list[LogDirectory]]:
    if node_ids is None:
        await cluster.refresh([])
        node_ids = sorted(cluster.brokers)
    found = {}
    for node_id in node_ids:
        connection = await cluster.broker(node_id)
        request = DescribeLogDirsRequest(topics=None)
        response = await connection.request(request, DescribeLogDirsResponse)
        raise_for(response.error_code)
        found[node_id] = [
            LogDirectory(
                each.log_dir,
                error_for(each.error_code, each.log_dir) if each.error_code else None,
                each.total_bytes,
                each.usable_bytes,
                {
                    TopicPartition(topic.name, one.partition_index): ReplicaSize(
                        one.partition_size, one.offset_lag, one.is_future_key
                    )
                    for topic in each.topics
                    for one in topic.partitions
                },
            )
            for each in response.results
        ]
    return found


async def alter_replica_log_dirs(
    cluster: Cluster, node_id: int, directories: Mapping[TopicPartition, str]
) -> dict[TopicPartition, KafkaError | None]:
    """Begin to move replicas of one broker to other directories of it; return the error of each, or None."""
    return await cluster.retrying(
        lambda: _alter_replica_log_dirs(cluster, node_id, directories), what="the replicas were not moved"
    )


async def _alter_replica_log_dirs(
    cluster: Cluster, node_id: int, directories: Mapping[TopicPartition, str]
) -> dict[TopicPartition, KafkaError | None]:
    grouped: dict[str, dict[str, list[i32]]] = {}
    for at, path in directories.items():
        grouped.setdefault(path, {}).setdefault(at.topic, []).append(i32(at.partition))
    request = AlterReplicaLogDirsRequest(
        dirs=tuple(
            AlterReplicaLogDir(
                path=path,
                topics=tuple(
                    AlterReplicaLogDirTopic(name=TopicName(name), partitions=tuple(indexes))
                    for name, indexes in topics.items()
                ),
            )
            for path, topics in grouped.items()
        )
    )
    connection = await cluster.broker(node_id)
    response = await connection.request(request, AlterReplicaLogDirsResponse)
    return {
        TopicPartition(topic.topic_name, each.partition_index): (
            error_for(each.error_code, f"{topic.topic_name}-{each.partition_index}")
            if each.error_code
            else None
        )
        for topic in response.results
        for each in topic.partitions
    }


async def describe_partitions(
    cluster: Cluster, topics: Sequence[str]
) -> dict[TopicPartition, PartitionDescription]:
    """Return the partitions of topics, with all that the controller knows of their replicas."""
    return await cluster.retrying(
        lambda: _describe_partitions(cluster, topics), what="no broker described the partitions"
    )


async def _describe_partitions(
    cluster: Cluster, topics: Sequence[str]
) -> dict[TopicPartition, PartitionDescription]:
    asked = tuple(TopicRequest(name=TopicName(each)) for each in sorted(set(topics)))
    found: dict[TopicPartition, PartitionDescription] = {}
    cursor: Cursor | None = None
    while True:
        connection = await cluster.any_broker()
        request = DescribeTopicPartitionsRequest(topics=asked, cursor=cursor)
        response = await connection.request(request, DescribeTopicPartitionsResponse)
        for topic in response.topics:
            raise_for(topic.error_code, topic.name)
            for each in topic.partitions:
                at = TopicPartition(topic.name or "", each.partition_index)
                found[at] = PartitionDescription(
                    at,
                    each.leader_id,
                    each.leader_epoch,
                    tuple(each.replica_nodes),
                    tuple(each.isr_nodes),
                    tuple(each.eligible_leader_replicas or ()),
                    tuple(each.last_known_elr or ()),
                    tuple(each.offline_replicas),
                )
        following = response.next_cursor
        if following is None:
            return found
        cursor = Cursor(topic_name=following.topic_name, partition_index=following.partition_index)


if TYPE_CHECKING:
    from kio.static.protocol import Payload

BROKERS = i8(1)

Answer = TypeVar(
    "Answer",
    AlterPartitionReassignmentsResponse,
    ElectLeadersResponse,
    ListPartitionReassignmentsResponse,
)
Outcomes = dict[TopicPartition, KafkaError | None]


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker that belongs to the cluster, alive or not."""

    node_id: int
    address: Address
    rack: str | None
    is_alive: bool


@dataclass(frozen=True, slots=True)
class MoveInfo:
    """A partition on its way: `replicas` are the old and the new ones together."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that it has in the end."""
        return tuple(each for each in self.replicas if each not in self.removing)

    @property
    def before(self) -> set[int]:
        """The replicas that it had, and has again if the move is cancelled."""
        return {*self.replicas} - {*self.adding}


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster at one moment."""

    cluster_id: str
    controller_id: int
    brokers: dict[int, BrokerInfo]
    topics: dict[str, TopicInfo]
    moves: dict[TopicPartition, MoveInfo] = field(default_factory=dict)

    @property
    def partitions(self) -> dict[TopicPartition, PartitionInfo]:
        """Every partition of every topic."""
        return {
            TopicPartition(topic.name, index): each
            for topic in self.topics.values()
            for index, each in topic.partitions.items()
        }

    @property
    def alive(self) -> list[int]:
        """The brokers that are alive."""
        return sorted(each.node_id for each in self.brokers.values() if each.is_alive)

    def target(self, at: TopicPartition) -> tuple[int, ...]:
        """Return the replicas that a partition has when nothing is on its way any more."""
        move = self.moves.get(at)
        return self.topics[at.topic].partitions[at.partition].replicas if move is None else move.target


class ClusterAdmin:
    """Asks the cluster about its brokers and for changes to who holds and leads what."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def describe(self, *, without_controller: bool = False) -> ClusterInfo:
        """Return the brokers, the partitions and the ongoing reassignments.

        `without_controller`: from any broker that answers, as it knows them; the controller may be dying.
        """
        return await self.cluster.retrying(
            lambda: self._describe(without_controller), what="the cluster was not described"
        )

    async def _describe(self, without_controller: bool) -> ClusterInfo:
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, endpoint_type=BROKERS, include_fenced_brokers=True
        )
        connection = await self.cluster.any_broker()
        response = await connection.request(request, DescribeClusterResponse)
        raise_for(response.error_code, response.error_message)
        topics = await self.cluster.refresh(None)
        brokers = {
            int(each.broker_id): BrokerInfo(
                each.broker_id, Address(each.host, each.port), each.rack, not each.is_fenced
            )
            for each in sorted(response.brokers, key=lambda each: each.broker_id)
        }
        return ClusterInfo(
            response.cluster_id,
            response.controller_id,
            brokers,
            dict(sorted(topics.items())),
            await self.moves(without_controller=without_controller),
        )

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None, *, unclean: bool = False
    ) -> Outcomes:
        """Elect preferred leaders (None: of all partitions); with `unclean`, any replica if there is none."""
        wanted = None
        if partitions is not None:
            wanted = tuple(
                TopicPartitions(topic=TopicName(topic), partitions=tuple(i32(each) for each in indexes))
                for topic, indexes in _by_topic(partitions).items()
            )
        request = ElectLeadersRequest(
            election_type=i8(1 if unclean else 0),
            topic_partitions=wanted,
            timeout=self.cluster.broker_timeout,
        )
        response = await self._ask_controller(request, ElectLeadersResponse, "the leaders were not elected")
        return {
            TopicPartition(topic.topic, each.partition_id): _error(each.error_code, each.error_message)
            for topic in response.replica_election_results
            for each in topic.partition_result
        }

    async def reassign(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> Outcomes:
        """Start to reassign partitions to these brokers; None cancels it."""
        topics: dict[str, list[ReassignablePartition]] = {}
        for at, target in targets.items():
            brokers = None if target is None else tuple(BrokerId(each) for each in target)
            topics.setdefault(at.topic, []).append(
                ReassignablePartition(partition_index=i32(at.partition), replicas=brokers)
            )
        request = AlterPartitionReassignmentsRequest(
            timeout=self.cluster.broker_timeout,
            topics=tuple(
                ReassignableTopic(name=TopicName(name), partitions=tuple(each))
                for name, each in topics.items()
            ),
        )
        response = await self._ask_controller(
            request, AlterPartitionReassignmentsResponse, "the partitions were not reassigned"
        )
        return {
            TopicPartition(topic.name, each.partition_index): _error(each.error_code, each.error_message)
            for topic in response.responses
            for each in topic.partitions
        }

    async def moves(self, *, without_controller: bool = False) -> dict[TopicPartition, MoveInfo]:
        """Return the ongoing reassignments; `without_controller`: as any broker knows them."""
        request = ListPartitionReassignmentsRequest(timeout=self.cluster.broker_timeout, topics=None)
        if without_controller:
            connection = await self.cluster.any_broker()
            response = await connection.request(request, ListPartitionReassignmentsResponse)
            raise_for(response.error_code, response.error_message)
        else:
            response = await self._ask_controller(
                request, ListPartitionReassignmentsResponse, "the reassignments could not be listed"
            )
        return {
            TopicPartition(topic.name, each.partition_index): MoveInfo(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in response.topics
            for each in topic.partitions
        }

    async def log_sizes(
        self, node_id: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return how many bytes of these partitions a broker has, of those that it holds."""
        request = DescribeLogDirsRequest(
            topics=tuple(
                DescribableLogDirTopic(
                    topic=TopicName(topic), partitions=tuple(i32(each) for each in indexes)
                )
                for topic, indexes in _by_topic(partitions).items()
            )
        )

        async def attempt() -> DescribeLogDirsResponse:
            connection = await self.cluster.broker(node_id)
            response = await connection.request(request, DescribeLogDirsResponse)
            raise_for(response.error_code)
            return response

        response = await self.cluster.retrying(attempt, what=f"broker {node_id} did not tell its log sizes")
        return {
            TopicPartition(topic.name, each.partition_index): each.partition_size
            for directory in response.results
            for topic in directory.topics
            for each in topic.partitions
        }

    async def unregister(self, node_id: int) -> None:
        """Unregister a broker that is gone for good."""
        request = UnregisterBrokerRequest(broker_id=BrokerId(node_id))
        is_lost = False

        async def attempt() -> None:
            nonlocal is_lost
            connection = await self.cluster.controller()
            try:
                response = await connection.request(request, UnregisterBrokerResponse)
            except ConnectionLost:
                is_lost = True
                raise
            if not (is_lost and response.error_code == ErrorCode.broker_id_not_registered):
                raise_for(response.error_code, response.error_message)

        await self.cluster.retrying(attempt, what=f"broker {node_id} was not unregistered")

    async def _ask_controller(self, request: Payload, response_type: type[Answer], what: str) -> Answer:
        """Return the controller's answer; repeat the request until it comes, which does no harm."""

        async def attempt() -> Answer:
            connection = await self.cluster.controller()
            response = await connection.request(request, response_type)
            raise_for(response.error_code, getattr(response, "error_message", None))
            return response

        return await self.cluster.retrying(attempt, what=what)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics


def _error(code: ErrorCode, message: str | None) -> KafkaError | None:
    if code is ErrorCode.none:
        return None
    return ERRORS.get(code, UnknownServerError)(message or code.name)
