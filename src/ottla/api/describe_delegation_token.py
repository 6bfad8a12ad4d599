"""DescribeDelegationToken: the tokens that a client may see, of some owners or of all.

v2 is flexible; v3 adds who requested each token. A client sees the tokens that it owns, created or may
renew, those with DESCRIBE on the token, and those of users with DESCRIBE_TOKENS on the user.
"""

from __future__ import annotations

from kio.schema.describe_delegation_token.v3 import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kio.schema.describe_delegation_token.v3.response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
)
from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import may
from ottla.api.support.context import RequestContext
from ottla.api.support.token_messages import check_may_use_tokens, principal_parts
from ottla.protocol.errors import DelegationTokenAuthDisabled
from ottla.protocol.types import NO_THROTTLE, i64
from ottla.security.acls import ResourceType
from ottla.security.delegation_tokens import DelegationToken, token_hmac


def describe_delegation_token(
    request: DescribeDelegationTokenRequest, ctx: RequestContext
) -> DescribeDelegationTokenResponse:
    """List tokens."""
    check_may_use_tokens(ctx)
    secret_key = ctx.services.config.delegation_token_secret_key
    if not secret_key:
        raise DelegationTokenAuthDisabled("delegation tokens need delegation.token.secret.key")
    owners = None
    if request.owners is not None:
        owners = [f"{each.principal_type}:{each.principal_name}" for each in request.owners]
    return DescribeDelegationTokenResponse(
        error_code=ErrorCode.none,
        tokens=tuple(
            _described(token, secret_key)
            for token in ctx.services.cluster.image.tokens.values()
            if owners is None or any(token.belongs_to(owner) for owner in owners)
            if _is_visible(token, ctx)
        ),
        throttle_time=NO_THROTTLE,
    )


def _is_visible(token: DelegationToken, ctx: RequestContext) -> bool:
    return (
        token.belongs_to(ctx.principal)
        or may(ctx, ResourceType.DELEGATION_TOKEN, token.token_id)
        or may(ctx, ResourceType.USER, token.owner)
    )


def _described(token: DelegationToken, secret_key: str) -> DescribedDelegationToken:
    owner_type, owner_name = principal_parts(token.owner)
    requester_type, requester_name = principal_parts(token.requester)
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=i64(token.issue_ms),
        expiry_timestamp=i64(token.expiry_ms),
        max_timestamp=i64(token.max_ms),
        token_id=token.token_id,
        hmac=token_hmac(token.token_id, secret_key),
        renewers=tuple(
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, name in map(principal_parts, token.renewers)
        ),
    )
