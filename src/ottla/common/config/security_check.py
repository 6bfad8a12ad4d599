"""Check what no security key can check alone: each listener's protocol with what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.common.config.declaration import ConfigError
from ottla.common.config.security_keys import OAUTHBEARER, PLAIN, OAuthKeys, SaslKeys, TlsKeys

if TYPE_CHECKING:
    from ottla.common.config.broker import BrokerConfig
    from ottla.common.listeners import Listener


def check_security(config: BrokerConfig) -> None:
    """Raise ConfigError if a listener lacks what its protocol needs."""
    if config.sasl_jaas_config is not None:
        raise ConfigError(
            "sasl.jaas.config",
            "is set for one mechanism of one listener: "
            "listener.name.NAME.MECHANISM.sasl.jaas.config, such as "
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config",
        )
    for listener in config.listener_list:
        if listener.uses_tls:
            _check_tls(config, listener)
        if listener.uses_sasl:
            _check_sasl(config, listener)
    _check_between_brokers(config)
    if 0 <= config.connections_max_idle_ms <= config.connection_failed_authentication_delay_ms:
        raise ConfigError(
            "connection.failed.authentication.delay.ms", "must be less than connections.max.idle.ms"
        )


def _check_tls(config: BrokerConfig, listener: Listener) -> None:
    own = config.for_listener(listener.name)
    key, chain = own.value(TlsKeys.ssl_keystore_key), own.value(TlsKeys.ssl_keystore_certificate_chain)
    if own.value(TlsKeys.ssl_keystore_location) is None and (key is None or chain is None):
        raise ConfigError(
            "ssl.keystore.location",
            f"is missing: listener {listener.name} uses {listener.security_protocol} and needs a certificate",
        )


def _check_sasl(config: BrokerConfig, listener: Listener) -> None:
    own = config.for_listener(listener.name)
    mechanisms = own.value(SaslKeys.sasl_enabled_mechanisms)
    if not mechanisms:
        raise ConfigError("sasl.enabled.mechanisms", f"is empty, but listener {listener.name} uses SASL")
    if PLAIN in mechanisms:
        if not listener.uses_tls and not config.ottla_sasl_plain_without_tls_enable:
            raise ConfigError(
                "sasl.enabled.mechanisms",
                f"listener {listener.name} would let PLAIN send passwords without TLS; use SASL_SSL, or "
                "SCRAM-SHA-512. To allow it: ottla.sasl.plain.without.tls.enable=true",
            )
        if own.own(SaslKeys.sasl_jaas_config, PLAIN) is None:
            raise ConfigError(
                own.name_of(SaslKeys.sasl_jaas_config, PLAIN),
                "is missing: it has the users of PLAIN, as in "
                'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";',
            )
    keys = own.value(OAuthKeys.sasl_oauthbearer_jwks_endpoint_url, OAUTHBEARER)
    if OAUTHBEARER in mechanisms and keys is None:
        raise ConfigError(
            "sasl.oauthbearer.jwks.endpoint.url",
            f"is missing: without keys, listener {listener.name} cannot check tokens. "
            "It is a file:// or https:// URL",
        )


def _check_between_brokers(config: BrokerConfig) -> None:
    name, protocol = config.inter_broker_listener_name, config.security_inter_broker_protocol
    known = ", ".join(each.name for each in config.listener_list)
    if name is not None and protocol is not None:
        raise ConfigError(
            "inter.broker.listener.name", "and security.inter.broker.protocol exclude each other; set one"
        )
    if name is not None and name.upper() not in {each.name for each in config.listener_list}:
        raise ConfigError("inter.broker.listener.name", f"no listener is called {name.upper()}: {known}")
    if protocol is not None and protocol not in {each.security_protocol for each in config.listener_list}:
        raise ConfigError("security.inter.broker.protocol", f"no listener uses {protocol}: {known}")
