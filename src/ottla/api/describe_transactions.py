"""DescribeTransactions: the state of transactional ids, and the partitions in their transactions.

While a transaction is being ended, only the partitions that have no marker yet are listed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from kio.schema.describe_transactions.v0 import DescribeTransactionsRequest, DescribeTransactionsResponse
from kio.schema.describe_transactions.v0.response import TopicData, TransactionState
from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import may, require
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import check_transactional_id
from ottla.common.yielding import in_slices
from ottla.coordinator.transaction.transaction import Transaction
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE, ProducerId, TopicName, TransactionalId, i16, i32, i32Timedelta
from ottla.security.acls import ResourceType

_EPOCH = datetime.fromtimestamp(0, UTC)


async def describe_transactions(
    request: DescribeTransactionsRequest, ctx: RequestContext
) -> DescribeTransactionsResponse:
    """Describe every id that is asked for, once."""
    asked = dict.fromkeys(request.transactional_ids)
    states = [await _describe(each, ctx) async for each in in_slices(asked)]
    return DescribeTransactionsResponse(throttle_time=NO_THROTTLE, transaction_states=tuple(states))


async def _describe(transactional_id: TransactionalId, ctx: RequestContext) -> TransactionState:
    try:
        check_transactional_id(transactional_id)
        require(ctx, ResourceType.TRANSACTIONAL_ID, transactional_id)
        found = await ctx.services.transactions.describe(transactional_id)
    except KafkaError as error:
        return _state(error.code, transactional_id, "", 0, 0, 0, 0, ())
    return _described(transactional_id, found, ctx)


def _described(
    transactional_id: TransactionalId, found: Transaction, ctx: RequestContext
) -> TransactionState:
    topics: dict[str, list[i32]] = {}
    names = {topic for topic, _ in found.partitions}
    seen = {name for name in names if may(ctx, ResourceType.TOPIC, name)}
    for topic, index in sorted(each for each in found.partitions if each.topic in seen):
        topics.setdefault(topic, []).append(i32(index))
    return _state(
        ErrorCode.none,
        transactional_id,
        found.state.title,
        found.start_ms,
        found.timeout_ms,
        found.producer.producer_id,
        found.producer.epoch,
        tuple(
            TopicData(topic=TopicName(name), partitions=tuple(indexes)) for name, indexes in topics.items()
        ),
    )


def _state(
    code: ErrorCode,
    transactional_id: TransactionalId,
    state: str,
    start_ms: int,
    timeout_ms: int,
    producer_id: int,
    epoch: int,
    topics: tuple[TopicData, ...],
) -> TransactionState:
    # kio has no null for a date, but our encoder has: -1, as Kafka says of what has not begun.
    start = _EPOCH + timedelta(milliseconds=start_ms) if start_ms >= 0 else None
    return TransactionState(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state=state,
        transaction_timeout=cast("i32Timedelta", timedelta(milliseconds=timeout_ms)),
        transaction_start_time=cast("Any", start),
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(epoch),
        topics=topics,
    )
