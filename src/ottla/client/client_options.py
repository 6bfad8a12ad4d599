"""The options that all clients share: bootstrap servers, timeouts, retries, security."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from ottla.common.config.declaration import ConfigError
from ottla.common.config.options import Options, option
from ottla.common.config.types import (
    FUNCTION,
    OBJECT,
    SECRET,
    TEXT,
    WHOLE,
    Kind,
    at_least,
    choice,
    read_boolean,
)
from ottla.common.tls_stores import StoreSettings
from ottla.security.jaas import JaasLogin, parse_jaas
from ottla.wire.address import Address, parse_address, parse_addresses
from ottla.wire.backoff import Backoff
from ottla.wire.connection import ConnectionOptions
from ottla.wire.connection_pool import PoolOptions
from ottla.wire.security import (
    OAUTHBEARER,
    PLAIN,
    SCRAM_256,
    SCRAM_512,
    Security,
    SecurityOptions,
    TokenProvider,
)

_TLS_ONLY = (
    *("ssl_context", "ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile", "ssl_ciphers"),
    *("ssl_truststore_location", "ssl_truststore_certificates"),
    *("ssl_keystore_location", "ssl_keystore_certificate_chain"),
)
_STORE_TYPE = choice("JKS", "PKCS12", "PEM")


_PASSWORD_MODULES = ("PlainLoginModule", "ScramLoginModule")


def _password_login(text: str) -> JaasLogin:
    """Return the login of a JAAS line; raise ValueError if it has no user name and password."""
    login = parse_jaas(text)
    module = login.module.rpartition(".")[2]
    if module not in _PASSWORD_MODULES:
        raise ValueError(f"the login module {module} is not supported: {' and '.join(_PASSWORD_MODULES)} are")
    if not {"username", "password"} <= login.options.keys():
        raise ValueError("names no username and password")
    return login


def _addresses(value: Any) -> tuple[Address, ...]:
    if isinstance(value, str):
        return parse_addresses(value)
    try:
        found = tuple(each if isinstance(each, Address) else parse_address(each) for each in value)
    except TypeError:
        raise ValueError("must be HOST:PORT, or a list of them") from None
    except AttributeError:
        raise ValueError("must be HOST:PORT, or a list of them") from None
    if not found:
        raise ValueError("names no address: write HOST:PORT")
    return found


def _check_hostname(value: Any) -> bool:
    """Parse a boolean, or Java's values: `https` for true, an empty string for false."""
    if isinstance(value, str) and value.strip().lower() in ("https", "none", ""):
        return value.strip().lower() == "https"
    return read_boolean(value)


