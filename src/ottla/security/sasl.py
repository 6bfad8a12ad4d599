"""The SASL state of one connection, on the broker: which requests it may send, and who it is.

    new             ApiVersions and SaslHandshake are served
    handshaken      a mechanism is chosen: SaslAuthenticate carries its messages, or, after v0 of the
                    handshake, they come without a request (`takes_raw_tokens`)
    authenticated   everything is served; SaslHandshake begins a re-authentication (KIP-368)
    failed          nothing is served

A session may expire: then only a re-authentication is served, which must keep mechanism and principal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ottla.protocol.api_keys import ApiKey
from ottla.security.exchange import AuthenticationRefused, Identity, ServerExchange

FIRST_APIS: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""What a client may send before it has authenticated."""
MIN_REAUTHENTICATION_MS: Final = 1_000
"""The shortest time between two re-authentications of a connection, as in Kafka."""
MAX_ROUNDS: Final = 16
"""Messages of a client in one authentication."""

NewExchange = Callable[[str], ServerExchange]
"""Returns a new exchange of a mechanism."""


class UnsupportedMechanism(Exception):
    """The listener does not offer the mechanism."""


class WrongState(Exception):
    """The request does not fit the state of the authentication; the message says why."""


class ReauthenticationTooSoon(Exception):
    """The client has authenticated again less than a second ago."""


class SaslSession:
    """The state of one connection. `mechanisms` are those of its listener."""

    __slots__ = (
        "_again_ms",
        "_exchange",
        "_expires_at_ms",
        "_new_exchange",
        "_rounds",
        "has_failed",
        "identity",
        "max_reauth_ms",
        "mechanism",
        "mechanisms",
        "takes_raw_tokens",
    )

    def __init__(
        self, mechanisms: Sequence[str], new_exchange: NewExchange, max_reauth_ms: Callable[[str], int]
    ) -> None:
        self.mechanisms = tuple(mechanisms)
        self.max_reauth_ms = max_reauth_ms
        self.mechanism = ""
        self.identity: Identity | None = None
        self.has_failed = False
        self.takes_raw_tokens = False
        self._new_exchange = new_exchange
        self._exchange: ServerExchange | None = None
        self._rounds = 0
        self._again_ms: int | None = None  # when it last began to authenticate again
        self._expires_at_ms: int | None = None  # by the monotonic clock

    @property
    def is_authenticated(self) -> bool:
        """Whether the client has authenticated, now or earlier."""
        return self.identity is not None

    @property
    def is_in_progress(self) -> bool:
        """Whether the client has begun to authenticate, or to do so again."""
        return self._exchange is not None

    @property
    def refusal(self) -> AuthenticationRefused | None:
        """Why the client has failed, if it has only to acknowledge that: OAUTHBEARER wants it so."""
        refusal: AuthenticationRefused | None = getattr(self._exchange, "refusal", None)
        return refusal

    def admits(self, api_key: int, mono_ms: int) -> bool:
        """Return whether a request of this API may be served now."""
        if self.identity is not None and (self._expires_at_ms is None or mono_ms < self._expires_at_ms):
            return True
        return api_key in FIRST_APIS and not self.has_failed

    def handshake(self, mechanism: str, mono_ms: int, *, is_raw: bool = False) -> None:
        """Begin an authentication; raise UnsupportedMechanism, WrongState or ReauthenticationTooSoon.

        `is_raw`: until it ends, frames are the messages of the mechanism and not requests.
        """
        if self.has_failed or self._exchange is not None:
            raise WrongState("SaslHandshake was sent twice")
        if self.identity is not None:
            if self._again_ms is not None and mono_ms - self._again_ms < MIN_REAUTHENTICATION_MS:
                raise ReauthenticationTooSoon
            self._again_ms = mono_ms
        if mechanism not in self.mechanisms:
            self.has_failed = self.identity is None
            raise UnsupportedMechanism(
                f"{mechanism!r} is not offered; it is one of {', '.join(self.mechanisms)}"
            )
        if self.identity is not None and mechanism != self.mechanism:
            raise WrongState(f"re-authentication must use {self.mechanism} again, not {mechanism}")
        self._exchange = self._new_exchange(mechanism)
        self.mechanism = mechanism
        self.takes_raw_tokens = is_raw
        self._rounds = 0

    def authenticate(self, message: bytes, wall_ms: int, mono_ms: int) -> tuple[bytes, int]:
        """Return the answer to a message, and the session's lifetime in ms (0: unlimited, or not done yet).

        AuthenticationRefused: the connection must be closed. WrongState: there was no SaslHandshake.
        """
        if self._exchange is None:
            raise WrongState("SaslAuthenticate was sent without SaslHandshake")
        self._rounds += 1
        try:
            if self._rounds > MAX_ROUNDS:
                raise AuthenticationRefused(f"{self.mechanism} did not end after {MAX_ROUNDS} messages")
            answer, identity = self._exchange.respond(message)
            if identity is None:
                return answer, 0
            if self.identity is not None and identity.principal != self.identity.principal:
                raise AuthenticationRefused(
                    f"Cannot change principals during re-authentication from {self.identity.principal} "
                    f"to {identity.principal}"
                )
        except AuthenticationRefused:
            self.has_failed = True
            self.takes_raw_tokens = False
            self.identity = self._exchange = None
            raise
        self._exchange = None
        self.takes_raw_tokens = False
        self.identity = identity
        lifetime_ms = self._lifetime_ms(identity, wall_ms)
        self._expires_at_ms = mono_ms + lifetime_ms if lifetime_ms else None
        return answer, lifetime_ms

    def _lifetime_ms(self, identity: Identity, wall_ms: int) -> int:
        max_reauth_ms = self.max_reauth_ms(self.mechanism)
        if identity.expires_at_ms is None:
            return max_reauth_ms
        left_ms = max(1, identity.expires_at_ms - wall_ms)
        return min(left_ms, max_reauth_ms) if max_reauth_ms else left_ms
