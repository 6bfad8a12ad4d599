"""SASL OAUTHBEARER, the server's side (RFC 7628), and the checks on a token's claims.

    client   n,[a=authzid],0x01 auth=Bearer TOKEN 0x01 [name=value 0x01 ...] 0x01
    server   nothing: accepted. Or {"status":"invalid_token"}, to which the client answers 0x01

A token is a JWT. Its signature is checked by `verify` (broker/jwks.py); the claims are checked here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.security.exchange import AuthenticationRefused, Identity
from ottla.security.principal import user_name

MAX_MESSAGE_BYTES = 64 << 10
_MESSAGE = re.compile(
    r"n,(?:a=(?P<authzid>[^,\x01]*))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x20-\x7e\t\r\n]*\x01)*)\x01", re.DOTALL
)
_BEARER = re.compile(r"bearer ([A-Za-z0-9._~+/=-]+)", re.IGNORECASE)

Verify = Callable[[str], Mapping[str, Any]]
"""Returns the claims of a token whose signature is valid; raises AuthenticationRefused otherwise."""


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """What the claims of a token must be."""

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    required_scopes: tuple[str, ...] = ()
    user_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_ms: int = 30_000

    def identity(self, claims: Mapping[str, Any], wall_ms: int) -> Identity:
        """Return who the token stands for, or raise AuthenticationRefused."""
        user = claims.get(self.user_claim)
        if not isinstance(user, str) or not user.strip():
            raise AuthenticationRefused(f"the token has no {self.user_claim} claim")
        expires_ms = self._check_times(claims, wall_ms)
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise AuthenticationRefused("the token has another issuer")
        if self.audiences:
            given = claims.get("aud")
            audiences = given if isinstance(given, list) else [given]
            if not any(each in self.audiences for each in audiences):
                raise AuthenticationRefused("the token is for another audience")
        missing = set(self.required_scopes) - _scopes(claims.get(self.scope_claim))
        if missing:
            raise AuthenticationRefused(f"the token lacks the scope {', '.join(sorted(missing))}")
        return Identity.of_user(user.strip(), expires_ms)

    def _check_times(self, claims: Mapping[str, Any], wall_ms: int) -> int:
        expires_ms = _milliseconds(claims, "exp")
        if expires_ms is None:
            raise AuthenticationRefused("the token has no exp claim")
        if wall_ms >= expires_ms + self.clock_skew_ms:
            raise AuthenticationRefused("the token has expired")
        for name in ("nbf", "iat"):
            since_ms = _milliseconds(claims, name)
            if since_ms is not None and wall_ms < since_ms - self.clock_skew_ms:
                raise AuthenticationRefused(f"the token is not valid yet ({name})")
        return expires_ms


class OAuthBearerServer:
    """One exchange."""

    mechanism = "OAUTHBEARER"

    def __init__(self, verify: Verify, rules: ClaimRules, wall_ms: Callable[[], int]) -> None:
        self._verify = verify
        self._rules = rules
        self._wall_ms = wall_ms
        self.refusal: AuthenticationRefused | None = None

    def respond(self, message: bytes) -> tuple[bytes, Identity | None]:
        """Check the token; a refusal is raised after the client has acknowledged it, as the RFC wants."""
        if self.refusal is not None:
            raise self.refusal
        token, authzid = _parse(message)
        try:
            identity = self._rules.identity(self._verify(token), self._wall_ms())
        except AuthenticationRefused as refusal:
            self.refusal = refusal
            return json.dumps({"status": "invalid_token"}, separators=(",", ":")).encode(), None
        if authzid and authzid != user_name(identity.principal):
            raise AuthenticationRefused("the client wants to act as another user than its token's")
        return b"", identity


def _parse(message: bytes) -> tuple[str, str]:
    """Return the token and the name of who the client wants to be."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise AuthenticationRefused("the OAUTHBEARER message is too long")
    match = _MESSAGE.fullmatch(message.decode(errors="replace"))
    if match is None:
        raise AuthenticationRefused("the OAUTHBEARER message is not valid")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
    bearer = _BEARER.fullmatch(pairs.get("auth", "").strip())
    if bearer is None:
        raise AuthenticationRefused("the OAUTHBEARER message has no bearer token")
    return bearer[1], match["authzid"] or ""


def _milliseconds(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e12:
        raise AuthenticationRefused(f"the {name} claim of the token is not a time")
    return int(value * 1000)


def _scopes(value: Any) -> set[str]:
    if isinstance(value, str):
        return set(value.split())
    return {each for each in value if isinstance(each, str)} if isinstance(value, list) else set()
