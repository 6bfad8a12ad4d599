"""Who a client is: SaslAuthenticate, SASL messages that come without a request, and other brokers.

A success gives the connection its principal. A failure is counted, written to the audit log, and ends the
connection late: guessing passwords takes time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ottla.api.support.context import ClientConnection, RequestContext, Services
from ottla.protocol.frames import SIZE
from ottla.security.exchange import AuthenticationRefused
from ottla.wire.peers import CLIENT_ID as BROKER_CLIENT_ID


def authenticate(ctx: RequestContext, message: bytes) -> tuple[bytes, int]:
    """Return the answer to a message of the client, and the session's lifetime in ms.

    AuthenticationRefused, WrongState: as SaslSession.authenticate.
    """
    connection, services = ctx.connection, ctx.services
    sasl, clock = connection.sasl, services.clock
    assert sasl is not None
    was_refused = sasl.refusal is not None
    try:
        answer, lifetime_ms = sasl.authenticate(message, clock.wall_ms(), clock.mono_ms())
    except AuthenticationRefused as error:
        if not was_refused:
            _note_failure(ctx, error)
        raise
    if sasl.refusal is not None:
        _note_failure(ctx, sasl.refusal)  # the client may close the connection instead of acknowledging it
    if sasl.identity is not None and not sasl.is_in_progress:
        connection.principal = sasl.identity.principal
        connection.is_token_authenticated = sasl.identity.is_token
        services.logins[sasl.mechanism, True] += 1
    return answer, lifetime_ms


def _note_failure(ctx: RequestContext, error: AuthenticationRefused) -> None:
    """Count a failed login, and write it to the audit log."""
    sasl, services = ctx.connection.sasl, ctx.services
    assert sasl is not None
    services.logins[sasl.mechanism, False] += 1
    if services.audit is not None:
        services.audit.login_failed(ctx, sasl.mechanism, str(error))


async def close_late(ctx: RequestContext, reason: str) -> None:
    """Close the connection of a client that has failed, after a delay."""
    connection, services = ctx.connection, ctx.services
    assert connection.sasl is not None
    mechanism = connection.sasl.mechanism
    await asyncio.sleep(services.config.connection_failed_authentication_delay_ms / 1000)
    connection.close(f"closed: authentication by {mechanism} failed: {reason}")


def answer_raw_token(ctx: RequestContext, message: memoryview) -> bytes | Awaitable[None] | None:
    """Answer a SASL message that comes without a request, after SaslHandshake v0; None: send nothing.

    Message and answer are an int32 size and that many bytes. There is no error response: a client that fails
    is closed. GSSAPI ends without an answer, as in Kafka.
    """
    sasl = ctx.connection.sasl
    assert sasl is not None
    try:
        answer, _ = authenticate(ctx, bytes(message))
    except AuthenticationRefused as error:
        return close_late(ctx, str(error))
    if sasl.mechanism == "GSSAPI" and sasl.identity is not None and not sasl.takes_raw_tokens:
        return None
    return SIZE.pack(len(answer)) + answer


def is_from_broker(services: Services, connection: ClientConnection, client_id: str | None) -> bool:
    """Return whether a request comes from another registered broker.

    It has that broker's client id and, where clients authenticate, a broker's principal.
    """
    others = services.cluster.image.brokers.keys() - {services.node_id}
    is_known = any(client_id == f"{BROKER_CLIENT_ID}{each}" for each in others)
    return is_known and services.is_broker(connection) is True
