"""A broker with a listener of every security protocol, and what clients need to use them."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import trustme
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from ottla.testing.local_cluster import LocalCluster

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
USER, PASSWORD = "alice", 'won"der, \\land='
BROKER_PASSWORD = "broker-secret"
ISSUER, AUDIENCE = "https://issuer.example", "kafka"


class Certificates:
    """An authority, and whoever it signs, as PEM files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self.authority.cert_pem.bytes())

    def sign(self, name: str, file: str | None = None) -> Path:
        """Return a file with the key and the certificate of a new name."""
        certificate = self.authority.issue_cert(
            "localhost",
            "127.0.0.1",
            common_name=name,
            organization_name="Example",
            organization_unit_name="tests",
        )
        path = self.folder / (file or f"{name}.pem")
        partial = path.with_suffix(".new")
        partial.write_bytes(certificate.private_key_and_cert_chain_pem.bytes())
        partial.replace(path)
        return path

    def client_context(self) -> ssl.SSLContext:
        """Return the context of a client that trusts the authority."""
        return ssl.create_default_context(cafile=str(self.ca))


class IdentityProvider:
    """Signs tokens, and publishes its keys in a file."""

    def __init__(self, folder: Path) -> None:
        self.key = ECKey.generate_key("P-256", parameters={"kid": "one", "use": "sig"})
        self.file = folder / "jwks.json"
        self.file.write_text(json.dumps(KeySet([self.key]).as_dict(private=False)))

    @property
    def url(self) -> str:
        """Where the keys are."""
        return self.file.as_uri()

    def token(self, user: str = USER, lifetime_s: float = 300, **claims: Any) -> str:
        """Return a token."""
        now = time.time()
        known = {"sub": user, "iss": ISSUER, "aud": [AUDIENCE], "iat": int(now), "exp": now + lifetime_s}
        return jwt.encode({"alg": "ES256", "kid": "one"}, {**known, **claims}, self.key)


@dataclass(frozen=True)
class Login:
    """How a client connects."""

    bootstrap: str
    protocol: str
    mechanism: str | None
    certificates: Certificates
    provider: IdentityProvider
    certificate: Path | None = None
    user: str = USER
    password: str = PASSWORD

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    @cached_property
    def context(self) -> ssl.SSLContext | None:
        """The TLS context of Python clients."""
        if not self.uses_tls:
            return None
        context = self.certificates.client_context()
        if self.certificate is not None:
            context.load_cert_chain(self.certificate)
        return context


def security_settings(
    certificates: Certificates, provider: IdentityProvider, names: list[str]
) -> dict[str, str]:
    """Return the keys of a broker whose listeners have these names."""
    settings = {
        "ssl.keystore.location": str(certificates.sign("broker")),
        "ssl.truststore.location": str(certificates.ca),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "ottla.sasl.plain.without.tls.enable": "true",
        "ottla.bootstrap.scram": " ".join([f"SCRAM-SHA-512=[name=broker,password={BROKER_PASSWORD}]"]),
        "sasl.oauthbearer.jwks.endpoint.url": provider.url,
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": provider.url,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    for name in names:
        prefix = f"listener.name.{name.lower()}"
        settings[f"{prefix}.plain.sasl.jaas.config"] = f'{PLAIN_MODULE} required user_{USER}="{password}";'
        settings[f"{prefix}.scram-sha-512.sasl.jaas.config"] = (
            f'{SCRAM_MODULE} required username="broker" password="{BROKER_PASSWORD}";'
        )
    return settings


@contextmanager
def secure_broker(folder: Path, brokers: int = 1, **more: str) -> Iterator[SecureCluster]:
    """Run brokers whose own listener is SASL_SSL, the first also with SSL and SASL_PLAINTEXT."""
    certificates, provider = Certificates(folder), IdentityProvider(folder)
    settings = security_settings(certificates, provider, ["SASL_SSL", "SASL_PLAINTEXT"])
    settings |= {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),OU=tests.*$/$1/L,DEFAULT",
        **more,
    }
    with LocalCluster(brokers, settings=settings, security_protocol="SASL_SSL") as cluster:
        secure = SecureCluster(cluster, certificates, provider)
        with secure.admin() as admin:
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                admin.set_scram_password(USER, PASSWORD, mechanism=mechanism)
        yield secure


class SecureCluster:
    """The brokers, and logins for them."""

    def __init__(self, cluster: LocalCluster, certificates: Certificates, provider: IdentityProvider) -> None:
        self.cluster = cluster
        self.certificates = certificates
        self.provider = provider

    def bootstrap(self, protocol: str) -> str:
        """Return the addresses of one kind of listener."""
        found = []
        for node_id in self.cluster.running:
            addresses = self.cluster.broker(node_id).addresses
            assert addresses is not None
            found.append(str(dict(addresses.listeners)[protocol]))
        return ",".join(found)

    def login(self, protocol: str, mechanism: str | None, **more: Any) -> Login:
        """Return how a client connects to a listener."""
        certificate = self.certificates.sign(USER.upper()) if protocol == "SSL" else None
        bootstrap = self.bootstrap(protocol)
        return Login(bootstrap, protocol, mechanism, self.certificates, self.provider, certificate, **more)

    def admin(self) -> Any:
        """Return an admin client of ours, which is the broker's own user."""
        from ottla.client import Admin

        return Admin(
            bootstrap_servers=self.cluster.bootstrap_servers,
            security_protocol="SASL_SSL",
            ssl_cafile=str(self.certificates.ca),
            sasl_mechanism="SCRAM-SHA-512",
            sasl_plain_username="broker",
            sasl_plain_password=BROKER_PASSWORD,
        )
