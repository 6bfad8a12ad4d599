"""Deleting the oldest records of partitions."""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.delete_records.v2 import DeleteRecordsRequest, DeleteRecordsResponse
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic

from ottla.client.cluster import Cluster
from ottla.client.errors import raise_for
from ottla.client.offsets import by_leader
from ottla.common.ids import TopicPartition
from ottla.protocol.types import TopicName, i32, i64


async def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Delete the records before these offsets (-1: all that are committed); return where each starts now.

    Doing it twice does no harm, so it is repeated while leaders move.
    """
    starts: dict[TopicPartition, int] = {}

    async def attempt() -> dict[TopicPartition, int]:
        left = [each for each in before if each not in starts]
        for node_id, partitions in (await by_leader(cluster, left)).items():
            connection = await cluster.broker(node_id)
            request = _request(cluster, {each: before[each] for each in partitions})
            response = await connection.request(request, DeleteRecordsResponse)
            for topic in response.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    if each.error_code:
                        cluster.forget(topic.name)
                    raise_for(each.error_code, str(partition))
                    starts[partition] = each.low_watermark
        return starts

    return await cluster.retrying(attempt)


def _request(cluster: Cluster, before: Mapping[TopicPartition, int]) -> DeleteRecordsRequest:
    topics: dict[str, list[DeleteRecordsPartition]] = {}
    for (topic, index), offset in before.items():
        topics.setdefault(topic, []).append(
            DeleteRecordsPartition(partition_index=i32(index), offset=i64(offset))
        )
    return DeleteRecordsRequest(
        topics=tuple(
            DeleteRecordsTopic(name=TopicName(name), partitions=tuple(each)) for name, each in topics.items()
        ),
        timeout=cluster.broker_timeout,
    )
