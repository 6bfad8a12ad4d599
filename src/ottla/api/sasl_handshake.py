"""SaslHandshake: choose a SASL mechanism.

v1: the mechanism's messages follow in SaslAuthenticate requests. v0: they follow as they are, each after its
size, and are answered in the same way. The response lists the mechanisms of the listener. An authenticated
client sends it to authenticate again (KIP-368), with the same mechanism, and not twice within a second.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.sasl_handshake.v1 import SaslHandshakeRequest, SaslHandshakeResponse

from ottla.api.support.context import RequestContext
from ottla.security.sasl import ReauthenticationTooSoon, UnsupportedMechanism, WrongState


def sasl_handshake(request: SaslHandshakeRequest, ctx: RequestContext) -> SaslHandshakeResponse:
    """Begin an authentication; a client that cannot authenticate is closed after the response."""
    sasl = ctx.connection.sasl
    if sasl is None:
        return SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state, mechanisms=())
    error_code = ErrorCode.none
    try:
        sasl.handshake(request.mechanism, ctx.services.clock.mono_ms(), is_raw=ctx.version == 0)
    except ReauthenticationTooSoon:  # as in Kafka, the connection stays as it is
        return SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state, mechanisms=())
    except UnsupportedMechanism as error:
        error_code = ErrorCode.unsupported_sasl_mechanism
        ctx.connection.close(f"closed: authentication failed: {error}")
    except WrongState as error:
        error_code = ErrorCode.illegal_sasl_state
        ctx.connection.close(f"closed: authentication failed: {error}")
    return SaslHandshakeResponse(error_code=error_code, mechanisms=sasl.mechanisms)
