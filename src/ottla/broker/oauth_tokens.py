"""The bearer token with which this broker authenticates to others, from a file or a token endpoint.

A file is read for each connection. A token endpoint is asked with OAuth's client credentials grant (RFC 6749,
4.4), and again after most of the token's lifetime. The broker reads its own principal off the token; other
brokers check its signature (broker/jwks.py).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode, urlsplit

from ottla.broker.allowed_urls import check_url, read_url
from ottla.common.clock import Clock
from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import ConfigError
from ottla.common.config.listener_keys import ListenerConfig
from ottla.common.config.security_keys import OAUTHBEARER, OAuthKeys, SaslKeys
from ottla.security.jaas import JaasLogin
from ottla.security.principal import user_principal
from ottla.wire.sasl import SaslError

URL_KEY = OAuthKeys.sasl_oauthbearer_token_endpoint_url.name
USED_PART = 0.8
"""The part of a token's lifetime after which the next is fetched."""


class BrokerTokens:
    """Returns tokens, and whom they are for."""

    def __init__(self, url: str, form: dict[str, str], login: str, user_claim: str, clock: Clock) -> None:
        self._url = url
        self._body = urlencode(form).encode()
        self._headers = {
            "Authorization": f"Basic {login}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        self._user_claim = user_claim
        self._clock = clock
        self._token = ""
        self._fresh_until_ms = 0
        self.principal = ""
        """Who this broker is for others."""
        self._keep(self._fetch())

    async def token(self) -> str:
        """Return a token that is valid for a while."""
        if self._clock.wall_ms() >= self._fresh_until_ms:
            try:
                self._keep(await asyncio.to_thread(self._fetch))
            except (OSError, ValueError, HTTPException) as error:
                raise SaslError(f"there is no token at {self._url}: {error}") from None
        return self._token

    def _fetch(self) -> str:
        if urlsplit(self._url).scheme == "file":
            return read_url(self._url).decode("ascii").strip()
        answer = json.loads(read_url(self._url, self._body, self._headers))
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(token, str):
            raise ValueError("the answer has no access_token")
        return token

    def _keep(self, token: str) -> None:
        claims = _claims_of(token)
        user, expires_s = claims.get(self._user_claim), claims.get("exp")
        if not isinstance(user, str) or not isinstance(expires_s, int | float):
            raise ValueError(f"the token has no claim {self._user_claim!r} or no expiry")
        now_ms = self._clock.wall_ms()
        is_file = urlsplit(self._url).scheme == "file"
        self._fresh_until_ms = 0 if is_file else now_ms + int((expires_s * 1000 - now_ms) * USED_PART)
        self._token, self.principal = token, user_principal(user)


def broker_tokens(
    config: BrokerConfig, own: ListenerConfig, login: JaasLogin | None, clock: Clock
) -> BrokerTokens:
    """Return the tokens of this broker; ConfigError if there are none."""
    url = own.value(OAuthKeys.sasl_oauthbearer_token_endpoint_url, OAUTHBEARER)
    if url is None:
        raise ConfigError(
            own.name_of(OAuthKeys.sasl_oauthbearer_token_endpoint_url, OAUTHBEARER),
            "is missing: sasl.mechanism.inter.broker.protocol=OAUTHBEARER needs tokens of this broker",
        )
    check_url(URL_KEY, url, config.org_apache_kafka_sasl_oauthbearer_allowed_urls)
    options = {} if login is None else login.options
    if urlsplit(url).scheme != "file" and not {"clientId", "clientSecret"} <= options.keys():
        raise ConfigError(
            own.name_of(SaslKeys.sasl_jaas_config, OAUTHBEARER),
            'needs clientId="..." and clientSecret="...": with them this broker gets its token',
        )
    form = {"grant_type": "client_credentials"}
    if "scope" in options:
        form["scope"] = options["scope"]
    credentials = f"{options.get('clientId', '')}:{options.get('clientSecret', '')}"
    encoded = base64.b64encode(credentials.encode()).decode()
    user_claim = own.value(OAuthKeys.sasl_oauthbearer_sub_claim_name, OAUTHBEARER)
    try:
        return BrokerTokens(url, form, encoded, user_claim, clock)
    except (OSError, ValueError, HTTPException) as error:
        raise ConfigError(URL_KEY, f"there is no token at {url}: {error}") from None


def _claims_of(token: str) -> dict[str, Any]:
    """Return the claims of a token of our own, unchecked."""
    try:
        _, payload, _ = token.split(".")
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, binascii.Error):
        raise ValueError("it is not a signed token (JWT)") from None
    if not isinstance(claims, dict):
        raise ValueError("the token has no claims")
    return claims
