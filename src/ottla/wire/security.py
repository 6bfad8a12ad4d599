"""TLS context and SASL credentials of a connection."""

from __future__ import annotations

import asyncio
import inspect
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ottla.common.config.declaration import ConfigError
from ottla.common.ids import new_nonce
from ottla.common.tls import load_key_pair
from ottla.common.tls_stores import StoreSettings, read_authorities
from ottla.wire.gssapi import GssapiClient, KerberosLogin
from ottla.wire.sasl import OAuthBearer, Plain, SaslExchange, Scram

PLAIN, SCRAM_256, SCRAM_512, OAUTHBEARER = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"

NO_TRUSTSTORE = StoreSettings("ssl_truststore_location")
NO_KEYSTORE = StoreSettings("ssl_keystore_location")

TokenProvider = Callable[[], str | Awaitable[str]]
"""Returns a bearer token (a JWT) for SASL/OAUTHBEARER; called for each connection and re-authentication."""


@dataclass(frozen=True)
class SecurityOptions:
    """How a connection is encrypted and authenticated; the names are those of the client options."""

    uses_tls: bool = False
    ssl_context: ssl.SSLContext | None = None
    """Used as it is; the other ssl options are then ignored."""
    ssl_check_hostname: bool = True
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = field(default=None, repr=False)
    ssl_crlfile: str | None = None
    ssl_ciphers: str | None = None
    sasl_mechanism: str | None = None
    """None: no authentication."""
    sasl_username: str = ""
    sasl_password: str = field(default="", repr=False)
    sasl_token_provider: TokenProvider | None = None
    truststore: StoreSettings = NO_TRUSTSTORE
    keystore: StoreSettings = NO_KEYSTORE
    sasl_is_token: bool = False
    """Whether user and password are a delegation token, for SCRAM."""
    kerberos: KerberosLogin | None = None
    """For GSSAPI."""


class Security:
    """The TLS context and the credentials of a client's or a broker's connections."""

    def __init__(self, options: SecurityOptions) -> None:
        self._options = options
        self.tls = _tls_context(options) if options.uses_tls else None
        self.uses_sasl = options.sasl_mechanism is not None

    async def sasl_exchange(self, host: str) -> SaslExchange:
        """Return a new SASL exchange with the broker at a host.

        The token provider is called each time, as tokens expire.
        """
        options = self._options
        assert options.sasl_mechanism is not None
        if options.kerberos is not None:
            return await asyncio.to_thread(GssapiClient.start, options.kerberos, host)
        if options.sasl_mechanism == OAUTHBEARER:
            assert options.sasl_token_provider is not None
            token = options.sasl_token_provider()
            return OAuthBearer(await token if inspect.isawaitable(token) else token)
        if options.sasl_mechanism == PLAIN:
            return Plain(options.sasl_username, options.sasl_password)
        return Scram(
            options.sasl_mechanism,
            options.sasl_username,
            options.sasl_password,
            new_nonce(),
            is_token=options.sasl_is_token,
        )


def _tls_context(options: SecurityOptions) -> ssl.SSLContext:
    if options.ssl_context is not None:
        return options.ssl_context
    name = "ssl_cafile"
    try:
        trusted = read_authorities(options.truststore)
        context = ssl.create_default_context(cafile=options.ssl_cafile, cadata=trusted)
        context.check_hostname = options.ssl_check_hostname
        load_key_pair(context, options.keystore)
        if options.ssl_certfile is not None:
            name = "ssl_certfile"
            context.load_cert_chain(options.ssl_certfile, options.ssl_keyfile, options.ssl_password or "")
        if options.ssl_crlfile is not None:
            name = "ssl_crlfile"
            context.load_verify_locations(options.ssl_crlfile)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        if options.ssl_ciphers is not None:
            name = "ssl_ciphers"
            context.set_ciphers(options.ssl_ciphers)
    except FileNotFoundError:
        raise ConfigError(name, f"there is no file {getattr(options, name, '')}") from None
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(name, f"cannot be used: {error}") from None
    return context
