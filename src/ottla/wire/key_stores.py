"""Java's trust and key stores, as PEM: PKCS12, JKS, and PEM itself, in a file or as text.

JKS is read here: a list of entries, certificates in the clear, keys under Sun's own cipher (a stream of SHA-1
over the password), and a SHA-1 over all of it. PKCS12 is read by the package `cryptography`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import ssl
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.common.config.declaration import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import (
        PKCS12Certificate,
        PKCS12KeyAndCertificates,
    )

JKS_MAGIC, JCEKS_MAGIC = 0xFEEDFEED, 0xCECECECE
_JKS_KEY, _JKS_CERTIFICATE = 1, 2
_WHITENER = b"Mighty Aphrodite"
_SHA1_BYTES = 20
JCEKS_COMMAND = (
    "keytool -importkeystore -srckeystore {0} -srcstoretype JCEKS -destkeystore {0}.p12 -deststoretype PKCS12"
)


@dataclass(frozen=True)
class KeyPair:
    """A private key and the certificates that vouch for it, both PEM."""

    chain: str
    key: str = field(repr=False)
    password: str | None = field(default=None, repr=False)
    """The password of the key, if it is still encrypted."""


@dataclass(frozen=True)
class Store:
    """Where a store is: a file, or PEM texts."""

    option: str
    """The option that names it, for messages."""
    location: str | None = None
    type: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    certificates: str | None = None
    key: str | None = field(default=None, repr=False)

    @property
    def is_given(self) -> bool:
        """Whether there is one."""
        return self.location is not None or self.certificates is not None

    def trusted(self) -> str:
        """Return the certificates of a trust store."""
        if self.certificates is not None:
            return self.certificates
        raw = self._read()
        if _is_pem(raw):
            return raw.decode()
        if _magic(raw) == JKS_MAGIC:
            found = [each for entry in self._jks(raw) for each in entry[1]]
        else:
            read = self._pkcs12(raw)
            named = [read.cert, *read.additional_certs]
            found = [_der_of(each) for each in named if each is not None]
        if not found:
            raise ConfigError(self.option, f"{self.location} has no certificates")
        return "".join(map(ssl.DER_cert_to_PEM_cert, found))

    def key_pair(self) -> KeyPair:
        """Return the first key of a key store, and its certificates."""
        if self.certificates is not None:
            return KeyPair(self.certificates, self.key or "", self.key_password)
        raw = self._read()
        if _is_pem(raw):
            return KeyPair(raw.decode(), raw.decode(), self.key_password)
        if _magic(raw) == JKS_MAGIC:
            for key, chain in self._jks(raw):
                if key is not None:
                    return KeyPair("".join(map(ssl.DER_cert_to_PEM_cert, chain)), _key_pem(key))
        else:
            read = self._pkcs12(raw)
            if read.key is not None and read.cert is not None:
                from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

                certificates = [read.cert, *read.additional_certs]
                text = "".join(ssl.DER_cert_to_PEM_cert(_der_of(each)) for each in certificates)
                pem = read.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
                return KeyPair(text, pem.decode())
        raise ConfigError(self.option, f"{self.location} has no private key")

    def _read(self) -> bytes:
        assert self.location is not None
        try:
            raw = Path(self.location).read_bytes()
        except OSError as error:
            raise ConfigError(self.option, f"cannot read {self.location}: {error.strerror}") from None
        if _magic(raw) == JCEKS_MAGIC:
            command = JCEKS_COMMAND.format(self.location)
            raise ConfigError(self.option, f"{self.location} is a JCEKS store. Convert it: {command}")
        return raw

    def _pkcs12(self, raw: bytes) -> PKCS12KeyAndCertificates:
        try:
            from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
        except ImportError:
            raise ConfigError(
                self.option, "PKCS12 stores need the package cryptography: pip install 'ottla[security]'"
            ) from None
        try:
            return load_pkcs12(raw, None if self.password is None else self.password.encode())
        except ValueError as error:
            raise ConfigError(
                self.option,
                f"{self.location} is no PKCS12 or JKS store, or the password is wrong: {error}",
            ) from None

    def _jks(self, raw: bytes) -> list[tuple[bytes | None, list[bytes]]]:
        try:
            return read_jks(raw, self.password, self.key_password)
        except (ValueError, struct.error, IndexError) as error:
            raise ConfigError(self.option, f"{self.location} cannot be read: {error}") from None


def read_jks(
    raw: bytes, password: str | None, key_password: str | None = None
) -> list[tuple[bytes | None, list[bytes]]]:
    """Return the entries of a JKS store: key (PKCS8) or None, and certificates, all DER."""
    if password is not None:
        secret = password.encode("utf-16-be")
        digest = hashlib.sha1(secret + _WHITENER + raw[:-_SHA1_BYTES]).digest()
        if not hmac.compare_digest(digest, raw[-_SHA1_BYTES:]):
            raise ValueError("the password is wrong, or the file is damaged")
    version, count = struct.unpack_from(">II", raw, 4)
    if version not in (1, 2):
        raise ValueError(f"JKS of version {version} is not known")
    reader = _Reader(raw, 12, version)
    found: list[tuple[bytes | None, list[bytes]]] = []
    for _ in range(count):
        tag = reader.number(">I")
        reader.skip(reader.number(">H"))  # the alias
        reader.skip(8)  # the date
        if tag == _JKS_KEY:
            sealed = reader.take(reader.number(">I"))
            chain = [reader.certificate() for _ in range(reader.number(">I"))]
            secret_text = key_password or password
            if secret_text is None:
                raise ValueError("its key needs a password")
            found.append((_unsealed(sealed, secret_text), chain))
        elif tag == _JKS_CERTIFICATE:
            found.append((None, [reader.certificate()]))
        else:
            raise ValueError(f"there is no entry of kind {tag}")
    return found


class _Reader:
    """Reads the fields of a JKS file one after another."""

    def __init__(self, raw: bytes, position: int, version: int) -> None:
        self._raw, self._position, self._version = raw, position, version

    def number(self, form: str) -> int:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return int(value)

    def take(self, count: int) -> bytes:
        if self._position + count > len(self._raw):
            raise ValueError("the file ends too early")
        self._position += count
        return self._raw[self._position - count : self._position]

    def skip(self, count: int) -> None:
        self.take(count)

    def certificate(self) -> bytes:
        if self._version == 2:
            self.skip(self.number(">H"))  # its type, X.509
        return self.take(self.number(">I"))


def _unsealed(sealed: bytes, password: str) -> bytes:
    """Return the key of an entry, decrypted: the data of an EncryptedPrivateKeyInfo by Sun's algorithm."""
    data = _octets(sealed)
    salt, body, check = data[:_SHA1_BYTES], data[_SHA1_BYTES:-_SHA1_BYTES], data[-_SHA1_BYTES:]
    secret = password.encode("utf-16-be")
    stream, last = b"", salt
    while len(stream) < len(body):
        last = hashlib.sha1(secret + last).digest()
        stream += last
    key = bytes(one ^ other for one, other in zip(body, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise ValueError("the password of the key is wrong")
    return key


def _octets(der: bytes) -> bytes:
    """Return the OCTET STRING of `SEQUENCE { SEQUENCE algorithm, OCTET STRING }`."""
    _, start, _ = _element(der, 0)
    _, _, after = _element(der, start)
    tag, start, end = _element(der, after)
    if tag != 0x04:
        raise ValueError("its key has an unknown form")
    return der[start:end]


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Return the tag of a DER element, where its content starts and where it ends."""
    length, start = der[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        length, start = int.from_bytes(der[start : start + count], "big"), start + count
    return der[at], start, start + length


def load_key_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Use a key for a context; `ssl` takes files only, so it is in a private file for this moment."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ottla-key-") as folder:
        chain, key = Path(folder) / "chain.pem", Path(folder) / "key.pem"
        for file, text in ((chain, pair.chain), (key, pair.key or pair.chain)):
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), "w") as opened:
                opened.write(text)
        context.load_cert_chain(chain, key, pair.password or "")


def _key_pem(key: bytes) -> str:
    text = base64.encodebytes(key).decode()
    return f"-----BEGIN PRIVATE KEY-----\n{text}-----END PRIVATE KEY-----\n"


def _der_of(certificate: PKCS12Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.certificate.public_bytes(Encoding.DER)


def _magic(raw: bytes) -> int:
    return int.from_bytes(raw[:4], "big")


def _is_pem(raw: bytes) -> bool:
    return b"-----BEGIN " in raw[:4096]
