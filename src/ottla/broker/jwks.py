"""The keys of an identity provider (JWKS), from a file or an allowed URL, and the check of signatures.

Only signatures with public keys are accepted: no `none`, and no shared secrets, whose "public" part would be
the secret itself. Keys are read again at an interval, and soon after a token names a key that is not known.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any

from ottla.broker.allowed_urls import check_url, read_url
from ottla.common.config.declaration import ConfigError
from ottla.security.exchange import AuthenticationRefused

log = logging.getLogger(__name__)

URL_KEY = "sasl.oauthbearer.jwks.endpoint.url"
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
KEY_TYPES = ("RSA", "EC", "OKP")
EARLY_REFRESH_S = 10.0
"""The shortest time between two readings because of unknown keys."""


class Jwks:
    """The keys, and the check of a token's signature with them."""

    def __init__(self, url: str, allowed: tuple[str, ...], refresh_ms: int) -> None:
        check_url(URL_KEY, url, allowed)
        _check_package()
        self.url = url
        self._refresh_s = refresh_ms / 1000
        self._timer: asyncio.TimerHandle | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._is_refresh_early = False
        try:
            self._keys = _key_set(json.loads(read_url(url)))
        except (OSError, ValueError, HTTPException) as error:
            raise ConfigError(URL_KEY, f"the keys at {url} cannot be read: {error}") from None

    def start(self) -> None:
        """Read the keys again at the interval."""
        self._timer = asyncio.get_running_loop().call_later(self._refresh_s, self._refresh)

    def stop(self) -> None:
        """Read them no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._refreshing is not None:
            self._refreshing.cancel()

    def verify(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token whose signature is valid, or raise AuthenticationRefused."""
        from joserfc import jws
        from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError

        try:
            key = self._keys.keys[0] if len(self._keys.keys) == 1 else self._keys
            payload = jws.deserialize_compact(token, key, algorithms=ALGORITHMS).payload
            claims = json.loads(payload)
        except InvalidKeyIdError:
            self._refresh_soon()
            raise AuthenticationRefused("the token is signed with a key that is not known") from None
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            if isinstance(error, BadSignatureError) and len(self._keys.keys) == 1:
                self._refresh_soon()  # the only key, used whatever its id is, may have been replaced
            raise AuthenticationRefused(f"the token is not valid ({type(error).__name__})") from None
        if not isinstance(claims, dict):
            raise AuthenticationRefused("the token has no claims")
        return claims

    def _refresh_soon(self) -> None:
        """Read the keys earlier than planned, but not more often than every few seconds."""
        if self._timer is not None and not self._is_refresh_early:
            self._is_refresh_early = True
            self._timer.cancel()
            delay_s = min(EARLY_REFRESH_S, self._refresh_s)
            self._refresh()
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._end_early)

    def _end_early(self) -> None:
        self._is_refresh_early = False
        self._timer = asyncio.get_running_loop().call_later(self._refresh_s, self._refresh)

    def _refresh(self) -> None:
        if self._refreshing is None:
            self._refreshing = asyncio.get_running_loop().create_task(self._read_again(), name="read JWKS")
        if not self._is_refresh_early:
            self.start()

    async def _read_again(self) -> None:
        try:
            document = await asyncio.to_thread(read_url, self.url)
            self._keys = _key_set(json.loads(document))
        except (OSError, ValueError, HTTPException) as error:
            log.warning("cannot read the keys at %s, keeping the previous ones: %s", self.url, error)
        finally:
            self._refreshing = None


def _check_package() -> None:
    try:
        import joserfc  # noqa: F401
    except ImportError:
        raise ConfigError(
            "sasl.enabled.mechanisms", "OAUTHBEARER needs a package: pip install 'ottla[security]'"
        ) from None


def _key_set(document: Any) -> Any:
    """Return the public keys of a JWKS document; ValueError if it has none."""
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    keys = document.get("keys") if isinstance(document, dict) else None
    usable = [
        each
        for each in keys or []
        if isinstance(each, dict) and each.get("kty") in KEY_TYPES and each.get("use", "sig") == "sig"
    ]
    if not usable:
        raise ValueError("it has no public keys for signatures")
    try:
        return KeySet.import_key_set({"keys": usable})
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"it is not a JWKS document ({error})") from None
