"""What a schema in the registry is: its text, what it refers to, its metadata and rules, its place.

Metadata and rule sets are kept as JSON objects in one normal form: known fields only, in a fixed order, sets
sorted.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ottla.registry.formats.identity import schema_md5
from ottla.registry.formats.parsed import Reference

AVRO = "AVRO"
CONFLUENT_VERSION = "confluent:version"
RULE_KINDS = ("migrationRules", "domainRules", "encodingRules")

Json = dict[str, Any]


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
            found["references"] = [reference_json(each) for each in self.definition.references]
        if self.definition.metadata is not None:
            found["metadata"] = self.definition.metadata
        if self.definition.rule_set is not None:
            found["ruleSet"] = self.definition.rule_set
        found["schema"] = self.definition.schema
        if self.timestamp >= 0:
            found["ts"] = self.timestamp
        found["deleted"] = self.deleted
        return found


def reference_json(reference: Reference) -> Json:
    """Return a reference as clients see it, and as it is stored."""
    return {"name": reference.name, "subject": reference.subject, "version": reference.version}


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
