"""SCRAM, the server's side (RFC 5802, RFC 7677), with Kafka's extension for delegation tokens.

    client-first   n,[a=authzid],n=user,r=nonce[,tokenauth=true]
    server-first   r=nonce+ours,s=salt,i=iterations
    client-final   c=base64 of the client's "n,[a=authzid],",r=nonce+ours,p=proof
    server-final   v=signature, or e=reason

    SaltedPassword  = PBKDF2(password, salt, iterations)      never stored
    StoredKey       = H(HMAC(SaltedPassword, "Client Key"))
    ServerKey       = HMAC(SaltedPassword, "Server Key")
    proof           = ClientKey xor HMAC(StoredKey, AuthMessage)

A user that does not exist gets a salt all the same, always the same one, and fails at the proof: a stranger
cannot find out who exists. Libraries make salts of different kinds, so the salt is of a kind that some user
has (`ScramParameters`); it is made for users that exist, too: both take the same time. User names and
passwords are used as they are, in UTF-8, as Kafka does.

librdkafka before 2.6.1 (Debian's kcat) puts its own nonce a second time before the nonce of its client-final
message. Kafka 3.8.1 to 3.9 accepts that, Kafka 4 refuses it; here it is accepted (decision 0240).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.security.exchange import AuthenticationRefused, Identity

MECHANISMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The mechanisms with their hash functions."""
MECHANISM_CODES = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""The numbers of the mechanisms in the protocol."""
MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
SALT_BYTES = 24
MAX_MESSAGE_BYTES = 8192
MAX_NONCE_CHARS = 512
MAX_PARAMETERS = 16
_JAVA_SALT_BITS = 130
_JAVA_SALT = re.compile(rb"[0-9a-z]{24,26}")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

_CLIENT_FIRST = re.compile(
    r"(?P<header>(?:n|y),(?:a=(?P<authzid>[^,]*))?,)"
    r"(?P<bare>n=(?P<user>[^,]*),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>(?:,[A-Za-z]+=[^,]*)*))"
)
_CLIENT_FINAL = re.compile(
    r"(?P<bare>c=(?P<channel>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+=[^,]*)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What the cluster stores of one user's password for one mechanism."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int = MIN_ITERATIONS


class ScramParameters(NamedTuple):
    """What a stranger sees of a credential, without the random part of its salt."""

    iterations: int = MIN_ITERATIONS
    salt_bytes: int = SALT_BYTES
    is_javas: bool = False
    """Whether the salt is the text of a number in base 36, as Kafka's own tools make it."""


USUAL_PARAMETERS = ScramParameters()


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """What SCRAM needs of a delegation token; the token id is the user name, its HMAC the password."""

    owner: str
    """The principal that the client becomes, such as `User:alice`."""
    credential: ScramCredential
    expires_at_ms: int
    """When the token expires, by the wall clock; the session ends with it."""


UserLookup = Callable[[str, str], ScramCredential | None]
"""Returns the credential of (mechanism, user)."""
TokenLookup = Callable[[str, str], TokenCredential | None]
"""Returns the credential of (mechanism, token id); None for a token that does not exist or has expired."""


