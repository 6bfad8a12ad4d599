"""CreateDelegationToken: a short-lived credential for a user, to be handed to its workers.

v2 is flexible; v3 lets a client create a token for another owner, if it has CREATE_TOKENS on that user. The
response carries the HMAC, the password of the token.
"""

from __future__ import annotations

from kio.schema.create_delegation_token.v3 import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kio.schema.errors import ErrorCode

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.api.support.results import milliseconds
from ottla.api.support.token_messages import (
    NO_TIME,
    USER_TYPE,
    check_may_use_tokens,
    principal_parts,
    time_field,
)
from ottla.protocol.errors import InvalidPrincipalType, KafkaError
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType
from ottla.security.delegation_tokens import DelegationToken, token_hmac


async def create_delegation_token(
    request: CreateDelegationTokenRequest, ctx: RequestContext
) -> CreateDelegationTokenResponse:
    """Create a token."""
    owner = ctx.principal
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    try:
        check_may_use_tokens(ctx)
        if owner != ctx.principal:
            require(ctx, ResourceType.USER, owner)
        if any(each.principal_type != USER_TYPE for each in request.renewers):
            raise InvalidPrincipalType("a renewer is a principal of type User")
        token = await ctx.services.controller.active_controller.create_token(
            owner,
            ctx.principal,
            tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers),
            milliseconds(request.max_lifetime),
        )
    except KafkaError as error:
        return _response(error.code, owner, ctx, None)
    audit_change(ctx, ResourceType.DELEGATION_TOKEN, f"{token.token_id} of {owner}", None)
    return _response(ErrorCode.none, owner, ctx, token)


def _response(
    code: ErrorCode, owner: str, ctx: RequestContext, token: DelegationToken | None
) -> CreateDelegationTokenResponse:
    owner_type, owner_name = principal_parts(owner)
    requester_type, requester_name = principal_parts(ctx.principal)
    secret_key = ctx.services.config.delegation_token_secret_key or ""
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=NO_TIME if token is None else time_field(token.issue_ms),
        expiry_timestamp=NO_TIME if token is None else time_field(token.expiry_ms),
        max_timestamp=NO_TIME if token is None else time_field(token.max_ms),
        token_id="" if token is None else token.token_id,
        hmac=b"" if token is None else token_hmac(token.token_id, secret_key),
        throttle_time=NO_THROTTLE,
    )
