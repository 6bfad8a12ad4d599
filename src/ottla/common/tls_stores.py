"""Read keystores and truststores of brokers and clients into PEM texts.

    PEM      a private key (PKCS#8, may be encrypted) and the certificate chain, in one file or as texts
    PKCS12   what Java's keytool writes today; needs the package `cryptography`
    JKS      what it wrote before Java 9
    JCEKS    refused, with the command that converts it

The format is read off the file unless it is named; JKS and PKCS12 stand for each other, as in Java.
"""

from __future__ import annotations

import base64
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.common.config.declaration import ConfigError
from ottla.common.jks import JCEKS_MAGIC, JKS_MAGIC, JksEntry, read_jks

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z]+ )?(?:ENCRYPTED )?PRIVATE KEY-----.+?"
    r"-----END (?:[A-Z]+ )?(?:ENCRYPTED )?PRIVATE KEY-----",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where a store is, or what is in it; `key` is the configuration key that a refusal names."""

    key: str
    location: str | None = None
    kind: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    private_key: str | None = field(default=None, repr=False)
    """The key itself, instead of a file."""
    certificates: str | None = field(default=None, repr=False)
    """The certificates themselves, instead of a file."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A private key with its certificate chain, in PEM; `password` decrypts the key."""

    private_key: str = field(repr=False)
    chain: str
    password: str | None = field(default=None, repr=False)


def read_key_pair(store: StoreSettings) -> KeyPair | None:
    """Return the key and the certificates of a keystore; None if nothing is set."""
    if store.private_key is not None or store.certificates is not None:
        text = f"{store.private_key or ''}\n{store.certificates or ''}"
        if not _PRIVATE_KEY.search(text) or not _CERTIFICATE.search(text):
            raise ConfigError(
                "ssl.keystore.key", "and ssl.keystore.certificate.chain belong together; set both"
            )
        return _key_pair("ssl.keystore.key", text, store)
    if store.location is None:
        return None
    data = _read(store)
    kind = _kind_of(data, store)
    if kind == "JKS":
        return _jks_key_pair(data, store)
    if kind == "PKCS12":
        return _pkcs12_key_pair(data, store)
    return _key_pair(store.key, data.decode(errors="replace"), store)


def read_authorities(store: StoreSettings) -> str | None:
    """Return the certificates of a truststore as PEM; None if nothing is set."""
    if store.certificates is not None:
        return _certificates("ssl.truststore.certificates", store.certificates)
    if store.location is None:
        return None
    data = _read(store)
    kind = _kind_of(data, store)
    if kind == "JKS":
        return _jks_authorities(data, store)
    if kind == "PKCS12":
        return _pkcs12_authorities(data, store)
    return _certificates(store.key, data.decode(errors="replace"))


def _read(store: StoreSettings) -> bytes:
    assert store.location is not None
    try:
        return Path(store.location).read_bytes()
    except OSError as error:
        raise ConfigError(store.key, f"{store.location} cannot be read: {error.strerror}") from None


def _kind_of(data: bytes, store: StoreSettings) -> str:
    if data.startswith(JKS_MAGIC):
        return "JKS"
    if data.startswith(JCEKS_MAGIC):
        target = str(Path(store.location or "store").with_suffix(".p12"))
        raise ConfigError(
            store.key,
            f"{store.location} is a JCEKS store, which is not read. Convert it:  keytool -importkeystore "
            f"-srckeystore {store.location} -srcstoretype JCEKS -destkeystore {target} -deststoretype PKCS12",
        )
    if store.kind in ("PEM", "PKCS12"):
        return store.kind
    return "PEM" if b"-----BEGIN" in data else "PKCS12"


def _key_pair(key: str, text: str, store: StoreSettings) -> KeyPair:
    found = _PRIVATE_KEY.search(text)
    if found is None:
        raise ConfigError(key, "has no private key in PEM (-----BEGIN PRIVATE KEY-----)")
    return KeyPair(found[0] + "\n", _certificates(key, text), store.key_password)


def _certificates(key: str, text: str) -> str:
    found = _CERTIFICATE.findall(text)
    if not found:
        raise ConfigError(key, "has no certificate in PEM (-----BEGIN CERTIFICATE-----)")
    return "\n".join(found) + "\n"


def _jks_key_pair(data: bytes, store: StoreSettings) -> KeyPair:
    for entry in _jks_entries(data, store):
        if entry.key is not None:
            text = base64.encodebytes(entry.key).decode()
            key = f"-----BEGIN PRIVATE KEY-----\n{text}-----END PRIVATE KEY-----\n"
            return KeyPair(key, "".join(map(ssl.DER_cert_to_PEM_cert, entry.certificates)))
    raise ConfigError(store.key, f"{store.location} has no private key with a certificate")


def _jks_authorities(data: bytes, store: StoreSettings) -> str:
    found = [each for entry in _jks_entries(data, store) for each in entry.certificates]
    if not found:
        raise ConfigError(store.key, f"{store.location} has no certificates")
    return "".join(map(ssl.DER_cert_to_PEM_cert, found))


def _jks_entries(data: bytes, store: StoreSettings) -> list[JksEntry]:
    try:
        return read_jks(data, store.password, store.key_password)
    except ValueError as error:
        raise ConfigError(store.key, f"{store.location} cannot be read: {error}") from None


def _pkcs12_key_pair(data: bytes, store: StoreSettings) -> KeyPair:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    loaded = _load_pkcs12(data, store)
    if loaded.key is None or loaded.cert is None:
        raise ConfigError(store.key, f"{store.location} has no private key with a certificate")
    key = loaded.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    chain = (loaded.cert, *loaded.additional_certs)
    return KeyPair(key, "".join(each.certificate.public_bytes(Encoding.PEM).decode() for each in chain))


def _pkcs12_authorities(data: bytes, store: StoreSettings) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    loaded = _load_pkcs12(data, store)
    found = [*([loaded.cert] if loaded.cert else []), *loaded.additional_certs]
    if not found:
        raise ConfigError(store.key, f"{store.location} has no certificates")
    return "".join(each.certificate.public_bytes(Encoding.PEM).decode() for each in found)


def _load_pkcs12(data: bytes, store: StoreSettings) -> Any:
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise ConfigError(
            store.key, "a PKCS12 store needs a package: pip install 'ottla[security]'; PEM needs none"
        ) from None
    try:
        return load_pkcs12(data, None if store.password is None else store.password.encode())
    except ValueError:
        raise ConfigError(
            store.key,
            f"{store.location} cannot be opened: it is no PKCS12 or JKS store, or its password is another",
        ) from None
