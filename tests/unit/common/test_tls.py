"""Keystores and truststores in every format, and the TLS contexts made of them."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from ottla.common.config.declaration import ConfigError
from ottla.common.tls import CertificateNames, TlsSettings, certificate_names, client_context, server_context
from ottla.common.tls_stores import StoreSettings

LOCATION, TRUST = "ssl.keystore.location", "ssl.truststore.location"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def leaf(authority: trustme.CA) -> trustme.LeafCert:
    return authority.issue_cert("localhost", common_name="broker-1")


def pem(leaf: trustme.LeafCert) -> tuple[str, str]:
    return leaf.private_key_pem.bytes().decode(), leaf.cert_chain_pems[0].bytes().decode()


def write(path: Path, data: bytes | str) -> str:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[str | None, dict[str, object] | None]:
    """Shake hands in memory; return the version, and the client's certificate as the server sees it."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(down, up, server_hostname="localhost")
    other = server.wrap_bio(up, down, server_side=True)
    done = set[ssl.SSLObject]()
    for _ in range(10):
        for each in (one, other):
            try:
                if each not in done:
                    each.do_handshake()
                    done.add(each)
            except ssl.SSLWantReadError:
                pass
    assert len(done) == 2
    return other.version(), other.getpeercert()


def trusting(authority: trustme.CA, tmp_path: Path) -> StoreSettings:
    return StoreSettings(TRUST, write(tmp_path / "ca.pem", authority.cert_pem.bytes()))


def stores(kind: str, leaf: trustme.LeafCert, tmp_path: Path) -> StoreSettings:
    key, certificate = pem(leaf)
    if kind == "PEM file":
        return StoreSettings(LOCATION, write(tmp_path / "store.pem", key + certificate))
    if kind == "PEM in keys":
        return StoreSettings(LOCATION, private_key=key, certificates=certificate)
    loaded = load_pem_private_key(key.encode(), None)
    secret = BestAvailableEncryption(b"secret")
    if kind == "encrypted PEM":
        text = loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret).decode()
        return StoreSettings(LOCATION, write(tmp_path / "enc.pem", text + certificate), key_password="secret")
    found = x509.load_pem_x509_certificate(certificate.encode())
    data = pkcs12.serialize_key_and_certificates(b"one", loaded, found, None, secret)  # type: ignore[arg-type]
    return StoreSettings(LOCATION, write(tmp_path / "store.p12", data), password="secret")


@pytest.mark.parametrize("kind", ["PEM file", "PEM in keys", "encrypted PEM", "PKCS12"])
def test_every_format_serves_and_authenticates(
    kind: str, authority: trustme.CA, leaf: trustme.LeafCert, tmp_path: Path
) -> None:
    settings = TlsSettings(stores(kind, leaf, tmp_path), trusting(authority, tmp_path), "required")
    version, certificate = handshake(server_context(settings), client_context(settings))
    assert version == "TLSv1.3"
    assert certificate is not None
    names = certificate_names(settings)
    assert names is not None
    assert certificate["subject"] == names.subject
    assert ("commonName", "broker-1") in [each for part in names.subject for each in part]
    assert frozenset(certificate["subjectAltName"]) == names.hosts


def test_a_pkcs12_truststore_is_read(authority: trustme.CA, leaf: trustme.LeafCert, tmp_path: Path) -> None:
    ca = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    data = pkcs12.serialize_java_truststore(
        [pkcs12.PKCS12Certificate(ca, b"ca")], BestAvailableEncryption(b"secret")
    )
    trust = StoreSettings(TRUST, write(tmp_path / "trust.p12", data), password="secret")
    settings = TlsSettings(stores("PEM file", leaf, tmp_path), trust, "required")
    assert handshake(server_context(settings), client_context(settings))[0] == "TLSv1.3"


