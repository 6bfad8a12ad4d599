"""UnregisterBroker: forget a broker that has left the cluster for good.

v0 is the only version. A broker that is alive is refused: it would only come back.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.unregister_broker.v0 import UnregisterBrokerRequest, UnregisterBrokerResponse

from ottla.api.support.context import RequestContext
from ottla.protocol.types import NO_THROTTLE


async def unregister_broker(
    request: UnregisterBrokerRequest, ctx: RequestContext
) -> UnregisterBrokerResponse:
    """Forget the broker."""
    await ctx.services.controller.active_controller.unregister_broker(request.broker_id)
    return UnregisterBrokerResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None)
