"""Verifies users of HTTP by logging in to a broker as them: one list of users for the whole cluster.

A password is tried with the mechanism that the brokers' users have (PLAIN, SCRAM), a token with OAUTHBEARER:
the broker decides, and nothing that it knows leaves it. A success is remembered for REMEMBERED_S (that of a
token no longer than the token is valid), by a keyed hash: no password is kept. A failure is not remembered;
at most MAX_LOGINS are tried at once, in the order of a `LoginQueue`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import stringprep
import unicodedata
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ottla.client.client_options import ClientOptions
from ottla.client.errors import AuthenticationFailed, ClientError
from ottla.common.clock import Clock, SystemClock
from ottla.http.authentication import VerifierUnavailable
from ottla.http.login_queue import LoginQueue
from ottla.protocol.errors import KafkaError
from ottla.wire.connection import Connection, ConnectionOptions
from ottla.wire.security import OAUTHBEARER, PLAIN, SCRAM_256, SCRAM_512

REMEMBERED_S = 60.0
MAX_REMEMBERED = 10_000
MAX_LOGINS = 8
MAX_CREDENTIAL_CHARS = 16_384
BY_PASSWORD = (SCRAM_512, SCRAM_256, PLAIN)


class BrokerUsers:
    """Verifies passwords and tokens; `options` say how brokers are reached, over a listener with SASL."""

    def __init__(
        self,
        options: ClientOptions,
        mechanism: str | None = None,
        *,
        name_claim: str = "sub",
        clock: Clock | None = None,
    ) -> None:
        own = options.sasl_mechanism if options.sasl_mechanism in BY_PASSWORD else None
        self._mechanism = mechanism or own or SCRAM_512
        self._protocol = "SASL_SSL" if options.uses_tls else "SASL_PLAINTEXT"
        self._options = options
        self._name_claim = name_claim
        self._clock = clock or SystemClock()
        self._secret = os.urandom(32)
        self._known: OrderedDict[bytes, tuple[float, str]] = OrderedDict()
        self._logins = LoginQueue(MAX_LOGINS)

    async def password(self, user: str, password: str, address: str = "") -> str | None:
        """Return `User:NAME` if a broker accepts the password."""
        if not password or len(user) + len(password) > MAX_CREDENTIAL_CHARS:
            return None
        if self._mechanism != PLAIN and not _is_prepared(user):
            return None
        options = replace(
            self._options,
            security_protocol=self._protocol,
            sasl_mechanism=self._mechanism,
            sasl_plain_username=user,
            sasl_plain_password=password,
        )
        return await self._verified(options, f"{user}\0{password}", f"User:{user}", address)

    async def token(self, token: str, address: str = "") -> str | None:
        """Return the principal of a token that a broker accepts."""
        claims = _claims(token)
        name = claims.get(self._name_claim)
        name = name.strip() if isinstance(name, str) else ""  # as brokers do
        if not name:
            return None
        options = replace(
            self._options,
            security_protocol=self._protocol,
            sasl_mechanism=OAUTHBEARER,
            sasl_oauth_token_provider=lambda: token,
        )
        return await self._verified(options, f"\0{token}", f"User:{name}", address, self._left_ms(claims))

    def _left_ms(self, claims: Mapping[str, Any]) -> float:
        """Return how long a token is valid; brokers accept none without an end."""
        expires_s = claims.get("exp")
        if isinstance(expires_s, bool) or not isinstance(expires_s, int | float):
            return 0
        return expires_s * 1000 - self._clock.wall_ms()

    async def _verified(
        self,
        options: ClientOptions,
        credentials: str,
        principal: str,
        address: str,
        left_ms: float = REMEMBERED_S * 1000,
    ) -> str | None:
        key = hmac.digest(self._secret, credentials.encode(), hashlib.sha256)
        if (known := self._remembered(key)) is not None:
            return known
        async with self._logins.slot(address, is_known=key in self._known):
            if (known := self._remembered(key)) is not None:  # verified while this request waited
                return known
            if not await self._logs_in(options):
                self._known.pop(key, None)
                return None
        self._known[key] = (self._clock.mono_ms() + min(left_ms, REMEMBERED_S * 1000), principal)
        self._known.move_to_end(key)
        while len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return principal

    def _remembered(self, key: bytes) -> str | None:
        until, principal = self._known.get(key, (0.0, ""))
        if until <= self._clock.mono_ms():
            return None
        self._known.move_to_end(key)
        return principal

    async def _logs_in(self, options: ClientOptions) -> bool:
        """Return whether the first broker that answers accepts the credentials."""
        connecting = ConnectionOptions(
            options.client_id,
            options.socket_connection_setup_timeout_ms,
            options.request_timeout_ms,
            options.socket_options,
            options.security(),
        )
        reasons = []
        for address in options.addresses:
            try:
                connection = await Connection.open(address, connecting)
            except AuthenticationFailed:
                return False
            except (ClientError, KafkaError, OSError) as error:
                reasons.append(str(error))
                continue
            connection.close()
            return True
        raise VerifierUnavailable("; ".join(reasons))


def _is_prepared(user: str) -> bool:
    """Return whether SCRAM sends a name as it is: another spelling would be another principal."""
    return unicodedata.normalize("NFKC", user) == user and not any(
        stringprep.in_table_b1(each) or stringprep.in_table_c12(each) for each in user
    )


def _claims(token: str) -> dict[str, Any]:
    """Return what a token says, unverified: it counts only after a broker has accepted the token."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > MAX_CREDENTIAL_CHARS:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
