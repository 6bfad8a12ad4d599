"""ExpireDelegationToken: end the validity of a token at another time, or now.

v2 is flexible. Its owner, its creator and its renewers may. A negative period removes the token at once;
connections that authenticated with it stay open until they have to authenticate again.
"""

from __future__ import annotations

from kio.schema.expire_delegation_token.v2 import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

from ottla.api.support.context import RequestContext
from ottla.api.support.token_messages import change_expiry
from ottla.protocol.types import NO_THROTTLE


async def expire_delegation_token(
    request: ExpireDelegationTokenRequest, ctx: RequestContext
) -> ExpireDelegationTokenResponse:
    """Change when the validity of a token ends."""
    change = ctx.services.controller.active_controller.expire_token
    code, expiry = await change_expiry(ctx, change, request.hmac, request.expiry_time_period)
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp=expiry, throttle_time=NO_THROTTLE)
