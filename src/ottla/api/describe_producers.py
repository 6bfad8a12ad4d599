"""DescribeProducers: the producer state of partitions, including open transactions.

It finds the transaction that holds back the last stable offset: that of the producer with the lowest start
offset. Any replica answers for itself. A partition can hold the state of 10,000 producers, and a request can
name thousands of partitions: the response has at most 5,000 producers, those with open transactions first.
"""

from __future__ import annotations

from kio.schema.describe_producers.v0 import DescribeProducersRequest, DescribeProducersResponse
from kio.schema.describe_producers.v0.response import PartitionResponse, ProducerState, TopicResponse
from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import refusal
from ottla.api.support.context import RequestContext
from ottla.common.yielding import in_slices
from ottla.log.producers.producer_state import ProducerEntry
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE, ProducerId, TopicName, i32, i64
from ottla.security.acls import ResourceType

MAX_PRODUCERS = 5000


async def describe_producers(
    request: DescribeProducersRequest, ctx: RequestContext
) -> DescribeProducersResponse:
    """Describe the producers of every requested partition, once."""
    topics = []
    room = MAX_PRODUCERS
    for name, indexes in _asked(request).items():
        partitions = []
        if (refused := refusal(ctx, ResourceType.TOPIC, name)) is not None:
            topics.append(
                TopicResponse(name=name, partitions=tuple(_failure(each, refused) for each in indexes))
            )
            continue
        async for index in in_slices(indexes):
            described = _describe(ctx, name, index, room)
            room -= len(described.active_producers)
            partitions.append(described)
        topics.append(TopicResponse(name=name, partitions=tuple(partitions)))
    return DescribeProducersResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


def _asked(request: DescribeProducersRequest) -> dict[TopicName, dict[int, None]]:
    """Return partitions by topic; naming one repeatedly does not make the response longer."""
    asked: dict[TopicName, dict[int, None]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return asked


def _describe(ctx: RequestContext, topic: str, index: int, room: int) -> PartitionResponse:
    try:
        known = list(ctx.services.partitions.get_replica(topic, index).log.producers.producers.items())
    except KafkaError as error:
        return _failure(index, error)
    if len(known) > room:
        known.sort(key=lambda each: each[1].txn_first_offset < 0)
    return PartitionResponse(
        partition_index=i32(index),
        error_code=ErrorCode.none,
        active_producers=tuple(_producer(*each) for each in known[:room]),
    )


def _failure(index: int, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(
        partition_index=i32(index), error_code=error.code, error_message=error.message, active_producers=()
    )


def _producer(producer_id: int, entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=ProducerId(producer_id),
        producer_epoch=i32(entry.epoch),
        last_sequence=i32(entry.last_sequence),
        last_timestamp=i64(entry.last_timestamp),
        coordinator_epoch=i32(entry.coordinator_epoch),
        current_txn_start_offset=i64(entry.txn_first_offset),
    )
