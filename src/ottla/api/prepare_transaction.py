"""PrepareTransaction: let a two-phase transaction wait for its end, however long (an API of Ottla's own).

A transaction that was begun with two-phase commit (InitProducerId v6, enable2Pc) times out like any other
until it is prepared. From then on only EndTxn ends it, or InitProducerId without keepPreparedTxn, from
any connection of the same principal, also after restarts of client and broker. To prepare twice is
fine. The message is in protocol/own_messages.py.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import check_transactional_id, check_two_phase_commit
from ottla.coordinator.transaction.transaction import Producer
from ottla.protocol.own_messages import PrepareTransactionRequest, PrepareTransactionResponse
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType


async def prepare_transaction(
    request: PrepareTransactionRequest, ctx: RequestContext
) -> PrepareTransactionResponse:
    """Prepare; what stands against it goes into the answer."""
    check_transactional_id(request.transactional_id)
    require(ctx, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    check_two_phase_commit(request.transactional_id, ctx)
    producer = Producer(request.producer_id, request.producer_epoch)
    await ctx.services.transactions.prepare(request.transactional_id, producer, ctx.principal)
    return PrepareTransactionResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none)
