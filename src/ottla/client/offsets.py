"""Where partitions start and end, and which offset belongs to a time or to a leader epoch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kio.schema.list_offsets.v8 import ListOffsetsRequest, ListOffsetsResponse
from kio.schema.list_offsets.v8.request import ListOffsetsPartition, ListOffsetsTopic
from kio.schema.offset_for_leader_epoch.v4 import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderPartition, OffsetForLeaderTopic

from ottla.client.cluster import Cluster
from ottla.client.errors import error_for
from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import BrokerId, TopicName, i8, i32, i64
from ottla.wire.connection import Connection

LATEST = -1
EARLIEST = -2
EARLIEST_LOCAL = -4
"""The first offset that the leader has in its own log; what is before it is in tiered storage."""
_LOCAL_FROM = 8


class OffsetAndTime(NamedTuple):
    """An offset and the timestamp of its record (-1 where the question was not about a time)."""

    offset: int
    timestamp: int


class EpochEnd(NamedTuple):
    """The largest epoch, not above the one that was asked about, and where it ends in a leader's log."""

    leader_epoch: int
    end_offset: int

    @property
    def is_known(self) -> bool:
        """Whether the leader knows of an epoch as old as that."""
        return self.leader_epoch >= 0 and self.end_offset >= 0


async def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, isolation_level: int = 0
) -> dict[TopicPartition, OffsetAndTime]:
    """Return, for each partition, the offset that its timestamp asks for.

    The timestamp is EARLIEST, EARLIEST_LOCAL, LATEST, or milliseconds: then the answer is the first
    record at or after it, or offset -1 if there is none. With isolation level 1, records of open
    transactions and what comes after them are not there yet.
    """

    async def attempt() -> dict[TopicPartition, OffsetAndTime]:
        found: dict[TopicPartition, OffsetAndTime] = {}
        for node_id, partitions in (await by_leader(cluster, wanted)).items():
            connection = await cluster.broker(node_id)
            asked = {each: (wanted[each], -1) for each in partitions}
            answers = await ask_offsets(
                connection, asked, isolation_level, cluster.options.request_timeout_ms
            )
            for partition, answer in answers.items():
                if isinstance(answer, KafkaError):
                    cluster.forget(partition.topic)
                    raise answer
                found[partition] = answer
        return found

    return await cluster.retrying(attempt)


async def offset_ranges(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    """Return the first offset and the end offset (next to be written) of each partition."""
    wanted = list(partitions)
    starts = await list_offsets(cluster, dict.fromkeys(wanted, EARLIEST))
    ends = await list_offsets(cluster, dict.fromkeys(wanted, LATEST))
    return {each: (starts[each].offset, ends[each].offset) for each in wanted}


async def by_leader(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[int, list[TopicPartition]]:
    """Group partitions by the broker that leads them."""
    groups: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition in partitions:
        groups[await cluster.leader(partition)].append(partition)
    return groups


async def ask_offsets(
    connection: Connection,
    wanted: Mapping[TopicPartition, tuple[int, int]],
    isolation_level: int,
    timeout_ms: float,
) -> dict[TopicPartition, OffsetAndTime | KafkaError]:
    """Ask the leader of partitions for the offsets of times; each with the leader epoch we know, or -1."""
    knows_tiers = connection.version_of(ApiKey.LIST_OFFSETS, _LOCAL_FROM) >= _LOCAL_FROM
    topics: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for partition, (timestamp, epoch) in wanted.items():
        if timestamp == EARLIEST_LOCAL and not knows_tiers:
            timestamp = EARLIEST
        topics[partition.topic].append(
            ListOffsetsPartition(
                partition_index=i32(partition.partition),
                timestamp=i64(timestamp),
                current_leader_epoch=i32(epoch),
            )
        )
    request = ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(isolation_level),
        topics=tuple(
            ListOffsetsTopic(name=TopicName(name), partitions=tuple(each)) for name, each in topics.items()
        ),
    )
    response = await connection.request(request, ListOffsetsResponse, timeout_ms=timeout_ms)
    found: dict[TopicPartition, OffsetAndTime | KafkaError] = {}
    for topic in response.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            if each.error_code:
                found[partition] = error_for(each.error_code, str(partition))
            else:
                found[partition] = OffsetAndTime(each.offset, each.timestamp)
    return found


async def ask_epoch_ends(
    connection: Connection, wanted: Mapping[TopicPartition, tuple[int, int]], timeout_ms: float
) -> dict[TopicPartition, EpochEnd | KafkaError]:
    """Ask the leader of partitions where epochs end; each as (the leader epoch we know, the epoch)."""
    topics: dict[str, list[OffsetForLeaderPartition]] = defaultdict(list)
    for partition, (current, epoch) in wanted.items():
        topics[partition.topic].append(
            OffsetForLeaderPartition(
                partition=i32(partition.partition),
                current_leader_epoch=i32(current),
                leader_epoch=i32(epoch),
            )
        )
    request = OffsetForLeaderEpochRequest(
        replica_id=BrokerId(-1),
        topics=tuple(
            OffsetForLeaderTopic(topic=TopicName(name), partitions=tuple(each))
            for name, each in topics.items()
        ),
    )
    response = await connection.request(request, OffsetForLeaderEpochResponse, timeout_ms=timeout_ms)
    found: dict[TopicPartition, EpochEnd | KafkaError] = {}
    for topic in response.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.topic, each.partition)
            if each.error_code:
                found[partition] = error_for(each.error_code, str(partition))
            else:
                found[partition] = EpochEnd(each.leader_epoch, each.end_offset)
    return found
