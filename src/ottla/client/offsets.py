"""Where partitions start and end, and which offset belongs to a time (the ListOffsets API)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kio.schema.list_offsets.v7 import ListOffsetsRequest, ListOffsetsResponse
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsTopic

from ottla.client.cluster import Cluster
from ottla.client.errors import raise_for
from ottla.common.ids import TopicPartition
from ottla.protocol.types import BrokerId, TopicName, i8, i32, i64

LATEST = -1
EARLIEST = -2


class OffsetAndTime(NamedTuple):
    """An offset and the timestamp of its record (-1 where the question was not about a time)."""

    offset: int
    timestamp: int


async def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetAndTime]:
    """Return, for each partition, the offset that its timestamp asks for.

    The timestamp is EARLIEST, LATEST, or milliseconds: then the answer is the first record at or
    after it, or offset -1 if there is none.
    """

    async def attempt() -> dict[TopicPartition, OffsetAndTime]:
        found: dict[TopicPartition, OffsetAndTime] = {}
        for node_id, partitions in (await by_leader(cluster, wanted)).items():
            found.update(await _ask(cluster, node_id, {each: wanted[each] for each in partitions}))
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


async def _ask(
    cluster: Cluster, node_id: int, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetAndTime]:
    topics: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for partition, timestamp in wanted.items():
        topics[partition.topic].append(
            ListOffsetsPartition(partition_index=i32(partition.partition), timestamp=i64(timestamp))
        )
    request = ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(0),
        topics=tuple(
            ListOffsetsTopic(name=TopicName(name), partitions=tuple(each)) for name, each in topics.items()
        ),
    )
    connection = await cluster.broker(node_id)
    response = await connection.request(request, ListOffsetsResponse, timeout_ms=cluster.timeout_ms)
    found = {}
    for topic in response.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            if each.error_code:
                cluster.forget(topic.name)
            raise_for(each.error_code, str(partition))
            found[partition] = OffsetAndTime(each.offset, each.timestamp)
    return found
