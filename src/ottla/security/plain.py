"""SASL PLAIN, the server's side (RFC 4616): one message, `[authzid] NUL user NUL password`."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from ottla.security.exchange import AuthenticationRefused, Identity

MAX_MESSAGE_BYTES = 8192
_NO_PASSWORD = "\0"
"""Compared with if there is no such user: no password contains a NUL."""


class PlainServer:
    """One exchange; `users` are passwords by user."""

    mechanism = "PLAIN"

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users

    def respond(self, message: bytes) -> tuple[bytes, Identity | None]:
        """Check user and password."""
        if len(message) > MAX_MESSAGE_BYTES:
            raise AuthenticationRefused("the PLAIN message is too long")
        try:
            parts = message.decode().split("\0")
        except UnicodeDecodeError:
            raise AuthenticationRefused("the PLAIN message is not UTF-8") from None
        if len(parts) != 3:
            raise AuthenticationRefused("the PLAIN message must have three parts: authzid, user, password")
        authzid, user, password = parts
        if not user or not password:
            raise AuthenticationRefused("the PLAIN message has no user name or no password")
        if authzid and authzid != user:
            raise AuthenticationRefused("the client wants to act as another user than it authenticates as")
        expected = self._users.get(user, _NO_PASSWORD)
        if not hmac.compare_digest(expected.encode(), password.encode()):
            raise AuthenticationRefused("Invalid username or password")
        return b"", Identity.of_user(user)
