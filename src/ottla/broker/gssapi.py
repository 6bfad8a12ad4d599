"""SASL GSSAPI (Kerberos), the server's side (RFC 4752); needs the package `gssapi`.

    client   tokens of GSSAPI, until the context is established
    server   wrapped: 1 (no security layer), and a maximum size of 0
    client   wrapped: 1, 0, and a name, which is ignored as Kafka does: the client is who its ticket says

The broker's key is in a keytab: `keyTab` and `principal` of the JAAS line, as for Java's Krb5LoginModule.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ottla.common.config.declaration import ConfigError
from ottla.common.config.listener_keys import ListenerConfig
from ottla.common.config.security_keys import GSSAPI, SaslKeys
from ottla.security.exchange import AuthenticationRefused, Identity
from ottla.security.jaas import JaasLogin
from ottla.security.kerberos_name import KerberosNames, KerberosRuleError
from ottla.wire.gssapi import KerberosLogin

NO_SECURITY_LAYER = b"\x01\x00\x00\x00"


@dataclass(frozen=True, slots=True)
class KerberosService:
    """The broker as a Kerberos service."""

    credentials: Any
    names: KerberosNames


def kerberos_service(own: ListenerConfig, login: JaasLogin | None) -> KerberosService:
    """Return the service of a listener's JAAS line; ConfigError if its key cannot be used."""
    key = own.name_of(SaslKeys.sasl_jaas_config, GSSAPI)
    try:
        import gssapi
        from gssapi.raw import GSSError
    except ImportError:
        raise ConfigError(
            "sasl.enabled.mechanisms", "GSSAPI needs a package: pip install 'ottla[kerberos]'"
        ) from None
    if login is None or "keyTab" not in login.options or "principal" not in login.options:
        raise ConfigError(
            key,
            "needs the key of this broker: com.sun.security.auth.module.Krb5LoginModule required "
            'useKeyTab=true storeKey=true keyTab="/etc/kafka.keytab" principal="kafka/HOST@REALM";',
        )
    keytab, principal = login.options["keyTab"], login.options["principal"]
    if not os.access(keytab, os.R_OK):
        raise ConfigError(key, f"the keytab {keytab} cannot be read")
    try:
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        credentials = gssapi.Credentials(name=name, usage="accept", store={"keytab": keytab})
        rules = own.value(SaslKeys.sasl_kerberos_principal_to_local_rules)
        names = KerberosNames(rules, principal.rpartition("@")[2])
    except GSSError as error:
        raise ConfigError(key, f"the key of {principal} cannot be used: {error}") from None
    except KerberosRuleError as error:
        raise ConfigError("sasl.kerberos.principal.to.local.rules", str(error)) from None
    return KerberosService(credentials, names)


def broker_login(own: ListenerConfig, login: JaasLogin | None) -> tuple[KerberosLogin, str]:
    """Return how this broker logs in to others, and its user name for them; ConfigError if it cannot."""
    if login is None:
        raise ConfigError(
            SaslKeys.sasl_mechanism_inter_broker_protocol.name,
            "is GSSAPI, Kafka's default, and there is no JAAS line of it; without Kerberos, "
            "set SCRAM-SHA-512 or PLAIN",
        )
    service = kerberos_service(own, login)
    principal = login.options["principal"]
    name = login.options.get("serviceName") or own.value(SaslKeys.sasl_kerberos_service_name)
    if name is None:
        raise ConfigError(
            SaslKeys.sasl_kerberos_service_name.name,
            f"is missing: other brokers are found by it, as `kafka` of kafka/HOST; this one is {principal}",
        )
    try:
        user = service.names.user_name(principal)
    except KerberosRuleError as error:
        raise ConfigError(SaslKeys.sasl_kerberos_principal_to_local_rules.name, str(error)) from None
    return KerberosLogin(name, principal, login.options["keyTab"]), user


class GssapiServer:
    """One exchange."""

    mechanism = GSSAPI

    def __init__(self, service: KerberosService) -> None:
        import gssapi

        self._names = service.names
        self._context = gssapi.SecurityContext(creds=service.credentials, usage="accept")
        self._has_offered = False

    def respond(self, message: bytes) -> tuple[bytes, Identity | None]:
        """Return the answer to a token."""
        from gssapi.raw import GSSError

        try:
            if self._has_offered:
                return b"", self._finish(self._context.unwrap(message).message)
            if not self._context.complete:
                answer = self._context.step(message) or b""
                if answer or not self._context.complete:
                    return answer, None
            self._has_offered = True
            return self._context.wrap(NO_SECURITY_LAYER, False).message, None
        except GSSError as error:
            raise AuthenticationRefused(f"Kerberos: {error}") from None

    def _finish(self, chosen: bytes) -> Identity:
        if len(chosen) < 4 or chosen[0] != 1:
            raise AuthenticationRefused("the client wants a security layer of Kerberos; use TLS")
        principal = str(self._context.initiator_name)
        try:
            return Identity.of_user(self._names.user_name(principal))
        except KerberosRuleError as error:
            raise AuthenticationRefused(str(error)) from None
