"""What partitions remember of the producers that wrote to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kio.schema.describe_producers.v0 import DescribeProducersRequest, DescribeProducersResponse
from kio.schema.describe_producers.v0.request import TopicRequest

from ottla.client.cluster import Cluster
from ottla.client.errors import raise_for
from ottla.common.ids import TopicPartition
from ottla.protocol.types import TopicName, i32


@dataclass(frozen=True, slots=True)
class PartitionProducer:
    """A producer of a partition; `transaction_start` is None unless it has a transaction open there."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int | None


async def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, list[PartitionProducer]]:
    """Return the producers that the leaders of partitions remember."""
    found = {}
    for partition in partitions:

        async def ask(partition: TopicPartition = partition) -> list[PartitionProducer]:
            return await _ask(cluster, partition)

        found[partition] = await cluster.retrying(ask)
    return found


async def _ask(cluster: Cluster, partition: TopicPartition) -> list[PartitionProducer]:
    wanted = TopicRequest(name=TopicName(partition.topic), partition_indexes=(i32(partition.partition),))
    connection = await cluster.broker(await cluster.leader(partition))
    request = DescribeProducersRequest(topics=(wanted,))
    response = await connection.request(request, DescribeProducersResponse)
    result = response.topics[0].partitions[0]
    if result.error_code:
        cluster.forget(partition.topic)
    raise_for(result.error_code, result.error_message or str(partition))
    return [
        PartitionProducer(
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
        )
        for each in result.active_producers
    ]
