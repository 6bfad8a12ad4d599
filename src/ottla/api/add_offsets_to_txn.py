"""AddOffsetsToTxn: let a transaction commit the offsets of a group.

It adds the group's partition of `__consumer_offsets` to the transaction; TxnOffsetCommit follows. v2
announces PRODUCER_FENCED; v3 is flexible; v4 announces TRANSACTION_ABORTABLE. With
`transaction.version=2` clients leave it out: TxnOffsetCommit v5 adds the partition by itself.
"""

from __future__ import annotations

from kio.schema.add_offsets_to_txn.v4 import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import require
from ottla.api.support.brief_wait import BriefWait
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import (
    await_reply,
    check_group_id,
    check_transactional_id,
    code_of_fenced,
)
from ottla.coordinator.transaction.transaction import Producer
from ottla.protocol.errors import CoordinatorNotAvailable, KafkaError
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType

FIRST_WITH_FENCED = 2


async def add_offsets_to_txn(request: AddOffsetsToTxnRequest, ctx: RequestContext) -> AddOffsetsToTxnResponse:
    """Add the partition of a group."""
    code = ErrorCode.none
    try:
        check_transactional_id(request.transactional_id)
        check_group_id(request.group_id)
        require(ctx, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        require(ctx, ResourceType.GROUP, request.group_id)
        producer = Producer(request.producer_id, request.producer_epoch)
        partition = await BriefWait(ctx.connection).until_done(
            ctx.services.groups.find_partition(request.group_id),
            CoordinatorNotAvailable("the group has no coordinator at the moment"),
        )
        adding = ctx.services.transactions.add_partitions
        await await_reply(adding(request.transactional_id, producer, frozenset({partition})))
    except KafkaError as error:
        code = code_of_fenced(error, ctx, FIRST_WITH_FENCED)
    return AddOffsetsToTxnResponse(throttle_time=NO_THROTTLE, error_code=code)