def salt_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password: milliseconds of work."""
    return hashlib.pbkdf2_hmac(MECHANISMS[mechanism], password.encode(), salt, iterations)


def credential_of(mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return what is stored for a salted password."""
    name = MECHANISMS[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    server_key = hmac.digest(salted_password, b"Server Key", name)
    return ScramCredential(salt, hashlib.new(name, client_key).digest(), server_key, iterations)


def make_credential(mechanism: str, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """Return what is stored for a password."""
    return credential_of(mechanism, salt_password(mechanism, password, salt, iterations), salt, iterations)


def parameters_of(credentials: Iterable[ScramCredential]) -> tuple[ScramParameters, ...]:
    """Return the parameters of credentials, the most frequent first; there is always one."""
    parameters = Counter(
        ScramParameters(each.iterations, 0, is_javas=True)
        if _JAVA_SALT.fullmatch(each.salt)
        else ScramParameters(each.iterations, len(each.salt))
        for each in credentials
    )
    return tuple(each for each, _ in parameters.most_common(MAX_PARAMETERS)) or (USUAL_PARAMETERS,)


def fake_credential(
    mechanism: str, user: str, secret: bytes, parameters: Sequence[ScramParameters] = (USUAL_PARAMETERS,)
) -> ScramCredential:
    """Return a credential for a user that does not exist, always the same one; no password fits it.

    It has one of `parameters`: which one changes for some names only when another is added.
    """

    def derived(purpose: str) -> bytes:
        return hmac.digest(secret, f"{purpose}{mechanism}\0{user}".encode(), "sha512")

    iterations, salt_bytes, is_javas = parameters[0]
    if len(parameters) > 1:
        iterations, salt_bytes, is_javas = max(parameters, key=lambda each: derived(repr(tuple(each))))
    salt = derived("salt")
    if is_javas:
        salt = _base36(int.from_bytes(salt) >> 8 * len(salt) - _JAVA_SALT_BITS).encode()
    while len(salt) < salt_bytes:
        salt += derived(f"salt {len(salt)}")
    size = hashlib.new(MECHANISMS[mechanism]).digest_size
    return ScramCredential(
        salt if is_javas else salt[:salt_bytes],
        derived("stored")[:size],
        derived("server")[:size],
        iterations,
    )


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits


class ScramServer:
    """One exchange."""

    def __init__(
        self,
        mechanism: str,
        users: UserLookup,
        tokens: TokenLookup,
        fake: Callable[[str, str], ScramCredential],
        nonce: str,
    ) -> None:
        self.mechanism = mechanism
        self._hash = MECHANISMS[mechanism]
        self._users = users
        self._tokens = tokens
        self._fake = fake
        self._nonce = nonce
        self._client_nonce = ""
        self._credential: ScramCredential | None = None
        self._identity: Identity | None = None
        self._messages: list[str] = []
        self._header = ""

    def respond(self, message: bytes) -> tuple[bytes, Identity | None]:
        """Return the answer to a message, and the identity of the client when it has proved it."""
        if len(message) > MAX_MESSAGE_BYTES:
            raise AuthenticationRefused("the SCRAM message is too long")
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise AuthenticationRefused("the SCRAM message is not UTF-8") from None
        if self._credential is None:
            return self._first(text), None
        return self._final(text, self._credential)

    def _first(self, text: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None or len(match["nonce"]) > MAX_NONCE_CHARS:
            raise AuthenticationRefused("the client's first SCRAM message is not valid")
        user = _user_name(match["user"])
        if match["authzid"] and _user_name(match["authzid"]) != user:
            raise AuthenticationRefused("the client wants to act as another user than it authenticates as")
        extensions = dict(part.split("=", 1) for part in match["extensions"].split(",") if part)
        self._find(user, is_token=extensions.get("tokenauth", "").lower() == "true")
        assert self._credential is not None
        self._client_nonce = match["nonce"]
        self._nonce = self._client_nonce + self._nonce
        self._header = match["header"]
        salt = base64.b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._messages = [match["bare"], answer]
        return answer.encode()

    def _find(self, user: str, *, is_token: bool) -> None:
        """Look the credential up; one that does not exist is faked, and has no identity."""
        fake = self._fake(self.mechanism, user)  # always, so that it takes the same time
        if is_token:
            token = self._tokens(self.mechanism, user)
            if token is not None:
                self._credential = token.credential
                self._identity = Identity(token.owner, token.expires_at_ms, is_token=True)
        else:
            self._credential = self._users(self.mechanism, user)
            if self._credential is not None:
                self._identity = Identity.of_user(user)
        if self._credential is None:
            self._credential = fake

    def _final(self, text: str, credential: ScramCredential) -> tuple[bytes, Identity]:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise AuthenticationRefused("the client's final SCRAM message is not valid")
        channel, proof = _base64(match["channel"]), _base64(match["proof"])
        if channel != self._header.encode() or not self._has_our_nonce(match["nonce"]):
            raise AuthenticationRefused("the client's final SCRAM message does not belong to its first")
        said = ",".join((*self._messages, match["bare"])).encode()
        signature = hmac.digest(credential.stored_key, said, self._hash)
        is_proved = False
        if len(proof) == len(signature):
            client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
            stored_key = hashlib.new(self._hash, client_key).digest()
            is_proved = hmac.compare_digest(stored_key, credential.stored_key)
        if not is_proved or self._identity is None:
            raise AuthenticationRefused("Invalid username or password")
        answer = b"v=" + base64.b64encode(hmac.digest(credential.server_key, said, self._hash))
        return answer, self._identity

    def _has_our_nonce(self, said: str) -> bool:
        """Return whether a nonce is the one that we sent, or ends with it after the client's own."""
        repeated = said[len(self._client_nonce) :] if said.startswith(self._client_nonce) else said
        return any(hmac.compare_digest(each.encode(), self._nonce.encode()) for each in (said, repeated))


def _user_name(text: str) -> str:
    """Return a user name without its escapes: `=2C` is a comma, `=3D` an equals sign."""
    if re.search(r"=(?!2C|3D)", text) or not text:
        raise AuthenticationRefused("the user name in the client's SCRAM message is not valid")
    return text.replace("=2C", ",").replace("=3D", "=")


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise AuthenticationRefused("the client's final SCRAM message is not valid base64") from None
