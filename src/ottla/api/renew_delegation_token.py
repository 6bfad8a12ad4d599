"""RenewDelegationToken: extend the validity of a token, up to its maximum lifetime.

v2 is flexible. Its owner, its creator and its renewers may. The token is named by its HMAC.
"""

from __future__ import annotations

from kio.schema.renew_delegation_token.v2 import RenewDelegationTokenRequest, RenewDelegationTokenResponse

from ottla.api.support.context import RequestContext
from ottla.api.support.token_messages import change_expiry
from ottla.protocol.types import NO_THROTTLE


async def renew_delegation_token(
    request: RenewDelegationTokenRequest, ctx: RequestContext
) -> RenewDelegationTokenResponse:
    """Extend the validity of a token."""
    change = ctx.services.controller.active_controller.renew_token
    code, expiry = await change_expiry(ctx, change, request.hmac, request.renew_period)
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp=expiry, throttle_time=NO_THROTTLE)
