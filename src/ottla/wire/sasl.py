"""SASL mechanisms, client side, as pure code.

    PLAIN        one message: "" NUL user NUL password
    OAUTHBEARER  one message: "n,," 0x01 "auth=Bearer " token 0x01 0x01; the broker rejects it with JSON
                 (RFC 7628)
    SCRAM        client-first, server-first, client-final, server-final (RFC 5802, 7677), by `scramp`

An exchange starts with `first()`. Each challenge of the broker is passed to `respond`, which returns the
next message, or None when the exchange is complete. SaslError: the broker rejected the credentials, or does
not prove that it knows them.
"""

from __future__ import annotations

import json
import re
from typing import Protocol

MAX_ITERATIONS = 1_000_000
"""More would let a malicious broker keep the client busy for seconds; scramp allows ten times as many."""

_ITERATIONS = re.compile(r"(?:^|,)i=(\d+)")


class SaslError(Exception):
    """Authentication failed; the message is the reason."""


class SaslExchange(Protocol):
    """One authentication by one mechanism."""

    mechanism: str

    def first(self) -> bytes:
        """Return the first message of the client."""
        ...

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the response to the broker's challenge; None if the exchange is complete."""
        ...


class Plain:
    """User and password in clear text: for encrypted connections."""

    mechanism = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        self._message = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        """Return user and password."""
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        """Complete the exchange."""
        return None


class OAuthBearer:
    """A bearer token of an identity provider."""

    mechanism = "OAUTHBEARER"

    def __init__(self, token: str) -> None:
        self._token = token

    def first(self) -> bytes:
        """Return the token."""
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """Complete the exchange after an empty challenge; any other is the reason of a rejection."""
        if not challenge:
            return None
        try:
            reason = json.loads(challenge)["status"]
        except (ValueError, KeyError, TypeError):
            reason = challenge[:200].decode(errors="replace")
        raise SaslError(f"the token is not accepted ({reason})")


TOKEN_EXTENSION = ",tokenauth=true"


class Scram:
    """Proves that the client knows the password without sending it, and has the broker prove the same."""

    def __init__(
        self, mechanism: str, username: str, password: str, nonce: str, *, is_token: bool = False
    ) -> None:
        from scramp import ScramClient, ScramException  # loaded only where SCRAM is used

        self.mechanism = mechanism
        self._invalid = ScramException
        try:
            self._client = ScramClient([mechanism], username, password, c_nonce=nonce)
        except ScramException as error:
            raise SaslError(f"the user name or the password cannot be used: {error}") from None
        self._is_token = is_token
        self._is_proved = False

    def first(self) -> bytes:
        """Return the user and the client's nonce; for a delegation token, Kafka's extension says so."""
        message: str = self._client.get_client_first()
        if self._is_token:
            self._client.client_first_bare += TOKEN_EXTENSION
            message += TOKEN_EXTENSION
        return message.encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the client's proof; then check the broker's."""
        text = challenge.decode(errors="replace")
        if text.startswith("e="):
            raise SaslError(f"the user or the password is wrong ({text[2:]})")
        if self._is_proved:
            self._check_broker(text)
            return None
        count = _ITERATIONS.search(text)
        if count is not None and int(count[1]) > MAX_ITERATIONS:
            raise SaslError(f"the broker demands {count[1]} iterations, more than {MAX_ITERATIONS}")
        try:
            self._client.set_server_first(text)
            proof: str = self._client.get_client_final()
        except self._invalid as error:
            raise SaslError(f"the broker's first SCRAM message is invalid: {error}") from None
        self._is_proved = True
        return proof.encode()

    def _check_broker(self, server_final: str) -> None:
        try:
            self._client.set_server_final(server_final)
        except self._invalid:
            raise SaslError(
                "the broker does not know the password: it may not be the one it claims to be"
            ) from None