@pytest.mark.parametrize(
    ("protocols", "suites", "version"),
    [
        (("TLSv1.2",), None, "TLSv1.2"),
        (("TLSv1.3",), None, "TLSv1.3"),
        (("TLSv1.2", "TLSv1.3"), ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",), "TLSv1.2"),
        (("TLSv1.2", "TLSv1.3"), ("ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-AES128-GCM-SHA256"), "TLSv1.2"),
    ],
)
def test_versions_and_suites_are_limited(
    protocols: tuple[str, ...],
    suites: tuple[str, ...] | None,
    version: str,
    authority: trustme.CA,
    leaf: trustme.LeafCert,
    tmp_path: Path,
) -> None:
    free = TlsSettings(stores("PEM file", leaf, tmp_path), trusting(authority, tmp_path))
    limited = replace(free, protocols=protocols, cipher_suites=suites)
    assert handshake(server_context(limited), client_context(free))[0] == version


def test_a_client_without_a_certificate_fails_where_one_is_required(
    authority: trustme.CA, leaf: trustme.LeafCert, tmp_path: Path
) -> None:
    trust = trusting(authority, tmp_path)
    settings = TlsSettings(stores("PEM file", leaf, tmp_path), trust, "required")
    anonymous = client_context(TlsSettings(StoreSettings(LOCATION), trust))
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        handshake(server_context(settings), anonymous)
    requested = replace(settings, client_auth="requested")
    assert not handshake(server_context(requested), anonymous)[1]


@pytest.mark.parametrize(
    ("data", "more", "reason"),
    [
        (
            b"\xce\xce\xce\xce\0\0\0\2",
            {},
            "keytool -importkeystore -srckeystore .*store .* .*p12",
        ),
        (b"\xfe\xed\xfe\xed\0\0\0\2", {"password": "x"}, "the password is wrong, or the file is damaged"),
        (b"nonsense", {"kind": "JKS"}, "no PKCS12 or JKS store, or its password is another"),
        (b"nonsense", {}, "no PKCS12 or JKS store, or its password is another"),
        (b"nonsense", {"kind": "PEM"}, "no private key in PEM"),
        (None, {}, "cannot be read: No such file"),
    ],
)
def test_a_store_that_cannot_be_used_is_refused_with_what_to_do(
    data: bytes | None, more: dict[str, str], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "store"
    if data is not None:
        path.write_bytes(data)
    store = StoreSettings(LOCATION, str(path), **more)
    with pytest.raises(ConfigError, match=reason):
        server_context(TlsSettings(store, StoreSettings(TRUST)))


def test_keys_that_do_not_fit_are_refused(
    authority: trustme.CA, leaf: trustme.LeafCert, tmp_path: Path
) -> None:
    key, certificate = pem(leaf)
    other = authority.issue_cert("other").private_key_pem.bytes().decode()
    trust = StoreSettings(TRUST)
    for store, reason in (
        (StoreSettings(LOCATION, private_key=other, certificates=certificate), "KEY_VALUES_MISMATCH"),
        (StoreSettings(LOCATION, private_key=key), "belong together"),
        (replace(stores("encrypted PEM", leaf, tmp_path), key_password="wrong"), "is ssl.key.password right"),
        (replace(stores("PKCS12", leaf, tmp_path), password="wrong"), "its password is another"),
        (StoreSettings(LOCATION), "needs a certificate"),
    ):
        with pytest.raises(ConfigError, match=reason) as refused:
            server_context(TlsSettings(store, trust))
        assert "PRIVATE KEY" not in str(refused.value)
    with pytest.raises(ConfigError, match="needs the authorities of the clients"):
        server_context(TlsSettings(stores("PEM file", leaf, tmp_path), trust, "required"))
    for suites, reason in (
        (("TLS_AES_128_GCM_SHA256",), "OpenSSL accepts TLS_AES_256_GCM_SHA384.* here, too"),
        (("TLS_NONSENSE_WITH_NULL",), "no cipher suite 'TLS_NONSENSE_WITH_NULL'"),
    ):
        with pytest.raises(ConfigError, match=reason):
            server_context(TlsSettings(stores("PEM file", leaf, tmp_path), trust, cipher_suites=suites))


def test_openssls_configuration_chooses_among_the_suites_of_tls_1_3(
    leaf: trustme.LeafCert, tmp_path: Path
) -> None:
    key, certificate = pem(leaf)
    (tmp_path / "store.pem").write_text(key + certificate)
    conf = tmp_path / "openssl.cnf"
    conf.write_text(
        "openssl_conf = init\n[init]\nssl_conf = ssl\n[ssl]\nsystem_default = tls\n"
        "[tls]\nCiphersuites = TLS_AES_256_GCM_SHA384\n"
    )
    program = (
        "import sys\n"
        "from ottla.common.tls import TlsSettings, server_context\n"
        "from ottla.common.tls_stores import StoreSettings\n"
        "store = StoreSettings('ssl.keystore.location', sys.argv[1])\n"
        "settings = TlsSettings(store, StoreSettings(''), cipher_suites=tuple(sys.argv[2:]))\n"
        "print(*(each['name'] for each in server_context(settings).get_ciphers()))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "store.pem")]
    for suites, expected in (
        (["TLS_AES_256_GCM_SHA384"], ["TLS_AES_256_GCM_SHA384"]),
        (["TLS_AES_128_GCM_SHA256"], None),
    ):
        done = subprocess.run(
            [*command, *suites],
            env={**os.environ, "OPENSSL_CONF": str(conf)},
            capture_output=True,
            text=True,
            check=False,
        )
        if expected is None:
            assert "OpenSSL accepts TLS_AES_256_GCM_SHA384 here, too" in done.stderr
        else:
            assert [each for each in done.stdout.split() if each.startswith("TLS_")] == expected, done.stderr


def names(common_name: str, *hosts: str) -> CertificateNames:
    return CertificateNames(((("commonName", common_name),),), frozenset(("DNS", each) for each in hosts))


@pytest.mark.parametrize(
    ("new", "allow_subject", "allow_hosts", "refusal"),
    [
        (names("one", "a", "b"), False, False, None),
        (names("one", "a", "b", "c"), False, False, None),
        (names("two", "a", "b"), False, True, "ssl.allow.dn.changes"),
        (names("two", "a", "b"), True, False, None),
        (names("one", "a"), True, False, "is not for b.*ssl.allow.san.changes"),
        (names("one", "a"), False, True, None),
    ],
)
def test_a_certificate_may_take_the_place_of_another(
    new: CertificateNames, allow_subject: bool, allow_hosts: bool, refusal: str | None
) -> None:
    old = names("one", "a", "b")
    with nullcontext() if refusal is None else pytest.raises(ConfigError, match=refusal):
        old.check_change(new, allow_subject=allow_subject, allow_hosts=allow_hosts)
