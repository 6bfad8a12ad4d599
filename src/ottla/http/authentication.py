"""Identifies the user of a request: by password, by bearer token, or by the certificate of the connection.

Passwords and tokens are verified by a `Verifier`: `BrokerUsers` lets the brokers do it, so that users of HTTP
are the users of the brokers. A request without credentials is answered with 401 before its body is read.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection
from typing import Protocol

from ottla.http.app import Request
from ottla.http.errors import HttpError

BASIC, BEARER, CERTIFICATE = "basic", "bearer", "certificate"
METHODS = (BASIC, BEARER, CERTIFICATE)
OPEN_PATHS = frozenset({"/", "/health", "/healthz", "/readyz"})
"""Paths that need no login: probes."""


class Unauthorized(HttpError):
    """The request has no credentials, or wrong ones."""

    def __init__(self, challenges: Collection[str], message: str = "Unauthorized") -> None:
        super().__init__(401, 401, message)
        self.headers = tuple((b"www-authenticate", each.encode()) for each in challenges)


class VerifierUnavailable(Exception):
    """Credentials cannot be verified now."""


class Verifier(Protocol):
    """Knows the users."""

    async def password(self, user: str, password: str, address: str = "") -> str | None:
        """Return the principal of a user with this password; None if it is wrong. VerifierUnavailable."""
        ...

    async def token(self, token: str, address: str = "") -> str | None:
        """Return the principal that a token was issued to; None if it is not valid. VerifierUnavailable."""
        ...


class Authenticator:
    """Sets the principal of each request, by the methods that are allowed."""

    def __init__(
        self, methods: Collection[str], verifier: Verifier | None = None, *, realm: str = "ottla"
    ) -> None:
        unknown = sorted(set(methods) - set(METHODS))
        if unknown or not methods:
            raise ValueError(
                f"authentication is by {', '.join(METHODS)}, not {', '.join(unknown) or 'nothing'}"
            )
        if verifier is None and set(methods) & {BASIC, BEARER}:
            raise ValueError("passwords and tokens need something that verifies them")
        self._methods = frozenset(methods)
        self._verifier = verifier
        known = {BASIC: f'Basic realm="{realm}", charset="UTF-8"', BEARER: f'Bearer realm="{realm}"'}
        self._challenges = [known[each] for each in METHODS if each in known and each in self._methods]

    async def __call__(self, request: Request) -> None:
        """Set the principal; raise 401 or 503."""
        if request.route in OPEN_PATHS:
            return
        try:
            principal = await self._principal(request)
        except VerifierUnavailable as error:
            raise HttpError(503, 503, f"Credentials cannot be verified: {error}") from None
        if principal is None:
            raise Unauthorized(self._challenges)
        request.principal = principal

    async def _principal(self, request: Request) -> str | None:
        scheme, _, rest = request.headers.get("authorization", "").partition(" ")
        scheme = scheme.lower()
        if scheme == BASIC and BASIC in self._methods and self._verifier is not None:
            given = _user_and_password(rest.strip())
            return None if given is None else await self._verifier.password(*given, request.host)
        if scheme == BEARER and BEARER in self._methods and self._verifier is not None:
            return await self._verifier.token(rest.strip(), request.host) if rest.strip() else None
        if not scheme and CERTIFICATE in self._methods and request.certificate_name:
            return f"User:{request.certificate_name}"
        return None


def _user_and_password(text: str) -> tuple[str, str] | None:
    try:
        user, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (user, password) if colon and user else None
