"""Delegation tokens: short-lived credentials that a user hands to workers instead of its password (KIP-48).

The metadata log holds who may use a token and how long, never its secret. The secret is derived:

    HMAC = HMAC-SHA-512(delegation.token.secret.key, token id)

A client authenticates by SCRAM with `tokenauth=true`: the user name is the token id, and the password is the
HMAC in base64. All brokers of a cluster need the same secret key.
"""

from __future__ import annotations

import hmac as hmac_module
from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple


class DelegationToken(NamedTuple):
    """One token. Principals are written as `User:alice`, times in milliseconds since 1970."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the token is not valid any more."""
        return self.max_ms < now_ms or self.expiry_ms < now_ms

    def belongs_to(self, principal: str) -> bool:
        """Return whether the principal owns the token, created it for its owner, or may renew it."""
        return principal in (self.owner, self.requester, *self.renewers)


def token_hmac(token_id: str, secret_key: str) -> bytes:
    """Return the secret of a token."""
    return hmac_module.digest(secret_key.encode(), token_id.encode(), "sha512")


def token_password(token_id: str, secret_key: str) -> str:
    """Return the password with which a client authenticates by SCRAM."""
    return b64encode(token_hmac(token_id, secret_key)).decode()


def token_by_hmac(
    tokens: Mapping[str, DelegationToken], hmac: bytes, secret_key: str
) -> DelegationToken | None:
    """Return the token whose secret is `hmac`."""
    for token in tokens.values():
        if hmac_module.compare_digest(token_hmac(token.token_id, secret_key), hmac):
            return token
    return None


def usable_token(tokens: Mapping[str, DelegationToken], token_id: str, now_ms: int) -> DelegationToken | None:
    """Return the token that a client may authenticate with: it exists and is not expired."""
    token = tokens.get(token_id)
    return None if token is None or token.is_expired(now_ms) else token
