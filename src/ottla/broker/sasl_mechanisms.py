"""The SASL mechanisms of a listener: their users and keys, and new exchanges."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ottla.broker.gssapi import GssapiServer, KerberosService, kerberos_service
from ottla.broker.jwks import Jwks
from ottla.common.clock import Clock
from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import ConfigError
from ottla.common.config.listener_keys import ListenerConfig
from ottla.common.config.security_keys import GSSAPI, OAUTHBEARER, PLAIN, OAuthKeys, SaslKeys
from ottla.common.ids import new_nonce, new_salt
from ottla.common.listeners import Listener
from ottla.metadata.state import ClusterState
from ottla.security.delegation_tokens import token_password, usable_token
from ottla.security.exchange import ServerExchange
from ottla.security.jaas import JaasError, JaasLogin, parse_jaas
from ottla.security.oauthbearer import ClaimRules, OAuthBearerServer
from ottla.security.plain import PlainServer
from ottla.security.sasl import SaslSession
from ottla.security.scram import (
    MIN_ITERATIONS,
    USUAL_PARAMETERS,
    ScramCredential,
    ScramParameters,
    ScramServer,
    TokenCredential,
    TokenLookup,
    fake_credential,
    make_credential,
    parameters_of,
)

MAX_DERIVED = 1_000
"""Credentials of tokens that are kept."""


def login_of(own: ListenerConfig, mechanism: str) -> JaasLogin | None:
    """Return the JAAS line of a mechanism of a listener; None if there is none."""
    text = own.own(SaslKeys.sasl_jaas_config, mechanism)
    if text is None:
        return None
    try:
        return parse_jaas(text)
    except JaasError as error:
        raise ConfigError(own.name_of(SaslKeys.sasl_jaas_config, mechanism), str(error)) from None


class TokenCredentials:
    """The SCRAM credentials of delegation tokens, derived when a client uses one."""

    def __init__(self, cluster: ClusterState, clock: Clock, secret_key: str | None) -> None:
        self._cluster = cluster
        self._clock = clock
        self._secret_key = secret_key
        self._derived: dict[tuple[str, str], ScramCredential] = {}  # a derivation takes milliseconds

    def find(self, mechanism: str, token_id: str) -> TokenCredential | None:
        """Return the credential of a token; None if it does not exist or has expired."""
        if self._secret_key is None:
            return None
        token = usable_token(self._cluster.image.tokens, token_id, self._clock.wall_ms())
        if token is None:
            return None
        credential = self._derived.get((mechanism, token_id))
        if credential is None:
            if len(self._derived) >= MAX_DERIVED:
                self._derived.clear()
            password = token_password(token_id, self._secret_key)
            credential = make_credential(mechanism, password, new_salt(), MIN_ITERATIONS)
            self._derived[mechanism, token_id] = credential
        return TokenCredential(token.owner, credential, min(token.expiry_ms, token.max_ms))


@dataclass(frozen=True, slots=True)
class _EnabledMechanisms:
    """What a listener offers now."""

    mechanisms: tuple[str, ...] = ()
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The passwords of PLAIN."""
    jwks: Jwks | None = None
    claim_rules: ClaimRules | None = None
    kerberos: KerberosService | None = None


