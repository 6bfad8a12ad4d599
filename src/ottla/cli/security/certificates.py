"""A development CA: its certificate, and certificates of brokers and clients that it signs.

Elliptic keys (P-256), so that a TLS handshake is cheap. A broker's certificate may also be used as that of a
client, because brokers connect to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATED = timedelta(minutes=5)
"""For machines whose clocks are a little behind."""


class DevelopmentCa:
    """Signs certificates; its key is new."""

    def __init__(self, name: str, now: datetime, days: int) -> None:
        self._now = now
        self._days = days
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = (
            self._builder(name, self._key, name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def certificate_pem(self) -> bytes:
        """The certificate that clients and brokers trust."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key that signs further certificates."""
        return _key_pem(self._key)

    def broker_pem(self, name: str, hosts: Sequence[str]) -> bytes:
        """Return a new key and a certificate for these host names and addresses, as a PEM keystore."""
        names: list[x509.GeneralName] = []
        for host in hosts:
            try:
                names.append(x509.IPAddress(ip_address(host)))
            except ValueError:
                names.append(x509.DNSName(host))
        return self._leaf(name, [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH], names)

    def client_pem(self, name: str) -> bytes:
        """Return a new key and a certificate for the user `name`, as a PEM keystore."""
        return self._leaf(name, [ExtendedKeyUsageOID.CLIENT_AUTH], [])

    def _leaf(
        self, name: str, usages: Sequence[x509.ObjectIdentifier], names: Sequence[x509.GeneralName]
    ) -> bytes:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self._certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        builder = (
            self._builder(name, key, str(issuer))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return _key_pem(key) + signed.public_bytes(serialization.Encoding.PEM)

    def _builder(self, name: str, key: ec.EllipticCurvePrivateKey, issuer: str) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name(issuer))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - BACKDATED)
            .not_valid_after(self._now + timedelta(days=self._days))
        )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
