"""Logins at an OpenID provider that are in progress: kept by the browser, not by the console.

What the console must remember of a login (its nonce, the PKCE verifier) is derived from the login's state by
a key of this process. So nothing is kept that a flood of begun logins could displace, and nothing that grows.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass

from ottla.common.clock import Clock
from ottla.common.ids import new_nonce

VALID_S = 600
_NONCE, _VERIFIER, _SEAL = b"nonce", b"verifier", b"seal"


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """A login that was sent to the provider, and what must come back."""

    state: str
    nonce: str
    verifier: str


class LoginAttempts:
    """Begins logins, and recognizes those that come back in the browser that began them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._key = new_nonce().encode()

    def begin(self) -> LoginAttempt:
        """Return a new login."""
        text = f"{new_nonce()}.{self._clock.wall_ms() + VALID_S * 1000}"
        return self._of(f"{text}.{self._derived(_SEAL, text)}")

    def find(self, state: str, begun_here: str) -> LoginAttempt | None:
        """Return the login of a state, if the browser's cookie names the same one and it is not too old.

        Another person's login, begun in another browser, must not be completed in this one.
        """
        text, _, seal = state.rpartition(".")
        is_ours = hmac.compare_digest(state.encode(), begun_here.encode())
        if not (is_ours and hmac.compare_digest(seal.encode(), self._derived(_SEAL, text).encode())):
            return None
        return self._of(state) if self._clock.wall_ms() <= int(text.rpartition(".")[2]) else None

    def _of(self, state: str) -> LoginAttempt:
        return LoginAttempt(state, self._derived(_NONCE, state), self._derived(_VERIFIER, state))

    def _derived(self, purpose: bytes, text: str) -> str:
        digest = hmac.digest(self._key, purpose + b":" + text.encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
