"""Broker keys of authentication: TLS stores, SASL mechanisms, sessions.

Keys with `per_listener` can be set for one listener, `listener.name.NAME.KEY`; those with `per_mechanism` for
one mechanism of it, `listener.name.NAME.MECHANISM.KEY` (listener_keys.py).
"""

from __future__ import annotations

from ottla.common.config.declaration import Config, Importance, Key, Update
from ottla.common.config.types import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    PASSWORD,
    STRING,
    Check,
    at_least,
    list_of,
    one_of,
)
from ottla.common.units import HOUR_MS, KIB

HIGH, LOW = Importance.HIGH, Importance.LOW
PER_BROKER = Update.PER_BROKER

PLAIN, GSSAPI, OAUTHBEARER = "PLAIN", "GSSAPI", "OAUTHBEARER"
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (GSSAPI, PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
STORE_TYPES = ("PEM", "PKCS12", "JKS")
CLIENT_AUTH = ("required", "requested", "none")

_OR_UNSET = Check("one of " + ", ".join(STORE_TYPES), lambda value: value is None or value in STORE_TYPES)
_LOGIN_HANDLER = Check(
    "Kafka's OAuthBearerLoginCallbackHandler, which is built in",
    lambda value: value is None or value.rsplit(".", 1)[-1] == "OAuthBearerLoginCallbackHandler",
)
_VALIDATOR = Check(
    "Kafka's OAuthBearerValidatorCallbackHandler, which is built in",
    lambda value: value is None or value.rsplit(".", 1)[-1] == "OAuthBearerValidatorCallbackHandler",
)


class TlsKeys(Config):
    """TLS on listeners, and between brokers."""

    ssl_keystore_type: Key[str | None] = Key(
        "ssl.keystore.type",
        STRING,
        None,
        "The format of the keystore: `PEM`, `PKCS12` or `JKS`; if unset, it is read off the file.",
        check=_OR_UNSET,
        update=PER_BROKER,
        per_listener=True,
        kafka_default="JKS",
    )
    ssl_keystore_location: Key[str | None] = Key(
        "ssl.keystore.location",
        STRING,
        None,
        "The file with the broker's private key and its certificate chain. A changed file is read again "
        "within seconds.",
        update=PER_BROKER,
        importance=HIGH,
        per_listener=True,
    )
    ssl_keystore_password: Key[str | None] = Key(
        "ssl.keystore.password",
        PASSWORD,
        None,
        "The password of a PKCS12 keystore.",
        update=PER_BROKER,
        importance=HIGH,
        per_listener=True,
    )
    ssl_key_password: Key[str | None] = Key(
        "ssl.key.password",
        PASSWORD,
        None,
        "The password of the private key.",
        update=PER_BROKER,
        importance=HIGH,
        per_listener=True,
    )
    ssl_keystore_key: Key[str | None] = Key(
        "ssl.keystore.key",
        PASSWORD,
        None,
        "The private key itself, in PEM (PKCS#8), instead of a file.",
        update=PER_BROKER,
        per_listener=True,
    )
    ssl_keystore_certificate_chain: Key[str | None] = Key(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "The certificate chain itself, in PEM, instead of a file.",
        update=PER_BROKER,
        per_listener=True,
    )
    ssl_truststore_type: Key[str | None] = Key(
        "ssl.truststore.type",
        STRING,
        None,
        "The format of the truststore: `PEM`, `PKCS12` or `JKS`; if unset, it is read off the file.",
        check=_OR_UNSET,
        update=PER_BROKER,
        per_listener=True,
        kafka_default="JKS",
    )
    ssl_truststore_location: Key[str | None] = Key(
        "ssl.truststore.location",
        STRING,
        None,
        "The file with the authorities that may sign certificates of clients, and of other brokers.",
        update=PER_BROKER,
        importance=HIGH,
        per_listener=True,
    )
    ssl_truststore_password: Key[str | None] = Key(
        "ssl.truststore.password",
        PASSWORD,
        None,
        "The password of a PKCS12 truststore.",
        update=PER_BROKER,
        importance=HIGH,
        per_listener=True,
    )
    ssl_truststore_certificates: Key[str | None] = Key(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        "The authorities themselves, in PEM, instead of a file.",
        update=PER_BROKER,
        per_listener=True,
    )
    ssl_client_auth = Key(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether clients must (`required`) or may (`requested`) present a certificate. A SASL_SSL listener "
        "takes it only from `listener.name.NAME.ssl.client.auth`.",
        check=one_of(*CLIENT_AUTH),
        update=PER_BROKER,
        per_listener=True,
    )
    ssl_enabled_protocols = Key(
        "ssl.enabled.protocols",
        LIST,
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that are accepted.",
        check=list_of(*TLS_VERSIONS),
        update=PER_BROKER,
        per_listener=True,
    )
    ssl_protocol = Key(
        "ssl.protocol",
        STRING,
        "TLSv1.3",
        "The newest version of TLS that is accepted, of those in `ssl.enabled.protocols`.",
        check=one_of(*TLS_VERSIONS),
        update=PER_BROKER,
        per_listener=True,
    )
    ssl_cipher_suites: Key[tuple[str, ...] | None] = Key(
        "ssl.cipher.suites",
        LIST,
        None,
        "The cipher suites that are accepted, with Java's or OpenSSL's names; if unset, OpenSSL's defaults.",
        update=PER_BROKER,
        importance=LOW,
        per_listener=True,
    )
    ssl_endpoint_identification_algorithm = Key(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "`https`: the certificate of another broker must name the host that is connected to; empty: it "
        "need not.",
        check=Check("https, or empty", lambda value: value.lower() in ("https", "")),
        update=PER_BROKER,
        importance=LOW,
        per_listener=True,
    )
    ssl_allow_dn_changes = Key(
        "ssl.allow.dn.changes",
        BOOLEAN,
        False,
        "Whether a certificate may be replaced while the broker runs by one with another distinguished name.",
        importance=LOW,
    )
    ssl_allow_san_changes = Key(
        "ssl.allow.san.changes",
        BOOLEAN,
        False,
        "Whether a certificate may be replaced while the broker runs by one that lacks a host name "
        "(subject alternative name) of the old one.",
        importance=LOW,
    )
    ssl_principal_mapping_rules = Key(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        "How the distinguished name of a client's certificate becomes a user name: "
        "`RULE:pattern/replacement/[LU]`, several with commas; the first that matches is used, `DEFAULT` "
        "is the whole name.",
        importance=LOW,
        per_listener=True,
    )


class SaslKeys(Config):
    """SASL on listeners, and between brokers."""

    security_inter_broker_protocol: Key[str | None] = Key(
        "security.inter.broker.protocol",
        STRING,
        None,
        "The security protocol between brokers: they use the listener that has it. "
        "`inter.broker.listener.name` names the listener itself; set one of the two.",
        check=Check(
            "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
            lambda value: value is None or value in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        ),
        kafka_default="PLAINTEXT",
    )
    sasl_enabled_mechanisms = Key(
        "sasl.enabled.mechanisms",
        LIST,
        (GSSAPI,),
        "The SASL mechanisms that clients may use.",
        check=list_of(*MECHANISMS),
        update=PER_BROKER,
        per_listener=True,
    )
    sasl_mechanism_inter_broker_protocol = Key(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        GSSAPI,
        "The SASL mechanism between brokers: PLAIN or SCRAM, whose JAAS line has the user name and password, "
        "OAUTHBEARER with tokens of `sasl.oauthbearer.token.endpoint.url`, or GSSAPI with the `keyTab` and "
        "`principal` of the JAAS line.",
        check=one_of(*MECHANISMS),
    )
    sasl_jaas_config: Key[str | None] = Key(
        "sasl.jaas.config",
        PASSWORD,
        None,
        "The JAAS line of one mechanism of one listener: "
        '`listener.name.NAME.MECHANISM.sasl.jaas.config`. For PLAIN it has the users, `user_alice="..."`; '
        "for any mechanism `username` and `password` are those of this broker among brokers; for OAUTHBEARER "
        "`clientId`, `clientSecret` and `scope` are.",
        update=PER_BROKER,
        per_mechanism=True,
    )
    sasl_server_callback_handler_class: Key[str | None] = Key(
        "sasl.server.callback.handler.class",
        STRING,
        None,
        "For OAUTHBEARER, Kafka's validator of signed tokens may be named here; it is always used.",
        check=_VALIDATOR,
        per_listener=True,
        per_mechanism=True,
    )
    sasl_login_callback_handler_class: Key[str | None] = Key(
        "sasl.login.callback.handler.class",
        STRING,
        None,
        "For OAUTHBEARER between brokers, Kafka's source of tokens may be named here; it is always used.",
        check=_LOGIN_HANDLER,
        per_listener=True,
        per_mechanism=True,
    )
    sasl_server_max_receive_size = Key(
        "sasl.server.max.receive.size",
        INT,
        64 * KIB,
        "The largest request of a client that has not authenticated yet.",
        check=at_least(1024),
        kafka_default=str(512 * KIB),
    )
    sasl_kerberos_service_name: Key[str | None] = Key(
        "sasl.kerberos.service.name",
        STRING,
        None,
        "The first part of the brokers' Kerberos principals, such as `kafka` of `kafka/host@REALM`.",
        per_listener=True,
    )
    sasl_kerberos_principal_to_local_rules = Key(
        "sasl.kerberos.principal.to.local.rules",
        LIST,
        ("DEFAULT",),
        "How a Kerberos principal becomes a user name: rules in the syntax of `auth_to_local`; `DEFAULT` is "
        "its first part, for principals of the default realm.",
        per_listener=True,
    )
    connections_max_reauth_ms = Key(
        "connections.max.reauth.ms",
        LONG,
        0,
        "How long an authentication by SASL is valid; then the client authenticates again (KIP-368), or the "
        "connection is closed. 0: never, or when its token expires.",
        check=at_least(0),
        per_listener=True,
        per_mechanism=True,
    )
    connection_failed_authentication_delay_ms = Key(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        "How long the answer to a failed authentication is delayed; must be less than "
        "`connections.max.idle.ms`.",
        check=at_least(0),
        importance=LOW,
    )
    ottla_sasl_plain_without_tls_enable = Key(
        "ottla.sasl.plain.without.tls.enable",
        BOOLEAN,
        False,
        "Whether PLAIN may be offered on a listener without TLS, where anyone on the way can read passwords.",
    )
    ottla_bootstrap_scram: Key[str | None] = Key(
        "ottla.bootstrap.scram",
        PASSWORD,
        None,
        "SCRAM users that the controller adds if they do not exist: "
        "`SCRAM-SHA-512=[name=admin,password=...]`, several with blanks between them, written as for "
        "Kafka's `kafka-storage --add-scram`.",
    )


class OAuthKeys(Config):
    """OAUTHBEARER: which tokens are accepted, and where this broker gets its own."""

    sasl_oauthbearer_token_endpoint_url: Key[str | None] = Key(
        "sasl.oauthbearer.token.endpoint.url",
        STRING,
        None,
        "Where this broker gets its token for other brokers: `file:///...`, a file with the token, or "
        "`https://...`, asked with `clientId` and `clientSecret` of the JAAS line (OAuth's client "
        "credentials). The URL must also be in `org.apache.kafka.sasl.oauthbearer.allowed.urls`.",
        per_listener=True,
        per_mechanism=True,
    )

    sasl_oauthbearer_jwks_endpoint_url: Key[str | None] = Key(
        "sasl.oauthbearer.jwks.endpoint.url",
        STRING,
        None,
        "The keys of the identity provider: `file:///...` or `https://...`; the URL must also be in "
        "`org.apache.kafka.sasl.oauthbearer.allowed.urls`.",
        per_listener=True,
        per_mechanism=True,
    )
    org_apache_kafka_sasl_oauthbearer_allowed_urls = Key(
        "org.apache.kafka.sasl.oauthbearer.allowed.urls",
        LIST,
        (),
        "The URLs that the broker may fetch keys and tokens from, with commas. In Kafka this is a system "
        "property.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms = Key(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        HOUR_MS,
        "How often the keys are fetched again; also done when a token names an unknown key.",
        check=at_least(100),
        importance=LOW,
        per_listener=True,
        per_mechanism=True,
    )
    sasl_oauthbearer_expected_issuer: Key[str | None] = Key(
        "sasl.oauthbearer.expected.issuer",
        STRING,
        None,
        "The issuer (`iss`) that tokens must have, if set.",
        importance=LOW,
        per_listener=True,
        per_mechanism=True,
    )
    sasl_oauthbearer_expected_audience: Key[tuple[str, ...] | None] = Key(
        "sasl.oauthbearer.expected.audience",
        LIST,
        None,
        "Audiences (`aud`) of which tokens must have one, if set.",
        importance=LOW,
        per_listener=True,
        per_mechanism=True,
    )
    sasl_oauthbearer_clock_skew_seconds = Key(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        "How much the clocks of the broker and the identity provider may differ.",
        check=at_least(0),
        importance=LOW,
        per_listener=True,
        per_mechanism=True,
    )
    sasl_oauthbearer_scope_claim_name = Key(
        "sasl.oauthbearer.scope.claim.name",
        STRING,
        "scope",
        "The claim with the token's scopes.",
        importance=LOW,
        per_listener=True,
        per_mechanism=True,
    )
    sasl_oauthbearer_sub_claim_name = Key(
        "sasl.oauthbearer.sub.claim.name",
        STRING,
        "sub",
        "The claim with the user name.",
        importance=LOW,
        per_listener=True,
        per_mechanism=True,
    )
    ottla_sasl_oauthbearer_required_scope: Key[tuple[str, ...] | None] = Key(
        "ottla.sasl.oauthbearer.required.scope",
        LIST,
        None,
        "Scopes that a token must all have, if set. Kafka takes them from the JAAS option "
        "`unsecuredValidatorRequiredScope`.",
    )
