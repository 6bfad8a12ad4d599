"""The first words on a connection: which versions do you speak, and this is who I am.

ApiVersions comes first, in version 3; a broker that does not know that version answers in version 0.
The login (SASL) follows: SaslHandshake names the mechanism, SaslAuthenticate carries its messages. A
broker may say for how long a login holds (KIP-368); before that time is over we log in again, on the
same connection.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from kio.schema.api_versions.v0 import ApiVersionsRequest as OldApiVersionsRequest
from kio.schema.api_versions.v0 import ApiVersionsResponse as OldApiVersionsResponse
from kio.schema.api_versions.v3 import ApiVersionsRequest, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2 import SaslAuthenticateRequest, SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1 import SaslHandshakeRequest, SaslHandshakeResponse

from ottla import __version__
from ottla.client.address import Address
from ottla.client.errors import AuthenticationFailed, raise_for
from ottla.client.reasons import api_name
from ottla.client.sasl import SaslExchange, SaslRefused
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import UnsupportedVersion

if TYPE_CHECKING:
    from ottla.client.connection import Connection
    from ottla.client.security import Security

HANDSHAKE_TIMEOUT_MS = 30_000
"""Of each step; the whole is bounded by whoever opens the connection."""

RENEW_AFTER = 0.85
"""The part of a login's lifetime after which it is renewed."""

MAX_ROUNDS = 8

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Session:
    """What was agreed on when the connection was opened."""

    versions: dict[int, tuple[int, int]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    """The cluster's finalized features, such as `transaction.version`, and their levels."""
    renew_at: float | None = None
    """When, by the loop's clock, the login is to be renewed; None if it holds for ever."""

    def version_of(self, address: Address, api_key: int, newest: int) -> int:
        """Return the version to speak: the newest that the broker at `address` and `newest` allow."""
        oldest_served, newest_served = self.versions.get(api_key, (0, -1))
        version = min(newest, newest_served)
        if version < oldest_served:
            served = f"only versions {oldest_served}-{newest_served}" if newest_served >= 0 else "no version"
            raise UnsupportedVersion(
                f"{address} serves {served} of {api_name(api_key)}, this client speaks {newest}"
            )
        return version

    def is_over(self, now: float) -> bool:
        """Return whether it is time to log in again."""
        return self.renew_at is not None and now >= self.renew_at


async def shake_hands(connection: Connection, security: Security | None) -> Session:
    """Agree on versions and log in; raise AuthenticationFailed if the broker does not let us in."""
    versions, features = (
        (connection.versions, connection.session.features)
        if connection.versions
        else await _agree_on_versions(connection)
    )
    lifetime_ms = 0
    if security is not None and security.uses_sasl:
        lifetime_ms = await _log_in(connection, versions, await security.exchange())
    renew_at = asyncio.get_running_loop().time() + lifetime_ms / 1000 * RENEW_AFTER if lifetime_ms else None
    return Session(versions, features, renew_at)


async def _agree_on_versions(
    connection: Connection,
) -> tuple[dict[int, tuple[int, int]], dict[str, int]]:
    request = ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
    reply: ApiVersionsResponse | OldApiVersionsResponse
    features: dict[str, int] = {}
    frame, at = await connection.post_message(request, 3, HANDSHAKE_TIMEOUT_MS)
    if _peek_error(frame) == ErrorCode.unsupported_version:  # then the rest is written in version 0
        reply = await connection.exchange(
            OldApiVersionsRequest(), 0, OldApiVersionsResponse, HANDSHAKE_TIMEOUT_MS
        )
    else:
        reply = connection.decode(frame, at, ApiKey.API_VERSIONS, 3, ApiVersionsResponse)
        features = {each.name: int(each.max_version_level) for each in reply.finalized_features}
    raise_for(reply.error_code, f"{connection.address} refused to say which versions it speaks")
    return {each.api_key: (each.min_version, each.max_version) for each in reply.api_keys}, features


async def _log_in(
    connection: Connection, versions: dict[int, tuple[int, int]], exchange: SaslExchange
) -> int:
    """Log in and return for how many milliseconds that holds; 0 for ever."""
    address = connection.address
    hello = SaslHandshakeRequest(mechanism=exchange.mechanism)
    offered = await connection.exchange(hello, 1, SaslHandshakeResponse, HANDSHAKE_TIMEOUT_MS)
    if offered.error_code == ErrorCode.unsupported_sasl_mechanism:
        known = ", ".join(offered.mechanisms) or "none"
        raise AuthenticationFailed(address, f"it does not know {exchange.mechanism}, only {known}")
    raise_for(offered.error_code, f"{address} refused {exchange.mechanism}")
    version = min(2, versions.get(ApiKey.SASL_AUTHENTICATE, (0, 0))[1])
    message: bytes | None = exchange.first()
    lifetime_ms = 0
    for _ in range(MAX_ROUNDS):
        if message is None:
            return lifetime_ms
        request = SaslAuthenticateRequest(auth_bytes=message)
        reply = await connection.exchange(request, version, SaslAuthenticateResponse, HANDSHAKE_TIMEOUT_MS)
        if reply.error_code:
            raise AuthenticationFailed(address, reply.error_message or ErrorCode(reply.error_code).name)
        lifetime_ms = int(reply.session_lifetime.total_seconds() * 1000)
        try:
            message = exchange.answer(reply.auth_bytes)
        except SaslRefused as refused:
            raise AuthenticationFailed(address, str(refused)) from None
    raise AuthenticationFailed(address, f"{exchange.mechanism} came to no end")


def _peek_error(frame: memoryview) -> int:
    return int.from_bytes(frame[4:6], "big", signed=True)
