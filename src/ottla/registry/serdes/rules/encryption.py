"""Encrypts fields (`ENCRYPT`) and whole payloads (`ENCRYPT_PAYLOAD`) as Confluent's serdes do.

    KMS key    encrypts DEKs. Only `local-kms`: derived from a secret that writers and readers share
    KEK        in the registry: which KMS key it is
    DEK        in the registry, encrypted: one for each subject and algorithm, with versions if it expires

    encrypted  nonce (12 bytes), ciphertext, tag (16) of AES-GCM; AES-SIV's, without a nonce, if deterministic
               before it, if the DEK expires: 0, and the version of the DEK in 4 bytes
               strings are written in base64

A DEK in clear text is a key message of Tink: field 3 (AES-GCM) or 2 (AES-SIV) has the key.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from ottla.common.clock import Clock, SystemClock
from ottla.registry.serdes.errors import SerdeError

SECRET_VARIABLE = "LOCAL_SECRET"
LOCAL_KMS = "local-kms"
DAY_MS = 24 * 60 * 60 * 1000
NONCE_BYTES = 12
LATEST, FIRST = -1, 1
NO_DATA = b""
"""The associated data, of which there is none."""
_KEY_BYTES = {"AES128_GCM": 16, "AES256_GCM": 32, "AES256_SIV": 64}
_KEY_FIELDS = {"AES128_GCM": 3, "AES256_GCM": 3, "AES256_SIV": 2}
_LENGTH_DELIMITED = 2


class EncryptionFailed(SerdeError):
    """A value cannot be encrypted or decrypted; the text says why, and has no part of a key."""


class KeyRegistry(Protocol):
    """The registry of keys; None: there is none, or there is another one already."""

    def key(self, *path: object, **query: object) -> Mapping[str, Any] | None:
        """Return a KEK or a DEK."""
        ...

    def add_key(self, body: Mapping[str, Any], *path: object) -> Mapping[str, Any] | None:
        """Add a KEK or a DEK."""
        ...


class _Dek(NamedTuple):
    version: int
    created_ms: int
    key: bytes


class Encryption:
    """Encrypts and decrypts by the parameters of rules; safe for threads, as the same key is found twice."""

    def __init__(self, keys: KeyRegistry, secret: str | None = None, clock: Clock | None = None) -> None:
        self._keys = keys
        self._secret = secret
        self._clock = clock or SystemClock()
        self._deks: dict[tuple[str, str, str, int], _Dek] = {}

    def check(self, rule: Mapping[str, Any]) -> None:
        """Refuse a rule whose parameters make no sense, also if a record has nothing to encrypt."""
        _Parameters.of(rule)

    def encrypt(self, rule: Mapping[str, Any], subject: str, value: Any) -> Any:
        """Return a string or bytes encrypted, of the same type."""
        if value is None:
            return None
        if not isinstance(value, str | bytes | bytearray):
            raise EncryptionFailed(f"{type(value).__name__} cannot be encrypted: only strings and bytes can")
        found = _Parameters.of(rule)
        plain = value.encode() if isinstance(value, str) else bytes(value)
        dek = self._dek_to_write(found, subject)
        encrypted = _encrypt(found.algorithm, dek.key, plain)
        if found.expiry_days:
            encrypted = b"\0" + dek.version.to_bytes(4) + encrypted
        return base64.b64encode(encrypted).decode() if isinstance(value, str) else encrypted

    def decrypt(self, rule: Mapping[str, Any], subject: str, value: Any) -> Any:
        """Return what was encrypted; other types than strings and bytes are returned as they are."""
        if not isinstance(value, str | bytes | bytearray):
            return value
        found, version = _Parameters.of(rule), FIRST
        try:
            encrypted = base64.b64decode(value, validate=True) if isinstance(value, str) else bytes(value)
        except ValueError:
            raise EncryptionFailed("the field is not encrypted: it is not base64") from None
        if found.expiry_days:
            if len(encrypted) < 5:
                raise EncryptionFailed("the value has no version of a key")
            version, encrypted = int.from_bytes(encrypted[1:5]), encrypted[5:]
        dek = self._dek(found, subject, version, is_read=True)
        if dek is None:
            raise EncryptionFailed(f"there is no DEK {version} of {subject} under the KEK {found.kek_name}")
        plain = _decrypt(found.algorithm, dek.key, encrypted)
        return plain.decode() if isinstance(value, str) else plain

    def _dek_to_write(self, found: _Parameters, subject: str) -> _Dek:
        wanted = LATEST if found.expiry_days else FIRST
        dek = self._dek(found, subject, wanted, is_read=False)
        if dek is not None and not self._is_expired(found, dek):
            return dek
        self._deks.pop((found.kek_name, subject, found.algorithm, wanted), None)
        dek = self._dek(found, subject, wanted, is_read=False)  # another writer may have made a new one
        if dek is not None and not self._is_expired(found, dek):
            return dek
        kek = self._kek(found, is_read=False)
        length = _KEY_BYTES[found.algorithm]
        raw = bytes([_KEY_FIELDS[found.algorithm] << 3 | _LENGTH_DELIMITED, length]) + os.urandom(length)
        version = FIRST if dek is None else dek.version + 1
        body = {
            "subject": subject,
            "version": version,
            "algorithm": found.algorithm,
            "encryptedKeyMaterial": base64.b64encode(self._wrap(kek, raw)).decode(),
        }
        self._keys.add_key(body, found.kek_name, "deks", subject)
        made = self._dek(found, subject, version, is_read=False)  # ours, or the one that was there before
        if made is None:
            raise EncryptionFailed(f"the DEK of {subject} under the KEK {found.kek_name} was not kept")
        self._deks[found.kek_name, subject, found.algorithm, wanted] = made
        return made

    def _is_expired(self, found: _Parameters, dek: _Dek) -> bool:
        return found.expiry_days > 0 and self._clock.wall_ms() - dek.created_ms > found.expiry_days * DAY_MS

    def _dek(self, found: _Parameters, subject: str, version: int, *, is_read: bool) -> _Dek | None:
        place = (found.kek_name, subject, found.algorithm, version)
        known = self._deks.get(place)
        if known is not None:
            return known
        path = (found.kek_name, "deks", subject, "versions", version)
        stored = self._keys.key(*path, algorithm=found.algorithm, deleted=is_read)
        material = None if stored is None else stored.get("encryptedKeyMaterial")
        if stored is None or not material:
            return None
        raw = self._unwrap(self._kek(found, is_read=is_read), base64.b64decode(material))
        key = _key_in(raw, found.algorithm)
        dek = _Dek(int(stored["version"]), int(stored.get("ts", 0)), key)
        self._deks[place] = dek
        return dek

    def _kek(self, found: _Parameters, *, is_read: bool) -> Mapping[str, Any]:
        kek = self._keys.key(found.kek_name)
        if kek is None and not is_read:
            if not found.kms_type or not found.kms_key_id:
                raise EncryptionFailed(
                    f"there is no KEK {found.kek_name}: create it, or set encrypt.kms.type and "
                    "encrypt.kms.key.id in the rule"
                )
            body = {"name": found.kek_name, "kmsType": found.kms_type, "kmsKeyId": found.kms_key_id}
            kek = self._keys.add_key(body) or self._keys.key(found.kek_name)
        if kek is None:
            raise EncryptionFailed(f"there is no KEK {found.kek_name}")
        for name, wanted in (("kmsType", found.kms_type), ("kmsKeyId", found.kms_key_id)):
            if wanted and kek.get(name) != wanted:
                raise EncryptionFailed(f"the KEK {found.kek_name} has another {name} than the rule")
        return kek

    def _wrap(self, kek: Mapping[str, Any], raw: bytes) -> bytes:
        return _encrypt("AES128_GCM", self._kms_key(kek), raw)

    def _unwrap(self, kek: Mapping[str, Any], wrapped: bytes) -> bytes:
        return _decrypt("AES128_GCM", self._kms_key(kek), wrapped)

    def _kms_key(self, kek: Mapping[str, Any]) -> bytes:
        if kek.get("kmsType") != LOCAL_KMS:
            raise EncryptionFailed(f"the KMS {kek.get('kmsType')} is not supported, only {LOCAL_KMS}")
        secret = self._secret or os.environ.get(SECRET_VARIABLE)
        if not secret:
            raise EncryptionFailed(
                f"{LOCAL_KMS} needs its secret: local_kms_secret, or the variable {SECRET_VARIABLE}"
            )
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return HKDF(SHA256(), _KEY_BYTES["AES128_GCM"], None, b"").derive(secret.encode())


class _Parameters(NamedTuple):
    """The parameters of a rule."""

    kek_name: str
    algorithm: str
    expiry_days: int
    kms_type: str | None
    kms_key_id: str | None

    @classmethod
    def of(cls, rule: Mapping[str, Any]) -> _Parameters:
        given = rule.get("params") or {}
        name, algorithm = given.get("encrypt.kek.name"), given.get("encrypt.dek.algorithm") or "AES256_GCM"
        days = str(given.get("encrypt.dek.expiry.days") or "0")
        if not name:
            raise EncryptionFailed("the rule has no encrypt.kek.name")
        if algorithm not in _KEY_BYTES:
            raise EncryptionFailed(f"encrypt.dek.algorithm is one of {', '.join(_KEY_BYTES)}")
        if not days.isdecimal():
            raise EncryptionFailed("encrypt.dek.expiry.days is not a number of days")
        kms = given.get("encrypt.kms.type"), given.get("encrypt.kms.key.id")
        return cls(str(name), algorithm, int(days), *kms)


def _encrypt(algorithm: str, key: bytes, plain: bytes) -> bytes:
    ciphers = _ciphers()
    if algorithm == "AES256_SIV":
        return bytes(ciphers.AESSIV(key).encrypt(plain, [NO_DATA]))
    nonce = os.urandom(NONCE_BYTES)
    return nonce + bytes(ciphers.AESGCM(key).encrypt(nonce, plain, NO_DATA))


def _decrypt(algorithm: str, key: bytes, encrypted: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    ciphers = _ciphers()
    try:
        if algorithm == "AES256_SIV":
            return bytes(ciphers.AESSIV(key).decrypt(encrypted, [NO_DATA]))
        nonce, rest = encrypted[:NONCE_BYTES], encrypted[NONCE_BYTES:]
        return bytes(ciphers.AESGCM(key).decrypt(nonce, rest, NO_DATA))
    except (InvalidTag, ValueError):
        raise EncryptionFailed("it was encrypted with another key, or is damaged") from None


def _ciphers() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers import aead
    except ImportError:
        raise EncryptionFailed("encryption needs a package: pip install 'ottla[security]'") from None
    return aead


def _key_in(raw: bytes, algorithm: str) -> bytes:
    """Return the key in a key message of Tink: fields of which one has the key, another the version."""
    at = 0
    while at + 1 < len(raw):
        number, kind, size = raw[at] >> 3, raw[at] & 7, raw[at + 1]
        if kind != _LENGTH_DELIMITED:
            at += 2  # a small number
        elif number == _KEY_FIELDS[algorithm] and len(raw) >= at + 2 + size == at + 2 + _KEY_BYTES[algorithm]:
            return raw[at + 2 : at + 2 + size]
        else:
            at += 2 + size
    raise EncryptionFailed(f"the DEK is not a valid key for {algorithm}")
