"""UnregisterBroker: remove a broker that has left the cluster permanently.

v0 is the only version. A live broker is rejected: it would register again.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.unregister_broker.v0 import UnregisterBrokerRequest, UnregisterBrokerResponse

from ottla.api.support.context import RequestContext
from ottla.protocol.types import NO_THROTTLE


async def unregister_broker(
    request: UnregisterBrokerRequest, ctx: RequestContext
) -> UnregisterBrokerResponse:
    """Unregister the broker."""
    await ctx.services.controller.active_controller.unregister_broker(request.broker_id)
    return UnregisterBrokerResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None)
