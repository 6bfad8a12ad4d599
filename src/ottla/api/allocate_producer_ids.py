"""AllocateProducerIds: allocate a block of unique producer ids to a broker.

Brokers send it to the controller; producers send InitProducerId. v0 is the only version.
"""

from __future__ import annotations

from kio.schema.allocate_producer_ids.v0 import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.protocol.errors import BrokerIdNotRegistered, StaleBrokerEpoch
from ottla.protocol.types import NO_THROTTLE, ProducerId, i32
from ottla.security.acls import ResourceType


async def allocate_producer_ids(
    request: AllocateProducerIdsRequest, ctx: RequestContext
) -> AllocateProducerIdsResponse:
    """Give the broker a block of ids."""
    require(ctx, ResourceType.CLUSTER)
    broker = ctx.services.cluster.image.brokers.get(request.broker_id)
    if broker is None:
        raise BrokerIdNotRegistered(f"unknown broker id {request.broker_id}")
    if broker.epoch != request.broker_epoch:
        raise StaleBrokerEpoch(f"broker {request.broker_id} has epoch {broker.epoch}")
    block = await ctx.services.controller.active_controller.allocate_producer_ids()
    return AllocateProducerIdsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        producer_id_start=ProducerId(block.start),
        producer_id_len=i32(len(block)),
    )
