"""InitProducerId: an id and an epoch for an idempotent or transactional producer.

v2 is flexible; v3 lets a producer name the id it had (KIP-360); v4 announces PRODUCER_FENCED; v6 adds
two-phase commit (KIP-939). A producer without a transactional id gets a fresh id at epoch 0 every time:
its sequence numbers start again at 0. With one, the next epoch fences the previous producer.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6 import InitProducerIdRequest, InitProducerIdResponse

from ottla.api.support.authorization import deny, may, may_write_any_topic, require
from ottla.api.support.brief_wait import BriefWait
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import (
    check_transactional_id,
    check_two_phase_commit,
    code_of_fenced,
)
from ottla.api.support.results import milliseconds
from ottla.coordinator.transaction.requests import Initiated, InitRequest
from ottla.coordinator.transaction.transaction import NO_PRODUCER, Producer
from ottla.protocol.errors import CoordinatorLoadInProgress, InvalidRequest, KafkaError
from ottla.protocol.types import NO_THROTTLE, ProducerId, i16
from ottla.security.acls import CLUSTER_NAME, ResourceType

FIRST_WITH_FENCED = 4


async def init_producer_id(request: InitProducerIdRequest, ctx: RequestContext) -> InitProducerIdResponse:
    """Give a producer its id and epoch."""
    try:
        initiated = await _initiate(request, ctx)
    except KafkaError as error:
        return _response(code_of_fenced(error, ctx, FIRST_WITH_FENCED), Initiated(NO_PRODUCER))
    return _response(ErrorCode.none, initiated)


async def _initiate(request: InitProducerIdRequest, ctx: RequestContext) -> Initiated:
    has_id = request.producer_id >= 0
    if has_id != (request.producer_epoch >= 0) or min(request.producer_id, request.producer_epoch) < -1:
        raise InvalidRequest("producer id and epoch are given together or not at all (both -1)")
    transactional_id = request.transactional_id
    if transactional_id is None:
        if not (may(ctx, ResourceType.CLUSTER) or may_write_any_topic(ctx)):
            raise deny(ctx, ResourceType.CLUSTER, CLUSTER_NAME)
        refusal = CoordinatorLoadInProgress("there are no producer ids at the moment")
        ids = ctx.services.producer_ids
        if not ids.is_available:
            await BriefWait(ctx.connection).until_done(ids.fill(), refusal)
        return Initiated(Producer(await ids.next(), 0))
    check_transactional_id(transactional_id)
    require(ctx, ResourceType.TRANSACTIONAL_ID, transactional_id)
    if request.enable2_pc:
        check_two_phase_commit(transactional_id, ctx)
    return await ctx.services.transactions.init_producer_id(
        InitRequest(
            transactional_id,
            milliseconds(request.transaction_timeout),
            expected=Producer(request.producer_id, request.producer_epoch) if has_id else None,
            principal=ctx.principal,
            is_two_phase=request.enable2_pc,
            keeps_prepared=request.keep_prepared_txn,
        )
    )


def _response(code: ErrorCode, initiated: Initiated) -> InitProducerIdResponse:
    producer, ongoing = initiated
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=i16(producer.epoch),
        ongoing_txn_producer_id=ProducerId(ongoing.producer_id),
        ongoing_txn_producer_epoch=i16(ongoing.epoch),
    )
