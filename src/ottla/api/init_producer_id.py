"""InitProducerId: an id and an epoch for an idempotent producer.

v2 is flexible; v3 lets a producer name the id it had (KIP-360); v4 announces PRODUCER_FENCED; v6 adds
two-phase commit for transactions. A producer without a transactional id gets a fresh id at epoch 0
every time: its sequence numbers start again at 0.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6 import InitProducerIdRequest, InitProducerIdResponse

from ottla.api.context import RequestContext
from ottla.protocol.errors import InvalidRequest, KafkaError
from ottla.protocol.types import NO_THROTTLE, ProducerId, i16


async def init_producer_id(request: InitProducerIdRequest, ctx: RequestContext) -> InitProducerIdResponse:
    """Hand out the next producer id."""
    try:
        if request.transactional_id is not None:
            raise InvalidRequest("this broker does not serve transactions")
        if (request.producer_id < 0) != (request.producer_epoch < 0):
            raise InvalidRequest("producer id and epoch are given together or not at all")
        producer_id = await ctx.services.producer_ids.next()
    except KafkaError as error:
        return _response(error.code, -1, -1)
    return _response(ErrorCode.none, producer_id, 0)


def _response(code: ErrorCode, producer_id: int, epoch: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(epoch),
    )
