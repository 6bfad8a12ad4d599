"""Java's own key store format, JKS: a list of entries, certificates in the clear, keys encrypted.

The cipher of keys is Sun's own: a stream of SHA-1 over the password. A SHA-1 over the password and all of it
ends the file. A newer format of Java, JCEKS, is not read.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import NamedTuple

JKS_MAGIC, JCEKS_MAGIC = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"
_KEY_ENTRY, _CERTIFICATE_ENTRY = 1, 2
_WHITENER = b"Mighty Aphrodite"
_SHA1_BYTES = 20


class JksEntry(NamedTuple):
    """A key with its certificate chain, or a trusted certificate."""

    key: bytes | None
    """The private key in PKCS#8, DER."""
    certificates: list[bytes]
    """In DER."""


def read_jks(raw: bytes, password: str | None, key_password: str | None = None) -> list[JksEntry]:
    """Return the entries of a store; ValueError if a password is wrong, or the file is damaged."""
    try:
        return _entries(raw, password, key_password)
    except (struct.error, IndexError) as error:
        raise ValueError(str(error)) from None


def _entries(raw: bytes, password: str | None, key_password: str | None) -> list[JksEntry]:
    if password is not None:
        secret = password.encode("utf-16-be")
        digest = hashlib.sha1(secret + _WHITENER + raw[:-_SHA1_BYTES]).digest()
        if not hmac.compare_digest(digest, raw[-_SHA1_BYTES:]):
            raise ValueError("the password is wrong, or the file is damaged")
    version, count = struct.unpack_from(">II", raw, 4)
    if version not in (1, 2):
        raise ValueError(f"JKS of version {version} is not known")
    reader = _Reader(raw, 12, version)
    found: list[JksEntry] = []
    for _ in range(count):
        tag = reader.number(">I")
        reader.skip(reader.number(">H"))  # the alias
        reader.skip(8)  # the date
        if tag == _KEY_ENTRY:
            sealed = reader.take(reader.number(">I"))
            chain = [reader.certificate() for _ in range(reader.number(">I"))]
            secret_text = key_password or password
            if secret_text is None:
                raise ValueError("its key needs a password")
            found.append(JksEntry(_unsealed(sealed, secret_text), chain))
        elif tag == _CERTIFICATE_ENTRY:
            found.append(JksEntry(None, [reader.certificate()]))
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
