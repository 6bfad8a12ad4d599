"""What the APIs of delegation tokens share: access, changes of the expiry, principals and times as fields."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from kio.schema.errors import ErrorCode

from ottla.api.support.audit_log import audit_change
from ottla.api.support.context import RequestContext
from ottla.api.support.results import code_of, milliseconds
from ottla.protocol.errors import DelegationTokenRequestNotAllowed, KafkaError
from ottla.security.acls import ResourceType
from ottla.security.delegation_tokens import token_by_hmac
from ottla.security.principal import ANONYMOUS

USER_TYPE = "User"
_EPOCH = datetime.fromtimestamp(0, UTC)
_LATEST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)

NO_TIME: Any = None
"""Written as -1."""


def check_may_use_tokens(ctx: RequestContext) -> None:
    """Refuse clients that are anonymous, and those that authenticated with a token themselves."""
    if ctx.connection.is_token_authenticated:
        raise DelegationTokenRequestNotAllowed("the connection is authenticated by a delegation token itself")
    if ctx.principal == ANONYMOUS:
        raise DelegationTokenRequestNotAllowed("delegation tokens need an authenticated connection")


def principal_parts(principal: str) -> tuple[str, str]:
    """Return the type and the name of a principal."""
    kind, _, name = principal.partition(":")
    return kind, name


def time_field(time_ms: int) -> Any:
    """Return a time as the messages have it."""
    return cast("Any", _EPOCH + timedelta(milliseconds=min(time_ms, _LATEST_MS)))


async def change_expiry(
    ctx: RequestContext,
    change: Callable[[bytes, str, int], Awaitable[int]],
    hmac: bytes,
    period: timedelta,
) -> tuple[ErrorCode, Any]:
    """Renew or expire a token; return the error code, and the time when its validity ends."""
    secret_key, token = ctx.services.config.delegation_token_secret_key, None
    failure: KafkaError | None = None
    expiry_ms = 0  # as Kafka, also after an error: some clients cannot read a negative time
    try:
        check_may_use_tokens(ctx)
        if ctx.services.audit is not None and secret_key is not None:
            token = token_by_hmac(ctx.services.cluster.image.tokens, hmac, secret_key)
        expiry_ms = await change(hmac, ctx.principal, milliseconds(period))
    except KafkaError as error:
        failure = error
    if token is not None:
        audit_change(ctx, ResourceType.DELEGATION_TOKEN, f"{token.token_id} of {token.owner}", failure)
    return code_of(failure), time_field(expiry_ms)
