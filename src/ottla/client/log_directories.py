"""What brokers keep on their disks, and which replicas may lead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kio.schema.describe_log_dirs.v4 import DescribeLogDirsRequest, DescribeLogDirsResponse
from kio.schema.describe_topic_partitions.v0 import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kio.schema.describe_topic_partitions.v0.request import Cursor, TopicRequest

from ottla.client.cluster import Cluster
from ottla.client.errors import error_for, raise_for
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import TopicName


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
        lambda: _describe_log_dirs(cluster, wanted), what="the log directories were not told"
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


async def describe_partitions(
    cluster: Cluster, topics: Sequence[str]
) -> dict[TopicPartition, PartitionDescription]:
    """Return the partitions of topics, with all that the controller knows of their replicas."""
    return await cluster.retrying(
        lambda: _describe_partitions(cluster, topics), what="the partitions were not told"
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