class ListenerMechanisms:
    """Makes the SASL state of new connections of one listener."""

    def __init__(
        self, listener: Listener, cluster: ClusterState, clock: Clock, find_token: TokenLookup
    ) -> None:
        self._listener = listener
        self._cluster = cluster
        self._clock = clock
        self._find_token = find_token
        self._offer = _EnabledMechanisms()
        self._secret = new_salt()  # until the cluster has one
        self._parameters: dict[str, tuple[ScramParameters, ...]] = {}
        self._looks_are_of: object = None
        self._is_started = False

    def start(self) -> None:
        """Keep the keys of identity providers up to date."""
        self._is_started = True
        if self._offer.jwks is not None:
            self._offer.jwks.start()

    def stop(self) -> None:
        """Do so no more."""
        self._is_started = False
        if self._offer.jwks is not None:
            self._offer.jwks.stop()

    def prepare(self, config: BrokerConfig) -> Callable[[], None]:
        """Check the configuration; return what puts it into force."""
        own = config.for_listener(self._listener.name)
        mechanisms = own.value(SaslKeys.sasl_enabled_mechanisms)
        plain = login_of(own, PLAIN) if PLAIN in mechanisms else None
        has_oauth = OAUTHBEARER in mechanisms
        offer = _EnabledMechanisms(
            mechanisms,
            {each: own.value(SaslKeys.connections_max_reauth_ms, each) for each in mechanisms},
            {} if plain is None else plain.users,
            self._jwks(config, own) if has_oauth else None,
            _claim_rules(config, own) if has_oauth else None,
            kerberos_service(own, login_of(own, GSSAPI)) if GSSAPI in mechanisms else None,
        )

        def put_into_force() -> None:
            before, self._offer = self._offer.jwks, offer
            if before is not offer.jwks and self._is_started:
                if before is not None:
                    before.stop()
                if offer.jwks is not None:
                    offer.jwks.start()

        return put_into_force

    @property
    def plain_users(self) -> list[str]:
        """The users of PLAIN."""
        return sorted(self._offer.users)

    def new_session(self) -> SaslSession:
        """Return the state of a new connection."""
        offer = self._offer
        return SaslSession(
            offer.mechanisms, self._new_exchange, lambda name: offer.max_reauth_ms.get(name, 0)
        )

    def _new_exchange(self, mechanism: str) -> ServerExchange:
        offer = self._offer
        if mechanism == PLAIN:
            return PlainServer(offer.users)
        if mechanism == OAUTHBEARER:
            assert offer.jwks is not None
            assert offer.claim_rules is not None
            return OAuthBearerServer(offer.jwks.verify, offer.claim_rules, self._clock.wall_ms)
        if mechanism == GSSAPI:
            assert offer.kerberos is not None
            return GssapiServer(offer.kerberos)
        return ScramServer(mechanism, self._find_user, self._find_token, self._fake, new_nonce())

    def _find_user(self, mechanism: str, user: str) -> ScramCredential | None:
        return self._cluster.image.scram_credentials.get((mechanism, user))

    def _fake(self, mechanism: str, user: str) -> ScramCredential:
        """Return a fake credential for an unknown user; it cannot be distinguished from a real one."""
        image = self._cluster.image
        users = image.scram_credentials
        if users is not self._looks_are_of:
            self._looks_are_of = users
            names = {name for name, _ in users}
            self._parameters = {
                name: parameters_of(each for (of, _), each in users.items() if of == name) for name in names
            }
        secret = base64.urlsafe_b64decode(image.scram_secret) if image.scram_secret else self._secret
        return fake_credential(mechanism, user, secret, self._parameters.get(mechanism, (USUAL_PARAMETERS,)))

    def _jwks(self, config: BrokerConfig, own: ListenerConfig) -> Jwks:
        """Return the keys; those in use if they are from the same URL."""
        url = own.value(OAuthKeys.sasl_oauthbearer_jwks_endpoint_url, OAUTHBEARER)
        assert url is not None  # checked with the configuration
        if self._offer.jwks is not None and self._offer.jwks.url == url:
            return self._offer.jwks
        refresh_ms = own.value(OAuthKeys.sasl_oauthbearer_jwks_endpoint_refresh_ms, OAUTHBEARER)
        return Jwks(url, config.org_apache_kafka_sasl_oauthbearer_allowed_urls, refresh_ms)


def _claim_rules(config: BrokerConfig, own: ListenerConfig) -> ClaimRules:
    audiences = own.value(OAuthKeys.sasl_oauthbearer_expected_audience, OAUTHBEARER)
    return ClaimRules(
        issuer=own.value(OAuthKeys.sasl_oauthbearer_expected_issuer, OAUTHBEARER),
        audiences=audiences or (),
        required_scopes=config.ottla_sasl_oauthbearer_required_scope or (),
        user_claim=own.value(OAuthKeys.sasl_oauthbearer_sub_claim_name, OAUTHBEARER),
        scope_claim=own.value(OAuthKeys.sasl_oauthbearer_scope_claim_name, OAUTHBEARER),
        clock_skew_ms=own.value(OAuthKeys.sasl_oauthbearer_clock_skew_seconds, OAUTHBEARER) * 1000,
    )
