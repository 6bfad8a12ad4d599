"""SaslAuthenticate: carry the messages of a SASL mechanism.

v1 adds the lifetime of the session (KIP-368), v2 is flexible. When the client has proved who it is, the
connection has its principal, and every API is served. A client that fails gets the reason after a delay
(`connection.failed.authentication.delay.ms`), then the connection is closed.
"""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2 import SaslAuthenticateRequest, SaslAuthenticateResponse

from ottla.api.support.authentication import authenticate, close_late
from ottla.api.support.context import RequestContext
from ottla.security.exchange import AuthenticationRefused
from ottla.security.sasl import WrongState

if TYPE_CHECKING:
    from kio.static.primitive import i64Timedelta


def sasl_authenticate(
    request: SaslAuthenticateRequest, ctx: RequestContext
) -> SaslAuthenticateResponse | Awaitable[SaslAuthenticateResponse]:
    """Answer one message of the client."""
    connection = ctx.connection
    if connection.sasl is None:
        return _failed(ErrorCode.illegal_sasl_state, "this listener does not use SASL")
    try:
        answer, lifetime_ms = authenticate(ctx, request.auth_bytes)
    except WrongState as error:
        connection.close(f"closed: authentication failed: {error}")
        return _failed(ErrorCode.illegal_sasl_state, str(error))
    except AuthenticationRefused as error:
        return _refused(ctx, str(error))
    lifetime = cast("i64Timedelta", timedelta(milliseconds=lifetime_ms))
    return SaslAuthenticateResponse(
        error_code=ErrorCode.none, error_message=None, auth_bytes=answer, session_lifetime=lifetime
    )


async def _refused(ctx: RequestContext, reason: str) -> SaslAuthenticateResponse:
    """Answer late: guessing passwords takes time."""
    await close_late(ctx, reason)
    sasl = ctx.connection.sasl
    assert sasl is not None
    return _failed(
        ErrorCode.sasl_authentication_failed,
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism "
        f"{sasl.mechanism}: {reason}",
    )


def _failed(code: ErrorCode, message: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=message, auth_bytes=b"")
