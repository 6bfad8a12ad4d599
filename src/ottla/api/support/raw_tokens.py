"""Answer the messages of a SASL mechanism that come without a request, after SaslHandshake v0.

    size     int32   number of bytes that follow; the answer has the same form
    message          of the mechanism

There is no room for an error: a client that fails is closed after the delay of every failed authentication
(`connection.failed.authentication.delay.ms`). When GSSAPI is done, nothing is sent, as Kafka does; the other
mechanisms end with an answer, which may be empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ottla.api.support.context import ClientConnection, Services
from ottla.protocol.frames import SIZE
from ottla.security.exchange import AuthenticationRefused


def answer_raw_token(
    connection: ClientConnection, services: Services, message: memoryview
) -> bytes | Awaitable[None] | None:
    """Answer one message; None: there is nothing to say."""
    sasl, clock = connection.sasl, services.clock
    assert sasl is not None
    try:
        answer, _ = sasl.authenticate(bytes(message), clock.wall_ms(), clock.mono_ms())
    except AuthenticationRefused as error:
        return _refused(connection, services, str(error))
    if not sasl.takes_raw_tokens and sasl.identity is not None:
        connection.principal = sasl.identity.principal
        connection.is_token_authenticated = sasl.identity.is_token
        if sasl.mechanism == "GSSAPI":
            return None
    return SIZE.pack(len(answer)) + answer


async def _refused(connection: ClientConnection, services: Services, reason: str) -> None:
    """Close late: guessing passwords takes time."""
    assert connection.sasl is not None
    await asyncio.sleep(services.config.connection_failed_authentication_delay_ms / 1000)
    connection.close(f"closed: authentication by {connection.sasl.mechanism} failed: {reason}")
