"""UnregisterBroker: remove a broker that has left the cluster permanently.

v0 is the only version. A live broker is rejected: it would register again.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.unregister_broker.v0 import UnregisterBrokerRequest, UnregisterBrokerResponse

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType


async def unregister_broker(
    request: UnregisterBrokerRequest, ctx: RequestContext
) -> UnregisterBrokerResponse:
    """Unregister the broker."""
    require(ctx, ResourceType.CLUSTER)
    try:
        await ctx.services.controller.active_controller.unregister_broker(request.broker_id)
    except KafkaError as error:
        audit_change(ctx, ResourceType.CLUSTER, str(request.broker_id), error, "BROKER")
        raise
    audit_change(ctx, ResourceType.CLUSTER, str(request.broker_id), None, "BROKER")
    return UnregisterBrokerResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None)
