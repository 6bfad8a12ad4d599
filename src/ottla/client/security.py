"""What a connection needs to be encrypted and to log in, made from the options."""

from __future__ import annotations

import inspect
import ssl

from ottla.client.client_options import OAUTHBEARER, PLAIN, ClientOptions
from ottla.client.sasl import OAuthBearer, Plain, SaslExchange, Scram
from ottla.common.config.declaration import ConfigError
from ottla.common.ids import new_nonce


class Security:
    """The TLS context and the login of one client."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self.tls = _tls_context(options) if options.uses_tls else None
        self.uses_sasl = options.uses_sasl

    async def exchange(self) -> SaslExchange:
        """Return a fresh login; a token is asked for each time, as it may have been renewed."""
        options = self._options
        if options.sasl_mechanism == OAUTHBEARER:
            assert options.sasl_oauth_token_provider is not None
            token = options.sasl_oauth_token_provider()
            return OAuthBearer(await token if inspect.isawaitable(token) else token)
        username, password = options.sasl_plain_username or "", options.sasl_plain_password or ""
        if options.sasl_mechanism == PLAIN:
            return Plain(username, password)
        assert options.sasl_mechanism is not None
        return Scram(options.sasl_mechanism, username, password, new_nonce())


def _tls_context(options: ClientOptions) -> ssl.SSLContext:
    if options.ssl_context is not None:
        return options.ssl_context
    name = "ssl_cafile"
    try:
        context = ssl.create_default_context(cafile=options.ssl_cafile)
        context.check_hostname = options.ssl_check_hostname
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
        raise ConfigError(name, f"there is no file {getattr(options, name)}") from None
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(name, f"cannot be used: {error}") from None
    return context
