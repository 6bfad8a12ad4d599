"""What a schema in the registry is: its text, what it refers to, its metadata and rules, its hash.

Metadata and rule sets are kept as JSON objects in one normal form (known fields only, in a fixed order, sets
sorted), because the GUID of a schema is the MD5 of its text and of these, in this order:

    text, then of each reference its name, subject and version (int32), then if there is metadata a byte 1 and
    its tags, properties and sensitive names, then if there is a rule set a byte 1 and its rules.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

AVRO = "AVRO"
CONFLUENT_VERSION = "confluent:version"
RULE_KINDS = ("migrationRules", "domainRules", "encodingRules")

Json = dict[str, Any]


class Reference(NamedTuple):
    """How a schema names another one that it uses."""

    name: str
    subject: str
    version: int

    def as_json(self) -> Json:
        """Return it as clients see it."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class Definition:
    """What a client registers, or looks up: a schema without a place."""

    schema: str
    schema_type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None

    @property
    def md5(self) -> bytes:
        """Return the hash by which equal schemas are found."""
        return schema_md5(self.schema, self.references, self.metadata, self.rule_set)


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """One version of a subject."""

    subject: str
    version: int
    id: int
    md5: bytes
    definition: Definition
    deleted: bool = False
    timestamp: int = -1

    @property
    def schema(self) -> str:
        """Return its text."""
        return self.definition.schema

    @property
    def guid(self) -> str:
        """Return its hash, written as a UUID."""
        return str(uuid.UUID(bytes=self.md5))

    def soft_deleted(self) -> StoredSchema:
        """Return it as it is after a soft delete."""
        return replace(self, deleted=True)

    def as_json(self, *, with_id: bool = True, with_place: bool = True) -> Json:
        """Return it as clients see it; without its place, what is the same under every subject."""
        found: Json = {}
        if with_place:
            found["subject"] = self.subject
            found["version"] = self.version
        if with_id:
            found["id"] = self.id
        found["guid"] = self.guid
        found["schemaType"] = self.definition.schema_type
        if self.definition.references:
            found["references"] = [each.as_json() for each in self.definition.references]
        if self.definition.metadata is not None:
            found["metadata"] = self.definition.metadata
        if self.definition.rule_set is not None:
            found["ruleSet"] = self.definition.rule_set
        found["schema"] = self.definition.schema
        if self.timestamp >= 0:
            found["ts"] = self.timestamp
        found["deleted"] = self.deleted
        return found


def schema_md5(
    schema: str, references: Sequence[Reference], metadata: Json | None, rule_set: Json | None
) -> bytes:
    """Return the hash of a schema, as Confluent's registry computes it."""
    md5 = hashlib.md5(schema.encode(), usedforsecurity=False)
    for each in references:
        md5.update(each.name.encode() + each.subject.encode())
        md5.update((each.version & 0xFFFFFFFF).to_bytes(4, "big"))
    if metadata is not None:
        md5.update(b"\x01")
        for name, tags in metadata.get("tags", {}).items():
            md5.update(name.encode() + "".join(tags).encode())
        for name, value in metadata.get("properties", {}).items():
            md5.update(name.encode() + value.encode())
        md5.update("".join(metadata.get("sensitive", ())).encode())
    if rule_set is not None:
        md5.update(b"\x01")
        for kind in RULE_KINDS:
            for rule in rule_set.get(kind, ()):
                _hash_rule(md5, rule)
        md5.update(rule_set.get("enableAt", "").encode())
    return md5.digest()


def _hash_rule(md5: Any, rule: Json) -> None:
    for field in ("name", "doc", "kind", "mode", "type"):
        md5.update(rule.get(field, "").encode())
    md5.update("".join(rule.get("tags", ())).encode())
    for name, value in rule.get("params", {}).items():
        md5.update(name.encode() + value.encode())
    for field in ("expr", "onSuccess", "onFailure"):
        md5.update(rule.get(field, "").encode())
    if rule.get("disabled"):
        md5.update(b"\x01")


def parse_guid(text: str) -> bytes | None:
    """Return the hash that a GUID writes, or None if it is none."""
    try:
        return uuid.UUID(text).bytes
    except ValueError:
        return None


def without_version(metadata: Json | None) -> Json | None:
    """Return metadata without the version that the registry has put into it; None if nothing is left."""
    if metadata is None:
        return None
    properties = {
        name: value for name, value in metadata.get("properties", {}).items() if name != CONFLUENT_VERSION
    }
    rest = {name: value for name, value in metadata.items() if name != "properties"}
    if properties:
        rest["properties"] = properties
    return rest or None


def references_of(value: Sequence[Mapping[str, Any]]) -> tuple[Reference, ...]:
    """Return the references of a JSON array."""
    return tuple(Reference(each["name"], each["subject"], each["version"]) for each in value)
