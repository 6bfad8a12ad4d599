"""RenewDelegationToken: extend the validity of a token, up to its maximum lifetime.

v2 is flexible. Its owner and its renewers may. The token is named by its HMAC.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.renew_delegation_token.v2 import RenewDelegationTokenRequest, RenewDelegationTokenResponse

from ottla.api.support.audit_log import audit_change
from ottla.api.support.context import RequestContext
from ottla.api.support.results import milliseconds
from ottla.api.support.token_messages import NO_TIME, check_may_use_tokens, time_field
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType


async def renew_delegation_token(
    request: RenewDelegationTokenRequest, ctx: RequestContext
) -> RenewDelegationTokenResponse:
    """Extend the validity of a token."""
    expiry, code = NO_TIME, ErrorCode.none
    try:
        check_may_use_tokens(ctx)
        expiry_ms = await ctx.services.controller.active_controller.renew_token(
            request.hmac, ctx.principal, milliseconds(request.renew_period)
        )
        expiry = time_field(expiry_ms)
        audit_change(ctx, ResourceType.DELEGATION_TOKEN, "renewed", None)
    except KafkaError as error:
        code = error.code
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp=expiry, throttle_time=NO_THROTTLE)
