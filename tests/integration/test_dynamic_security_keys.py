"""Every dynamic key of TLS and SASL has an effect on new connections when it is altered."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from tests.integration.secure_stage import PLAIN_MODULE, Certificates, SecureCluster, secure_broker
from tests.waiting import wait_until

from ottla.broker.security import SECURITY_KEYS
from ottla.protocol.errors import InvalidRequest

SECRET = BestAvailableEncryption(b"secret")


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    folder = tmp_path_factory.mktemp("security")
    more = {"inter.broker.listener.name": "SSL", "ssl.allow.dn.changes": "true"}
    with secure_broker(folder, **more) as started:
        yield started


class Seen(NamedTuple):
    """How the broker behaves."""

    serial: str
    version: str | None
    serves_strangers: bool
    trusts_another_authority: bool
    mechanisms: tuple[str, ...]
    users: frozenset[str]
    checks_hostname: bool


class Files(NamedTuple):
    """Stores in several formats, with another certificate than the broker's."""

    pem: Path
    encrypted: Path
    pkcs12: Path
    trust: Path
    trust_pkcs12: Path
    client: Path


@pytest.fixture(scope="module")
def files(secure: SecureCluster, tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("others")
    pem = secure.certificates.sign("another")
    text = pem.read_bytes()
    key, certificate = load_pem_private_key(text, None), x509.load_pem_x509_certificate(text)
    encrypted = folder / "encrypted.pem"
    encrypted.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, SECRET) + certificate.public_bytes(Encoding.PEM)
    )
    store = folder / "store.p12"
    store.write_bytes(pkcs12.serialize_key_and_certificates(b"a", key, certificate, None, SECRET))  # type: ignore[arg-type]
    other = Certificates(folder)
    authorities = [secure.certificates.ca, other.ca]
    trust = folder / "both.pem"
    trust.write_bytes(b"".join(each.read_bytes() for each in authorities))
    trust_store = folder / "both.p12"
    both = [
        pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(each.read_bytes()), each.parent.name.encode())
        for each in authorities
    ]
    trust_store.write_bytes(pkcs12.serialize_java_truststore(both, SECRET))
    return Files(pem, encrypted, store, trust, trust_store, other.sign("stranger"))


def look(secure: SecureCluster, files: Files) -> Seen:
    """Connect in several ways."""
    own = secure.certificates.sign("looking")
    broker = secure.cluster.broker(1)
    session = broker.security.listeners["SASL_SSL"].new_sasl
    assert session is not None
    assert broker.security.between_brokers is not None
    assert broker.security.between_brokers.tls is not None
    return Seen(
        _shake(secure, own) or "",
        _shake(secure, own, "version"),
        _shake(secure, None) is not None,
        _shake(secure, files.client) is not None,
        session().mechanisms,
        frozenset(broker.security.plain_users("SASL_SSL")),
        broker.security.between_brokers.tls.check_hostname,
    )


def _shake(secure: SecureCluster, certificate: Path | None, what: str = "serial") -> str | None:
    """Return the serial number of the broker's certificate, or the version; None if it refuses us."""
    context = secure.certificates.client_context()
    if certificate is not None:
        context.load_cert_chain(certificate)
    host, _, port = secure.bootstrap("SSL").rpartition(":")
    try:
        plain = socket.create_connection((host, int(port)), 10)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted:
            encrypted.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff")  # ApiVersions
            if not encrypted.recv(4):
                return None
            found = encrypted.getpeercert()
            assert found is not None
            return encrypted.version() if what == "version" else str(found["serialNumber"])
    except (ssl.SSLError, ConnectionError):
        return None


def settings_for(key: str, files: Files) -> dict[str, str]:
    """Return settings of which `key` is one, and without which it would have no effect."""
    text = files.pem.read_text()
    split = text.index("-----BEGIN CERTIFICATE")
    in_pkcs12 = {
        "ssl.keystore.location": str(files.pkcs12),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": "secret",
    }
    trust_pkcs12 = {
        "ssl.truststore.location": str(files.trust_pkcs12),
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.password": "secret",
    }
    inline = {"ssl.keystore.key": text[:split], "ssl.keystore.certificate.chain": text[split:]}
    alone = {
        "ssl.keystore.location": str(files.pem),
        "ssl.truststore.location": str(files.trust),
        "ssl.truststore.certificates": files.trust.read_text(),
        "ssl.client.auth": "none",
        "ssl.enabled.protocols": "TLSv1.2",
        "ssl.protocol": "TLSv1.2",
        "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "ssl.endpoint.identification.algorithm": "",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }
    if key in alone:
        return {key: alone[key]}
    if key == "ssl.key.password":
        return {"ssl.keystore.location": str(files.encrypted), key: "secret"}
    if key == "sasl.jaas.config":
        return {f"listener.name.sasl_ssl.plain.{key}": f'{PLAIN_MODULE} required user_zoe="zebra";'}
    return next(each for each in (in_pkcs12, trust_pkcs12, inline) if key in each)


@pytest.mark.parametrize("key", sorted(each.name for each in SECURITY_KEYS))
def test_a_dynamic_security_key_has_an_effect(secure: SecureCluster, files: Files, key: str) -> None:
    before = look(secure, files)
    settings = settings_for(key, files)
    with secure.admin() as admin:
        admin.alter_broker_configs(1, set_to=settings)
        wait_until(lambda: look(secure, files) != before, f"the effect of {key}")
        admin.alter_broker_configs(1, unset=list(settings))
        wait_until(lambda: look(secure, files) == before, f"the end of the effect of {key}")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"ssl.keystore.location": "/does/not/exist.pem"}, "ssl.keystore.location: .*/does/not/exist.pem"),
        ({"listener.name.ssl.ssl.keystore.location": "/etc/passwd"}, "passwd cannot be opened"),
        ({"ssl.keystore.type": "PKCS12", "ssl.keystore.password": "wrong"}, "ssl.keystore"),
        ({"listener.name.sasl_ssl.plain.sasl.jaas.config": "nonsense"}, "must begin with the name"),
    ],
)
def test_what_the_broker_cannot_use_is_refused(
    secure: SecureCluster, files: Files, settings: dict[str, str], says: str
) -> None:
    before = look(secure, files)
    with secure.admin() as admin:
        with pytest.raises(InvalidRequest, match=says):
            admin.alter_broker_configs(1, set_to=settings)
        admin.alter_broker_configs(1, unset=["follower.replication.throttled.rate", "ssl.keystore.location"])
    assert look(secure, files) == before
