"""Records of `_dek_registry_keys`, as Confluent's DEK registry writes and reads them: JSON keys and values.

{"type":"KEK","tenant":"default","name":"k"}
    {"type":"KEK","name":"k","kmsType":"aws-kms","kmsKeyId":"arn:...","kmsProps":{},"doc":"...",
     "shared":false,"deleted":false}                                     no value: permanently deleted
{"type":"DEK","tenant":"default","kekName":"k","subject":"orders-value","algorithm":"AES256_GCM","version":1}
    {"type":"DEK","kekName":"k","subject":"orders-value","algorithm":"AES256_GCM","version":1,
     "encryptedKeyMaterial":"...","deleted":false}
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ottla.registry.entities import Json
from ottla.registry.records import TENANT, UnreadableRecord

ALGORITHMS = ("AES128_GCM", "AES256_GCM", "AES256_SIV")
DEFAULT_ALGORITHM = "AES256_GCM"
KEK, DEK = "KEK", "DEK"


@dataclass(frozen=True, slots=True)
class Kek:
    """A key of a key management service, which encrypts others."""

    name: str
    kms_type: str
    kms_key_id: str
    kms_props: Json = field(default_factory=dict)
    doc: str | None = None
    shared: bool = False
    deleted: bool = False
    timestamp: int = -1

    def content(self) -> Json:
        """Return it as clients see it, and as it is stored."""
        found: Json = {"name": self.name, "kmsType": self.kms_type, "kmsKeyId": self.kms_key_id}
        found["kmsProps"] = {name: self.kms_props[name] for name in sorted(self.kms_props)}
        if self.doc is not None:
            found["doc"] = self.doc
        found["shared"] = self.shared
        return found

    def is_equivalent(self, other: Kek) -> bool:
        """Return whether both are the same but for deletion."""
        return self.content() == other.content()


class DekId(NamedTuple):
    """Names a key of a subject."""

    kek_name: str
    subject: str
    algorithm: str
    version: int


@dataclass(frozen=True, slots=True)
class Dek:
    """A key that encrypts data, encrypted."""

    id: DekId
    encrypted_key_material: str | None
    deleted: bool = False
    timestamp: int = -1

    def content(self) -> Json:
        """Return it as clients see it, and as it is stored."""
        kek_name, subject, algorithm, version = self.id
        found: Json = {"kekName": kek_name, "subject": subject, "version": version, "algorithm": algorithm}
        if self.encrypted_key_material is not None:
            found["encryptedKeyMaterial"] = self.encrypted_key_material
        return found


def shown(key: Kek | Dek) -> Json:
    """Return a key as clients see it."""
    found = key.content()
    if key.timestamp >= 0:
        found["ts"] = key.timestamp
    if key.deleted:
        found["deleted"] = True
    return found


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key under its id; None removes it for good."""

    id: str | DekId
    key: Kek | Dek | None

    def encode(self) -> tuple[bytes, bytes | None]:
        """Return key and value as they stand in the log."""
        if isinstance(self.id, DekId):
            name: Json = {"type": DEK, "tenant": TENANT, "kekName": self.id.kek_name}
            name |= {"subject": self.id.subject, "algorithm": self.id.algorithm, "version": self.id.version}
        else:
            name = {"type": KEK, "tenant": TENANT, "name": self.id}
        if self.key is None:
            return _dump(name), None
        return _dump(name), _dump({"type": name["type"], **self.key.content(), "deleted": self.key.deleted})

    def at(self, timestamp: int) -> KeyRecord:
        """Return the record with the time at which it was written."""
        return self if self.key is None else KeyRecord(self.id, replace(self.key, timestamp=timestamp))


def decode(key: bytes | None, value: bytes | None) -> KeyRecord | None:
    """Return a record; None if it is of a kind that is not known."""
    try:
        name = json.loads(key or b"")
        content = json.loads(value) if value else None
        if name["type"] == KEK:
            return KeyRecord(str(name["name"]), None if content is None else _kek(content))
        if name["type"] == DEK:
            dek_id = DekId(name["kekName"], name["subject"], name["algorithm"], int(name["version"]))
            return KeyRecord(dek_id, None if content is None else _dek(dek_id, content))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableRecord(f"{error!r}") from None
    return None


def _kek(content: Json) -> Kek:
    return Kek(
        content["name"],
        content["kmsType"],
        content["kmsKeyId"],
        content.get("kmsProps") or {},
        content.get("doc"),
        bool(content.get("shared")),
        bool(content.get("deleted")),
    )


def _dek(dek_id: DekId, content: Json) -> Dek:
    return Dek(dek_id, content.get("encryptedKeyMaterial"), bool(content.get("deleted")))


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
