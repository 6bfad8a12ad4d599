"""The handshake on a new connection: ApiVersions, then SASL.

ApiVersions goes out in version 3; a broker that does not know that version responds in version 0. SASL
follows: SaslHandshake names the mechanism, SaslAuthenticate carries its messages. A broker may limit how
long an authentication is valid (KIP-368); the client authenticates again before that, on the same
connection.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kio.schema.api_versions.v3 import ApiVersionsRequest, ApiVersionsResponse
from kio.schema.errors import ErrorCode

from ottla import __version__
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.schema.messages import request_encoder
from ottla.wire.errors import AuthenticationFailed, raise_for
from ottla.wire.sasl import SaslError, SaslExchange

if TYPE_CHECKING:
    from kio.schema.api_versions.v0 import ApiVersionsResponse as OldApiVersionsResponse

    from ottla.wire.connection import Connection
    from ottla.wire.security import Security

REAUTHENTICATE_AFTER = 0.85
"""The part of a session's lifetime after which the client authenticates again."""

MAX_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Session:
    """The result of a handshake."""

    versions: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The oldest and the newest version that the broker serves, by API key."""
    features: dict[str, int] = field(default_factory=dict)
    """The cluster's finalized features, such as `transaction.version`, and their levels."""
    reauthenticate_at: float | None = None
    """When, by the loop's clock, to authenticate again; None: never."""


async def perform_handshake(connection: Connection, security: Security | None) -> Session:
    """Agree on versions, unless that was done before, and authenticate; AuthenticationFailed if rejected."""
    versions, features = connection.session.versions, connection.session.features
    if not versions:
        versions, features = await _negotiate_versions(connection)
    lifetime_ms = 0
    if security is not None and security.uses_sasl:
        try:
            exchange = await security.sasl_exchange(connection.address.host)
            lifetime_ms = await _authenticate(connection, versions, exchange)
        except SaslError as error:
            raise AuthenticationFailed(connection.address, str(error)) from None
    now = asyncio.get_running_loop().time()
    reauthenticate_at = now + lifetime_ms / 1000 * REAUTHENTICATE_AFTER if lifetime_ms else None
    return Session(versions, features, reauthenticate_at)


async def _negotiate_versions(
    connection: Connection,
) -> tuple[dict[int, tuple[int, int]], dict[str, int]]:
    request = ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
    body = request_encoder(ApiKey.API_VERSIONS, 3, 3)(request)
    frame, position = await connection.send(ApiKey.API_VERSIONS, 3, (body,), connection.request_timeout_ms)
    response: ApiVersionsResponse | OldApiVersionsResponse
    features: dict[str, int] = {}
    error_code = int.from_bytes(frame[4:6], "big", signed=True)
    if error_code == ErrorCode.unsupported_version:  # then the rest is in version 0
        from kio.schema.api_versions import v0

        response = await connection.request(
            v0.ApiVersionsRequest(), v0.ApiVersionsResponse, version=0, is_handshake=True
        )
    else:
        response = connection.decode(frame, position, ApiKey.API_VERSIONS, 3, ApiVersionsResponse)
        features = {each.name: int(each.max_version_level) for each in response.finalized_features}
    raise_for(response.error_code, f"{connection.address} rejected ApiVersions")
    return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}, features


async def _authenticate(
    connection: Connection, versions: dict[int, tuple[int, int]], exchange: SaslExchange
) -> int:
    """Authenticate and return for how many milliseconds that is valid; 0: without limit."""
    from kio.schema.sasl_authenticate.v2 import SaslAuthenticateRequest, SaslAuthenticateResponse
    from kio.schema.sasl_handshake.v1 import SaslHandshakeRequest, SaslHandshakeResponse

    address = connection.address
    hello = SaslHandshakeRequest(mechanism=exchange.mechanism)
    offered = await connection.request(hello, SaslHandshakeResponse, version=1, is_handshake=True)
    if offered.error_code == ErrorCode.unsupported_sasl_mechanism:
        known = ", ".join(offered.mechanisms) or "none"
        raise AuthenticationFailed(address, f"it does not know {exchange.mechanism}, only {known}")
    if offered.error_code == ErrorCode.illegal_sasl_state:
        raise AuthenticationFailed(
            address, "this listener takes no SASL login; use security.protocol PLAINTEXT or SSL there"
        )
    raise_for(offered.error_code, f"{address} rejected {exchange.mechanism}")
    version = min(2, versions.get(ApiKey.SASL_AUTHENTICATE, (0, 0))[1])
    message: bytes | None = exchange.first()
    lifetime_ms = 0
    for _ in range(MAX_ROUNDS):
        if message is None:
            return lifetime_ms
        request = SaslAuthenticateRequest(auth_bytes=message)
        response = await connection.request(
            request, SaslAuthenticateResponse, version=version, is_handshake=True
        )
        if response.error_code:
            raise AuthenticationFailed(address, response.error_message or ErrorCode(response.error_code).name)
        lifetime_ms = int(response.session_lifetime.total_seconds() * 1000)
        message = exchange.respond(response.auth_bytes)
    raise AuthenticationFailed(address, f"{exchange.mechanism} did not end after {MAX_ROUNDS} messages")
