"""AddPartitionsToTxn: add partitions to a transaction, or ask whether they are in it.

v0 to v3 come from producers: one transaction, before the first batch for a partition is sent. v1 announces
throttling, v2 PRODUCER_FENCED; v3 is flexible. v4 and v5 come from brokers: many transactions, to be added
to or only verified (KIP-890); v5 adds for producers with `transaction.version=2`, which do not ask
themselves.

It is all or nothing: if one partition cannot be added, the others get OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from functools import partial

from kio.schema.add_partitions_to_txn.v3 import AddPartitionsToTxnRequest as RequestV3
from kio.schema.add_partitions_to_txn.v3 import AddPartitionsToTxnResponse as ResponseV3
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnTopic as TopicV3
from kio.schema.add_partitions_to_txn.v3.response import (
    AddPartitionsToTxnPartitionResult as PartitionResultV3,
)
from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnTopicResult as TopicResultV3
from kio.schema.add_partitions_to_txn.v5 import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import refusal, require
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import (
    await_reply,
    check_transactional_id,
    code_of_fenced,
    respond_later,
    try_await,
)
from ottla.common.ids import TopicPartition
from ottla.common.topic_names import PROTECTED_TOPICS, TRANSACTION_STATE_TOPIC
from ottla.common.yielding import in_slices
from ottla.coordinator.transaction.machine import Verdicts
from ottla.coordinator.transaction.transaction import Producer
from ottla.protocol.errors import (
    InvalidTopicException,
    KafkaError,
    OperationNotAttempted,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ottla.protocol.types import NO_THROTTLE, i32
from ottla.security.acls import ResourceType

FIRST_WITH_FENCED = 2


def add_partitions_to_txn(request: RequestV3, ctx: RequestContext) -> ResponseV3 | Awaitable[ResponseV3]:
    """Add partitions for a producer."""
    producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    partitions = _partitions(request.v3_and_below_topics)
    denied = refusal(ctx, ResourceType.TRANSACTIONAL_ID, request.v3_and_below_transactional_id)
    if denied is not None:
        return _response(request, ctx, dict.fromkeys(partitions, denied))
    hidden: dict[str, KafkaError] = {
        topic.name: error
        for topic in request.v3_and_below_topics
        if (error := _refusal(topic.name, ctx)) is not None
    }
    if hidden:
        rest = OperationNotAttempted("another partition of the request cannot be added")
        return _response(request, ctx, {each: hidden.get(each.topic, rest) for each in partitions})
    verdicts = _add(request.v3_and_below_transactional_id, producer, partitions, ctx)
    if isinstance(verdicts, Awaitable):
        return respond_later(verdicts, partial(_response, request, ctx))
    return _response(request, ctx, verdicts)


def _refusal(topic: str, ctx: RequestContext) -> KafkaError | None:
    """Return the error of a topic that a producer may not add; those of the broker it never may."""
    if topic in PROTECTED_TOPICS:
        return TopicAuthorizationFailed(f"{topic} belongs to the broker")
    return refusal(ctx, ResourceType.TOPIC, topic)


def _response(request: RequestV3, ctx: RequestContext, verdicts: Verdicts) -> ResponseV3:
    return ResponseV3(
        throttle_time=NO_THROTTLE,
        results_by_topic_v3_and_below=tuple(
            TopicResultV3(
                name=topic.name,
                results_by_partition=tuple(
                    PartitionResultV3(
                        partition_index=index,
                        partition_error_code=_code(verdicts[TopicPartition(topic.name, index)], ctx),
                    )
                    for index in topic.partitions
                ),
            )
            for topic in request.v3_and_below_topics
        ),
    )


async def add_partitions_to_txns(
    request: AddPartitionsToTxnRequest, ctx: RequestContext
) -> AddPartitionsToTxnResponse:
    """Add or verify partitions for other brokers."""
    require(ctx, ResourceType.CLUSTER)
    results = [await _one(each, ctx) async for each in in_slices(request.transactions)]
    return AddPartitionsToTxnResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, results_by_transaction=tuple(results)
    )


async def _one(asked: AddPartitionsToTxnTransaction, ctx: RequestContext) -> AddPartitionsToTxnResult:
    producer = Producer(asked.producer_id, asked.producer_epoch)
    partitions = _partitions(asked.topics)
    if asked.verify_only:
        verdicts = await await_reply(_verify(asked.transactional_id, producer, partitions, ctx))
    else:
        verdicts = await await_reply(_add(asked.transactional_id, producer, partitions, ctx))
    return AddPartitionsToTxnResult(
        transactional_id=asked.transactional_id,
        topic_results=tuple(
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    AddPartitionsToTxnPartitionResult(
                        partition_index=i32(index),
                        partition_error_code=_code(verdicts[TopicPartition(topic.name, index)], ctx),
                    )
                    for index in topic.partitions
                ),
            )
            for topic in asked.topics
        ),
    )


def _partitions(topics: Iterable[TopicV3 | AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)


def _add(
    transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition], ctx: RequestContext
) -> Verdicts | Awaitable[Verdicts]:
    refused = {each: error for each in partitions if (error := _why_not(each, ctx)) is not None}
    if refused:
        rest = OperationNotAttempted("another partition of the request cannot be added")
        return {each: refused.get(each, rest) for each in partitions}

    try:
        check_transactional_id(transactional_id)
        added = ctx.services.transactions.add_partitions(transactional_id, producer, partitions)
    except KafkaError as error:
        return dict.fromkeys(partitions, error)
    if added is None:
        return dict.fromkeys(partitions)
    return respond_later(try_await(added), lambda error: dict.fromkeys(partitions, error))


def _verify(
    transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition], ctx: RequestContext
) -> Verdicts | Awaitable[Verdicts]:
    try:
        check_transactional_id(transactional_id)
    except KafkaError as error:
        return dict.fromkeys(partitions, error)
    return ctx.services.transactions.verify_here(transactional_id, producer, partitions)


def _why_not(each: TopicPartition, ctx: RequestContext) -> KafkaError | None:
    if each.topic == TRANSACTION_STATE_TOPIC:
        return InvalidTopicException(f"{each.topic} belongs to the broker")
    if ctx.services.cluster.image.partition(each.topic, each.partition) is None:
        return UnknownTopicOrPartition(str(each))
    return None


def _code(error: KafkaError | None, ctx: RequestContext) -> ErrorCode:
    return ErrorCode.none if error is None else code_of_fenced(error, ctx, FIRST_WITH_FENCED)