@dataclass(frozen=True)
class ClientOptions(Options):
    """The options of every client."""

    bootstrap_servers: str | Sequence[str] | Sequence[Address] = option(
        "localhost:9092",
        Kind("addresses", 0, _addresses),
        "Where the cluster is: HOST:PORT, several with commas or as a list.",
    )
    _: KW_ONLY
    client_id: str = option("ottla", TEXT, "The name by which brokers know this client, in logs and quotas.")
    request_timeout_ms: int = option(
        30_000, WHOLE, "How long one request may stay unanswered.", check=at_least(1)
    )
    default_api_timeout_ms: int = option(
        60_000,
        WHOLE,
        "How long a call that asks the cluster for something keeps trying.",
        check=at_least(1),
    )
    retry_backoff_ms: int = option(
        100, WHOLE, "The pause before something is tried again; it doubles each time.", check=at_least(1)
    )
    retry_backoff_max_ms: int = option(1_000, WHOLE, "The longest of these pauses.", check=at_least(1))
    reconnect_backoff_ms: int = option(
        50, WHOLE, "How long a broker that refused a connection is left alone; doubles.", check=at_least(1)
    )
    reconnect_backoff_max_ms: int = option(
        1_000, WHOLE, "The longest time that it is left alone.", check=at_least(1)
    )
    socket_connection_setup_timeout_ms: int = option(
        10_000, WHOLE, "How long it may take to connect and to authenticate.", check=at_least(1)
    )
    connections_max_idle_ms: int = option(
        540_000, WHOLE, "A connection unused for longer is replaced before its next use.", check=at_least(1)
    )
    metadata_max_age_ms: int = option(
        300_000, WHOLE, "After which time the leaders of partitions are asked for anew.", check=at_least(1)
    )
    send_buffer_bytes: int = option(-1, WHOLE, "The socket's SO_SNDBUF; -1: the system's.")
    receive_buffer_bytes: int = option(-1, WHOLE, "The socket's SO_RCVBUF; -1: the system's.")
    client_dns_lookup: str = option(
        "use_all_dns_ips", choice("use_all_dns_ips", "default"), "All addresses of a name are tried."
    )
    security_protocol: str = option(
        "PLAINTEXT",
        choice("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "Whether the connection is encrypted (SSL) and whether one logs in (SASL).",
    )
    ssl_context: ssl.SSLContext | None = option(  # noqa: RUF009
        None, OBJECT, "A context of one's own; the other ssl options are then not looked at."
    )
    ssl_check_hostname: bool = option(
        True,
        Kind("True or False", 0, _check_hostname),
        "Whether the certificate must be for the host that is connected to.",
        aliases=("ssl_endpoint_identification_algorithm",),
    )
    ssl_cafile: str | None = option(
        None, TEXT, "PEM file of who may sign brokers' certificates.", aliases=("ssl_ca_location",)
    )
    ssl_certfile: str | None = option(
        None, TEXT, "PEM file of our own certificate (mutual TLS).", aliases=("ssl_certificate_location",)
    )
    ssl_keyfile: str | None = option(
        None, TEXT, "PEM file of its key, if it is not in ssl_certfile.", aliases=("ssl_key_location",)
    )
    ssl_password: str | None = option(
        None, SECRET, "The password of that key.", aliases=("ssl_key_password",)
    )
    ssl_truststore_location: str | None = option(
        None, TEXT, "Java's trust store (JKS, PKCS12, or PEM), instead of ssl_cafile."
    )
    ssl_truststore_password: str | None = option(None, SECRET, "Its password.")
    ssl_truststore_type: str | None = option(None, _STORE_TYPE, "Its type; the file itself shows it.")
    ssl_truststore_certificates: str | None = option(None, TEXT, "The trusted certificates as PEM text.")
    ssl_keystore_location: str | None = option(
        None, TEXT, "Java's key store (JKS, PKCS12, or PEM), instead of ssl_certfile and ssl_keyfile."
    )
    ssl_keystore_password: str | None = option(None, SECRET, "Its password.")
    ssl_keystore_type: str | None = option(None, _STORE_TYPE, "Its type; the file itself shows it.")
    ssl_keystore_certificate_chain: str | None = option(None, TEXT, "Our certificate as PEM text.")
    ssl_keystore_key: str | None = option(None, SECRET, "Its key as PEM text.")
    ssl_crlfile: str | None = option(None, TEXT, "PEM file of revoked certificates.")
    ssl_ciphers: str | None = option(
        None, TEXT, "The ciphers to allow, as OpenSSL writes them.", aliases=("ssl_cipher_suites",)
    )
    sasl_mechanism: str | None = option(
        None,
        choice(PLAIN, SCRAM_256, SCRAM_512, OAUTHBEARER),
        "How to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
        aliases=("sasl_mechanisms",),
    )
    sasl_plain_username: str | None = option(
        None, TEXT, "The user, for PLAIN and SCRAM.", aliases=("sasl_username",)
    )
    sasl_plain_password: str | None = option(
        None, SECRET, "The password, for PLAIN and SCRAM.", aliases=("sasl_password",)
    )
    sasl_jaas_config: str | None = option(
        None, SECRET, "Java's login configuration, with user and password, for PLAIN and SCRAM."
    )
    sasl_oauth_token_provider: TokenProvider | None = option(  # noqa: RUF009
        None, FUNCTION, "Returns the token, for OAUTHBEARER; a function, or one to await."
    )

    REFUSED: ClassVar = {
        "sasl_kerberos_service_name": "Kerberos (GSSAPI) is not implemented",
        "api_version": "is not needed: what the broker speaks is asked of it",
        "metric_reporters": "is not implemented: give a producer interceptors, or read its stats()",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self._take_login()
        self._check_tls()
        self._check_sasl()

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The bootstrap servers."""
        return self.bootstrap_servers  # type: ignore[return-value]  # __post_init__ has parsed them

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether connections authenticate by SASL."""
        return self.security_protocol.startswith("SASL")

    @property
    def socket_options(self) -> tuple[tuple[int, int, int], ...]:
        """The socket options of each connection."""
        sizes = ((socket.SO_SNDBUF, self.send_buffer_bytes), (socket.SO_RCVBUF, self.receive_buffer_bytes))
        return tuple((socket.SOL_SOCKET, name, size) for name, size in sizes if size >= 0)

    def security(self) -> Security:
        """Return the TLS context and the credentials; raise ConfigError if a file cannot be read."""
        return Security(
            SecurityOptions(
                self.uses_tls,
                self.ssl_context,
                self.ssl_check_hostname,
                self.ssl_cafile,
                self.ssl_certfile,
                self.ssl_keyfile,
                self.ssl_password,
                self.ssl_crlfile,
                self.ssl_ciphers,
                self.sasl_mechanism,
                self.sasl_plain_username or "",
                self.sasl_plain_password or "",
                self.sasl_oauth_token_provider,
                self._truststore,
                self._keystore,
                self._is_delegation_token,
            )
        )

    def pool(self) -> PoolOptions:
        """Return the options of the connection pool."""
        connection = ConnectionOptions(
            self.client_id,
            self.socket_connection_setup_timeout_ms,
            self.request_timeout_ms,
            self.socket_options,
            self.security(),
        )
        backoff = Backoff(self.reconnect_backoff_ms, self.reconnect_backoff_max_ms)
        return PoolOptions(connection, backoff, self.connections_max_idle_ms)

    @property
    def _truststore(self) -> StoreSettings:
        return StoreSettings(
            "ssl_truststore_location",
            self.ssl_truststore_location,
            password=self.ssl_truststore_password,
            certificates=self.ssl_truststore_certificates,
        )

    @property
    def _keystore(self) -> StoreSettings:
        return StoreSettings(
            "ssl_keystore_location",
            self.ssl_keystore_location,
            password=self.ssl_keystore_password,
            key_password=self.ssl_password,
            private_key=self.ssl_keystore_key,
            certificates=self.ssl_keystore_certificate_chain,
        )

    def _take_login(self) -> None:
        """Take user and password from a login configuration of Java, unless they are given."""
        if self.sasl_jaas_config is None or not self.uses_sasl:
            return
        try:
            options = _password_login(self.sasl_jaas_config).options
        except ValueError as error:
            raise ConfigError("sasl_jaas_config", str(error)) from None
        if self.sasl_plain_username is None:
            object.__setattr__(self, "sasl_plain_username", options["username"])
            object.__setattr__(self, "sasl_plain_password", options["password"])

    @property
    def _is_delegation_token(self) -> bool:
        """Whether the user is a delegation token (`tokenauth="true"`)."""
        if self.sasl_jaas_config is None or not self.uses_sasl:
            return False
        return parse_jaas(self.sasl_jaas_config).options.get("tokenauth", "").lower() == "true"

    def _check_tls(self) -> None:
        given = [name for name in _TLS_ONLY if getattr(self, name) is not None]
        if given and not self.uses_tls:
            raise ConfigError(
                given[0], f"needs security_protocol SSL or SASL_SSL, not {self.security_protocol}"
            )

    def _check_sasl(self) -> None:
        if not self.uses_sasl:
            if self.sasl_mechanism is not None:
                raise ConfigError("sasl_mechanism", "needs security_protocol SASL_SSL or SASL_PLAINTEXT")
            return
        if self.sasl_mechanism is None:
            raise ConfigError("sasl_mechanism", f"is needed by security_protocol {self.security_protocol}")
        if self.sasl_mechanism == OAUTHBEARER:
            if self.sasl_oauth_token_provider is None:
                raise ConfigError("sasl_oauth_token_provider", "is needed by sasl_mechanism OAUTHBEARER")
        elif self.sasl_plain_username is None or self.sasl_plain_password is None:
            raise ConfigError(
                "sasl_plain_username", f"and sasl_plain_password are needed by {self.sasl_mechanism}"
            )
