"""How a client logs in: what it says first, and what it answers, as pure code.

    PLAIN        one message: "" NUL user NUL password
    OAUTHBEARER  one message: "n,," 0x01 "auth=Bearer " token 0x01 0x01; a refusal comes as JSON, and is
                 acknowledged with 0x01 (RFC 7628)
    SCRAM        client-first  n,,n=user,r=nonce
                 server-first  r=nonce+more,s=salt,i=iterations
                 client-final  c=biws,r=nonce+more,p=proof
                 server-final  v=signature, or e=reason           (RFC 5802, 7677)

An exchange begins with `first()`; each challenge of the broker is given to `answer`, which returns what
to say next, or None when the exchange is over. SaslRefused: the broker said no, or is not who it should be.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import stringprep
import unicodedata
from typing import Protocol

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 1_000_000
"""More would let a hostile broker keep the client busy for seconds."""

_GS2_HEADER = "n,,"


class SaslRefused(Exception):
    """The login has failed; says why."""


class SaslExchange(Protocol):
    """One login by one mechanism."""

    mechanism: str

    def first(self) -> bytes:
        """Return what the client says first."""
        ...

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the answer to the broker's challenge; None if nothing more is to be said."""
        ...


class Plain:
    """User and password in the clear: for encrypted connections."""

    mechanism = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        self._message = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        """Return user and password."""
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        """Say nothing more."""
        return None


class OAuthBearer:
    """A token that somebody else has issued."""

    mechanism = "OAUTHBEARER"

    def __init__(self, token: str) -> None:
        self._token = token
        self._refusal = ""

    def first(self) -> bytes:
        """Return the token."""
        return f"{_GS2_HEADER}\x01auth=Bearer {self._token}\x01\x01".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """Say nothing to an empty challenge; any other is the reason of a refusal."""
        if not challenge:
            return None
        try:
            reason = json.loads(challenge)["status"]
        except (ValueError, KeyError, TypeError):
            reason = challenge[:200].decode(errors="replace")
        raise SaslRefused(f"the token is not accepted ({reason})")


class Scram:
    """The password is proved without being sent, and the broker proves that it knows it too."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self.mechanism = mechanism
        self._hash = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
        self._password = saslprep(password).encode()
        self._nonce = nonce
        name = saslprep(username).replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._signature: bytes | None = None

    def first(self) -> bytes:
        """Return the user and our nonce."""
        return (_GS2_HEADER + self._first_bare).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the proof, and afterwards check the broker's own."""
        text = challenge.decode(errors="replace")
        said = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
        if "e" in said:
            raise SaslRefused(f"the user or the password is wrong ({said['e']})")
        if self._signature is None:
            return self._prove(text, said)
        if not hmac.compare_digest(_decoded(said.get("v", "")), self._signature):
            raise SaslRefused("the broker does not know the password: it may not be the one it claims to be")
        return None

    def _prove(self, server_first: str, said: dict[str, str]) -> bytes:
        nonce, salt = said.get("r", ""), _decoded(said.get("s", ""))
        count = said.get("i", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce or not salt or not count.isdecimal():
            raise SaslRefused("the broker's part of the SCRAM exchange makes no sense")
        iterations = int(count)
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise SaslRefused(f"the broker asks for {iterations} iterations")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        final_bare = f"c={_encoded(_GS2_HEADER.encode())},r={nonce}"
        signed = f"{self._first_bare},{server_first},{final_bare}".encode()
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{final_bare},p={_encoded(proof)}".encode()

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self._hash).digest()


def saslprep(value: str) -> str:
    """Return `value` as RFC 4013 writes user names and passwords, so that both sides mean the same."""
    mapped = "".join(
        " " if stringprep.in_table_c12(each) else each for each in value if not stringprep.in_table_b1(each)
    )
    prepared = unicodedata.normalize("NFKC", mapped)
    if any(stringprep.in_table_c21_c22(each) for each in prepared):
        raise SaslRefused("a user name or password has control characters in it")
    return prepared


def _encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        return b""
