"""EndTxn: commit or abort a transaction.

v2 announces PRODUCER_FENCED; v3 is flexible; v4 announces TRANSACTION_ABORTABLE; v5 belongs to
`transaction.version=2` (KIP-890): the epoch goes up with the end of every transaction, and the answer
says what the producer is from now on. The answer comes when the decision is safe; markers follow it.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kio.schema.end_txn.v5 import EndTxnRequest, EndTxnResponse
from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import (
    check_transactional_id,
    code_of_fenced,
    respond_later,
    try_await,
)
from ottla.coordinator.transaction.requests import EndRequest
from ottla.coordinator.transaction.transaction import NO_PRODUCER, Producer
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE, ProducerId, i16
from ottla.security.acls import ResourceType

FIRST_WITH_FENCED = 2
FIRST_WITH_NEW_EPOCH = 5


def end_txn(request: EndTxnRequest, ctx: RequestContext) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    """Commit or abort a transaction."""
    end = EndRequest(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        is_commit=request.committed,
        bumps_epoch=ctx.version >= FIRST_WITH_NEW_EPOCH,
        principal=ctx.principal,
    )
    try:
        check_transactional_id(end.transactional_id)
        require(ctx, ResourceType.TRANSACTIONAL_ID, end.transactional_id)
        ended = ctx.services.transactions.end(end)
    except KafkaError as error:
        return _response(error, ctx)
    if isinstance(ended, Producer):
        return _response(ended, ctx)
    return respond_later(try_await(ended), lambda outcome: _response(outcome, ctx))


def _response(outcome: Producer | KafkaError, ctx: RequestContext) -> EndTxnResponse:
    code, producer = ErrorCode.none, NO_PRODUCER
    if isinstance(outcome, KafkaError):
        code = code_of_fenced(outcome, ctx, FIRST_WITH_FENCED)
    else:
        producer = outcome
    return EndTxnResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=i16(producer.epoch),
    )
