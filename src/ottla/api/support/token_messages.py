"""What the APIs of delegation tokens have in common: who may use them, principals and times as fields."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from ottla.api.support.context import RequestContext
from ottla.protocol.errors import DelegationTokenRequestNotAllowed
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
