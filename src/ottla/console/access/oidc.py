"""Login by OpenID Connect: the authorization code flow with PKCE.

The provider's keys and addresses are read from its discovery document. It returns an ID token, whose
signature, issuer, audience, time and nonce are checked. A claim of it names the role.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from ottla.common.clock import Clock
from ottla.console.access.login_attempts import LoginAttempt
from ottla.console.access.roles import VIEWER, Role, parse_role

TIMEOUT_S = 10
MAX_BYTES = 1024 * 1024
LEEWAY_S = 60
_ON_THIS_MACHINE = frozenset({("http", "127.0.0.1"), ("http", "localhost"), ("http", "::1")})


class OidcError(Exception):
    """The provider did not respond, or its response cannot be trusted."""


@dataclass(frozen=True, slots=True)
class OidcOptions:
    """An OpenID provider, and how its claims name roles."""

    issuer: str
    client_id: str
    client_secret: str | None = None
    scopes: str = "openid profile email"
    role_claim: str = "roles"
    user_claim: str = "preferred_username"


class Oidc:
    """Talks to one provider; its calls wait, so they are made in threads."""

    def __init__(self, options: OidcOptions, clock: Clock) -> None:
        self.options = options
        self._clock = clock
        self._found: dict[str, Any] | None = None

    def start(self, redirect_uri: str, attempt: LoginAttempt) -> str:
        """Return where to send a person who wants to log in."""
        digest = hashlib.sha256(attempt.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.options.client_id,
            "redirect_uri": redirect_uri,
            "scope": self.options.scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        return f"{self._discovered()['authorization_endpoint']}?{urlencode(query)}"

    def finish(self, code: str, redirect_uri: str, attempt: LoginAttempt) -> tuple[str, Role]:
        """Return the name and the role of the user for an authorization code."""
        options = self.options
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": options.client_id,
            "code_verifier": attempt.verifier,
        }
        if options.client_secret is not None:
            form["client_secret"] = options.client_secret
        answer = _json(Request(self._discovered()["token_endpoint"], urlencode(form).encode()))
        claims = self._checked(str(answer.get("id_token", "")), attempt.nonce)
        user = claims.get(options.user_claim) or claims.get("email") or claims["sub"]
        return str(user), role_of(claims.get(options.role_claim))

    def _discovered(self) -> dict[str, Any]:
        if self._found is None:
            found = _json(Request(self.options.issuer.rstrip("/") + "/.well-known/openid-configuration"))
            if found.get("issuer") != self.options.issuer:
                raise OidcError(f"{self.options.issuer} calls itself {found.get('issuer')}")
            self._found = found
        return self._found

    def _checked(self, token: str, nonce: str) -> Mapping[str, Any]:
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        keys = KeySet.import_key_set(_json(Request(self._discovered()["jwks_uri"])))  # type: ignore[arg-type]
        try:
            claims = jwt.decode(token, keys, algorithms=["RS256", "ES256", "PS256"]).claims
        except (JoseError, ValueError) as error:
            raise OidcError(f"the provider's token cannot be trusted: {error}") from None
        audience = claims.get("aud")
        now = self._clock.wall_ms() / 1000
        if claims.get("iss") != self.options.issuer or claims.get("nonce") != nonce:
            raise OidcError("the token is for another login")
        if self.options.client_id not in (audience if isinstance(audience, list) else [audience]):
            raise OidcError("the token is for another application")
        expires_s = claims.get("exp")
        if not isinstance(expires_s, int | float) or not expires_s >= now - LEEWAY_S:
            raise OidcError("the token has expired")
        if not isinstance(claims.get("sub"), str):
            raise OidcError("the token does not say whom it is for")
        return claims


def role_of(claim: Any) -> Role:
    """Return the highest role that a claim names (`ottla-admin` or `admin`); viewer if it names none."""
    found = VIEWER
    for name in claim if isinstance(claim, list) else [claim]:
        try:
            found = max(found, parse_role(str(name).removeprefix("ottla-")))
        except ValueError:
            continue
    return found


def _json(request: Request) -> dict[str, Any]:
    parts = urlsplit(request.full_url)
    if parts.scheme != "https" and (parts.scheme, parts.hostname) not in _ON_THIS_MACHINE:
        raise OidcError(f"{request.full_url} is not https")
    try:
        with urlopen(request, timeout=TIMEOUT_S) as response:
            found = json.loads(response.read(MAX_BYTES))
    except (URLError, OSError, ValueError) as error:
        raise OidcError(f"the OpenID provider did not answer: {error}") from None
    if not isinstance(found, dict):
        raise OidcError("the OpenID provider answered with something else")
    return found
