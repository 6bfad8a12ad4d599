"""ExpireDelegationToken: end the validity of a token at another time, or now.

v2 is flexible. Its owner and its renewers may. A negative period removes the token at once; connections that
authenticated with it stay open until they have to authenticate again.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.expire_delegation_token.v2 import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

from ottla.api.support.audit_log import audit_change
from ottla.api.support.context import RequestContext
from ottla.api.support.results import milliseconds
from ottla.api.support.token_messages import NO_TIME, check_may_use_tokens, time_field
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType


async def expire_delegation_token(
    request: ExpireDelegationTokenRequest, ctx: RequestContext
) -> ExpireDelegationTokenResponse:
    """Change when the validity of a token ends."""
    expiry, code = NO_TIME, ErrorCode.none
    try:
        check_may_use_tokens(ctx)
        expiry_ms = await ctx.services.controller.active_controller.expire_token(
            request.hmac, ctx.principal, milliseconds(request.expiry_time_period)
        )
        expiry = time_field(expiry_ms)
        audit_change(ctx, ResourceType.DELEGATION_TOKEN, "expired", None)
    except KafkaError as error:
        code = error.code
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp=expiry, throttle_time=NO_THROTTLE)
