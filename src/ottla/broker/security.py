"""What authenticates a broker's clients, and the broker to others: built from the configuration.

Certificates are read again when a file changes or when their keys are altered; connections that are open stay
as they are. If the new ones cannot be used, the old ones stay in force and the log says why.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence

from ottla.api.support.context import ClientConnection
from ottla.broker.gssapi import broker_login
from ottla.broker.oauth_tokens import BrokerTokens, broker_tokens
from ottla.broker.sasl_mechanisms import ListenerMechanisms, TokenCredentials, login_of
from ottla.common.clock import Clock
from ottla.common.config.authorization_keys import parse_super_users
from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import ConfigError, Key, Update
from ottla.common.config.listener_keys import ListenerConfig
from ottla.common.config.network_keys import NetworkKeys
from ottla.common.config.security_keys import GSSAPI, OAUTHBEARER, SaslKeys, TlsKeys
from ottla.common.listeners import Listener
from ottla.common.tls import (
    CertificateNames,
    TlsSettings,
    certificate_names,
    client_context,
    own_certificate,
    server_context,
)
from ottla.common.tls_stores import StoreSettings
from ottla.controller.machine.scram import parse_new_users
from ottla.metadata.state import ClusterState
from ottla.network.listener_security import ListenerSecurity
from ottla.security.certificate_name import PrincipalMapper, RuleError
from ottla.security.principal import user_principal
from ottla.wire.security import Security, SecurityOptions

log = logging.getLogger(__name__)

SECURITY_KEYS: tuple[Key[object], ...] = tuple(
    key
    for key in BrokerConfig.KEYS.values()
    if key.update is not Update.READ_ONLY
    and (key.per_listener or key.per_mechanism)
    and key.name not in NetworkKeys.KEYS
)
CHECK_INTERVAL_S = 2.0
"""How often the files of certificates are checked."""


class BrokerSecurity:
    """The security of all listeners, and of connections to other brokers."""

    def __init__(
        self, config: BrokerConfig, cluster: ClusterState, clock: Clock, *, stands_alone: bool
    ) -> None:
        parse_new_users(config.ottla_bootstrap_scram or "")  # a mistake here would leave no controller
        self._config = config
        self._stands_alone = stands_alone
        self._clock = clock
        self._tokens = TokenCredentials(cluster, clock, config.delegation_token_secret_key)
        self._mechanisms = {
            each.name: ListenerMechanisms(each, cluster, clock, self._tokens.find)
            for each in config.listener_list
            if each.uses_sasl
        }
        self.listeners: Mapping[str, ListenerSecurity] = {
            each.name: self._new_listener(each) for each in config.listener_list
        }
        self._names: dict[str, CertificateNames] = {}
        self._apply(config)
        self._broker_tokens = self._new_tokens()
        self.between_brokers = self._new_client()
        self._principal = self._own_principal()
        self._files = self._file_states()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Watch the files of certificates, if there are any."""
        if self._files:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(CHECK_INTERVAL_S, self._check_again)
        for each in self._mechanisms.values():
            each.start()
        config = self._config
        if self._mechanisms and config.zookeeper_connect is not None and not config.zookeeper_set_acl:
            log.warning(
                "anyone who reaches ZooKeeper can read the credentials of SCRAM users there; "
                "set zookeeper.sasl.* and zookeeper.set.acl=true"
            )

    def stop(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
        for each in self._mechanisms.values():
            each.stop()

    def change_config(self, config: BrokerConfig) -> None:
        """Use another configuration for new connections; what cannot be used is logged, and not used."""
        if config is self._config:
            return
        self._config = config
        self.reload()

    def check_change(self, config: BrokerConfig, keys: Sequence[str]) -> None:
        """Raise ConfigError if the certificates or users after a change of `keys` cannot be used."""
        if any(map(_is_of_listeners, keys)):
            self._prepare(config)
            if config.inter_broker_listener.uses_tls:
                client_context(tls_settings(config, config.inter_broker_listener))

    def reload(self) -> None:
        """Read the certificates and users again."""
        try:
            self._apply(self._config)
            if self.between_brokers is not None and self.between_brokers.tls is not None:
                settings = tls_settings(self._config, self._config.inter_broker_listener)
                self.between_brokers.tls = client_context(settings)
        except ConfigError as error:
            log.error(
                "the changed certificates or users cannot be used, keeping the previous ones: %s", error
            )
        else:
            log.info("read the certificates and users again")
        self._files = self._file_states()

    def is_broker(self, connection: ClientConnection) -> bool | None:
        """Return whether a connection may be another broker's; None: it has not authenticated yet."""
        if connection.listener_name != self._config.inter_broker_listener.name:
            return False
        if connection.sasl is not None and not connection.sasl.is_authenticated:
            return None
        principal = self._principal if self._broker_tokens is None else self._broker_tokens.principal
        return principal is None or connection.principal in (
            principal,
            *parse_super_users(self._config.super_users),
        )

    def plain_users(self, listener_name: str) -> list[str]:
        """Return the users of PLAIN on a listener."""
        return self._mechanisms[listener_name].plain_users

    def check_files(self) -> None:
        """Read everything again if a file has changed."""
        if self._file_states() != self._files:
            self.reload()

    def _check_again(self) -> None:
        self.check_files()
        self._timer = asyncio.get_running_loop().call_later(CHECK_INTERVAL_S, self._check_again)

    def _new_listener(self, listener: Listener) -> ListenerSecurity:
        own = self._config.for_listener(listener.name)
        security = ListenerSecurity()
        if listener.uses_tls:
            try:
                security.mapper = PrincipalMapper(own.value(TlsKeys.ssl_principal_mapping_rules))
            except RuleError as error:
                raise ConfigError("ssl.principal.mapping.rules", str(error)) from None
        if listener.uses_sasl:
            security.new_sasl = self._mechanisms[listener.name].new_session
        return security

    def _apply(self, config: BrokerConfig) -> None:
        """Build everything first, so that a mistake changes nothing."""
        for put_into_force in self._prepare(config):
            put_into_force()

    def _prepare(self, config: BrokerConfig) -> list[Callable[[], None]]:
        """Build what a configuration needs, or raise ConfigError; return what puts it into force."""
        contexts = {
            each.name: server_context(tls_settings(config, each))
            for each in config.listener_list
            if each.uses_tls
        }
        names = self._checked_names(config)
        prepared: list[Callable[[], None]] = [
            self._mechanisms[each.name].prepare(config) for each in config.listener_list if each.uses_sasl
        ]

        def use_certificates() -> None:
            for name, context in contexts.items():
                self.listeners[name].tls = context
            self._names = names

        return [use_certificates, *prepared]

    def _checked_names(self, config: BrokerConfig) -> dict[str, CertificateNames]:
        """Return whom the certificates are for; ConfigError if one may not take the place of the old one."""
        found = {}
        for listener in config.listener_list:
            names = certificate_names(tls_settings(config, listener)) if listener.uses_tls else None
            if names is None:
                continue
            found[listener.name] = names
            if (old := self._names.get(listener.name)) is not None:
                old.check_change(
                    names,
                    allow_subject=config.ssl_allow_dn_changes,
                    allow_hosts=config.ssl_allow_san_changes,
                )
        return found

    def _new_client(self) -> Security | None:
        """Return how this broker connects to others; None if there is nothing to encrypt or to prove."""
        config = self._config
        listener = config.inter_broker_listener
        if self._stands_alone or not (listener.uses_tls or listener.uses_sasl):
            return None
        mechanism = user = password = kerberos = None
        if listener.uses_sasl:
            mechanism, own = config.sasl_mechanism_inter_broker_protocol, config.for_listener(listener.name)
            if mechanism == GSSAPI:
                kerberos, _ = broker_login(own, login_of(own, GSSAPI))
            elif self._broker_tokens is None:
                user, password = _own_credentials(own, mechanism)
        tls = client_context(tls_settings(config, listener)) if listener.uses_tls else None
        return Security(
            SecurityOptions(
                uses_tls=listener.uses_tls,
                ssl_context=tls,
                sasl_mechanism=mechanism,
                sasl_username=user or "",
                sasl_password=password or "",
                sasl_token_provider=None if self._broker_tokens is None else self._broker_tokens.token,
                kerberos=kerberos,
            )
        )

    def _new_tokens(self) -> BrokerTokens | None:
        """Return where this broker gets its tokens for others; None if it uses none."""
        config = self._config
        listener = config.inter_broker_listener
        uses_tokens = config.sasl_mechanism_inter_broker_protocol == OAUTHBEARER
        if self._stands_alone or not listener.uses_sasl or not uses_tokens:
            return None
        own = config.for_listener(listener.name)
        return broker_tokens(config, own, login_of(own, OAUTHBEARER), self._clock)

    def _own_principal(self) -> str | None:
        """Return who this broker is for other brokers; None where brokers do not authenticate."""
        config = self._config
        listener = config.inter_broker_listener
        if self._stands_alone or self._broker_tokens is not None:
            return None
        if listener.uses_sasl:
            own, mechanism = config.for_listener(listener.name), config.sasl_mechanism_inter_broker_protocol
            if mechanism == GSSAPI:
                return user_principal(broker_login(own, login_of(own, GSSAPI))[1])
            return user_principal(_own_credentials(own, mechanism)[0])
        settings = tls_settings(config, listener)
        if not listener.uses_tls or settings.client_auth != "required":
            return None
        principal = self.listeners[listener.name].principal(own_certificate(settings))
        if principal is None:
            raise ConfigError(
                "ssl.principal.mapping.rules",
                "no rule is for the name in this broker's certificate: other brokers would refuse it",
            )
        return principal

    def _file_states(self) -> dict[str, tuple[int, int, int]]:
        files = {
            path
            for each in self._config.listener_list
            if each.uses_tls
            for path in tls_settings(self._config, each).files
        }
        states = {}
        for path in files:
            try:
                found = os.stat(path)
            except OSError:
                continue  # being replaced: the next check sees the new one
            states[path] = (found.st_mtime_ns, found.st_ino, found.st_size)
        return states


def tls_settings(config: BrokerConfig, listener: Listener) -> TlsSettings:
    """Return the `ssl.*` keys of a listener."""
    own = config.for_listener(listener.name)
    client_auth = own.value(TlsKeys.ssl_client_auth)
    if listener.uses_sasl:  # as in Kafka: a certificate beside SASL is asked for only where that is explicit
        client_auth = own.own(TlsKeys.ssl_client_auth) or "none"
    newest = own.value(TlsKeys.ssl_protocol)
    protocols = tuple(each for each in own.value(TlsKeys.ssl_enabled_protocols) if each <= newest)
    return TlsSettings(
        keystore=StoreSettings(
            "ssl.keystore.location",
            own.value(TlsKeys.ssl_keystore_location),
            own.value(TlsKeys.ssl_keystore_type),
            own.value(TlsKeys.ssl_keystore_password),
            own.value(TlsKeys.ssl_key_password),
            own.value(TlsKeys.ssl_keystore_key),
            own.value(TlsKeys.ssl_keystore_certificate_chain),
        ),
        truststore=StoreSettings(
            "ssl.truststore.location",
            own.value(TlsKeys.ssl_truststore_location),
            own.value(TlsKeys.ssl_truststore_type),
            own.value(TlsKeys.ssl_truststore_password),
            certificates=own.value(TlsKeys.ssl_truststore_certificates),
        ),
        client_auth=client_auth,
        protocols=protocols,
        cipher_suites=own.value(TlsKeys.ssl_cipher_suites),
        checks_hostname=own.value(TlsKeys.ssl_endpoint_identification_algorithm) != "",
    )


def _own_credentials(own: ListenerConfig, mechanism: str) -> tuple[str, str]:
    """Return the user name and password of this broker, from the JAAS line of the mechanism."""
    name = own.name_of(SaslKeys.sasl_jaas_config, mechanism)
    login = login_of(own, mechanism)
    if login is None or not {"username", "password"} <= login.options.keys():
        raise ConfigError(
            name, 'needs username="..." and password="...": with them this broker connects to others'
        )
    return login.options["username"], login.options["password"]


def _is_of_listeners(name: str) -> bool:
    """Return whether a key is one of TLS or SASL; unknown ones may be removed, and are not."""
    try:
        key = BrokerConfig.key(name)
    except ConfigError:
        return False
    return key.per_listener or key.per_mechanism
