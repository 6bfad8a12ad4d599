"""Records of the `_schemas` topic, as Confluent's registry writes and reads them: JSON keys and values.

    {"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}
        {"subject":...,"version":1,"id":7,"md5":...,"schemaType":...,"references":[...],"metadata":{...},
         "ruleSet":{...},"schema":"...","deleted":false}          no value: permanently deleted
    {"keytype":"CONFIG","subject":...,"magic":0}                  without a subject: of all
        {"subject":...,"compatibilityLevel":"FULL",...}
    {"keytype":"MODE","subject":...,"magic":0}                    {"subject":...,"mode":"READONLY"}
    {"keytype":"DELETE_SUBJECT","subject":...,"magic":0}          {"subject":...,"version":N}: soft, up to N
    {"keytype":"CLEAR_SUBJECT","subject":...,"magic":0}           {"subject":...}: forget what is soft deleted
    {"keytype":"CONTEXT","tenant":"default","context":".x","magic":0}
        {"tenant":"default","context":".x"}
    {"keytype":"ASSOC","tenant":"default","resourceName":"orders","resourceNamespace":"lkc-1",
     "resourceType":"topic","associationType":"value","subject":...,"magic":0}
        {"subject":...,"guid":...,"resourceId":...,"lifecycle":"WEAK","frozen":false,...}
    {"keytype":"NOOP","magic":0}                                  no value

One record is ours: a NOOP, which others skip, with the context and the largest id that was ever given out
there. It is written when the schema with that id is deleted for good. Otherwise compaction would make the
registry forget the id, and give it out again.

    {"keytype":"NOOP","magic":0,"context":"."}                    {"maxId":17}
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from ottla.registry.entities import AVRO, Definition, Json, StoredSchema, reference_json, references_of

TENANT = "default"


class KeyType(StrEnum):
    """What a record is about."""

    SCHEMA = "SCHEMA"
    CONFIG = "CONFIG"
    MODE = "MODE"
    DELETE_SUBJECT = "DELETE_SUBJECT"
    CLEAR_SUBJECT = "CLEAR_SUBJECT"
    CONTEXT = "CONTEXT"
    ASSOC = "ASSOC"
    NOOP = "NOOP"


RESOURCE_FIELDS = ("resourceName", "resourceNamespace", "resourceType", "associationType")
"""How the fields of a resource are called in keys and values."""
_KEY_TYPES = frozenset(each.value for each in KeyType)


class Resource(NamedTuple):
    """The key or the value of a topic, which a subject belongs to."""

    name: str
    namespace: str
    type: str
    association_type: str


class Key(NamedTuple):
    """A record's key; `subject` is None for what counts for all subjects."""

    type: KeyType
    subject: str | None = None
    version: int = 0
    context: str | None = None
    resource: Resource | None = None
    """What a subject is associated with."""


@dataclass(frozen=True, slots=True)
class RegistryRecord:
    """A key with its value; None is a tombstone."""

    key: Key
    value: Json | None

    def encode(self) -> tuple[bytes, bytes | None]:
        """Return key and value as they stand in the log."""
        return encode_key(self.key), None if self.value is None else _dump(self.value)


class UnreadableRecord(Exception):
    """A record that no registry has written."""


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def encode_key(key: Key) -> bytes:
    """Return a key's bytes: always the same for the same key, for compaction's sake."""
    found: Json = {"keytype": key.type.value}
    if key.type is KeyType.CONTEXT:
        found |= {"tenant": TENANT, "context": key.context, "magic": 0}
    elif key.type is KeyType.ASSOC and key.resource is not None:
        found["tenant"] = TENANT
        found |= dict(zip(RESOURCE_FIELDS, key.resource, strict=True))
        found |= {"subject": key.subject, "magic": 0}
    elif key.type is KeyType.NOOP:
        found["magic"] = 0
        if key.context is not None:
            found["context"] = key.context
    else:
        if key.subject is not None:
            found["subject"] = key.subject
        if key.type is KeyType.SCHEMA:
            found |= {"version": key.version, "magic": 1}
        else:
            found["magic"] = 0
    return _dump(found)


def decode(key: bytes | None, value: bytes | None) -> RegistryRecord | None:
    """Return a record; None if it is of a kind that this registry does not know."""
    try:
        found = json.loads(key or b"")
        if found["keytype"] not in _KEY_TYPES:
            return None
        kind = KeyType(found["keytype"])
        resource = (
            Resource(*(str(found[each]) for each in RESOURCE_FIELDS)) if kind is KeyType.ASSOC else None
        )
        version = int(found.get("version", 0))
        decoded = Key(kind, found.get("subject"), version, found.get("context"), resource)
        content = None if not value else json.loads(value)
        if content is not None and not isinstance(content, dict):
            raise TypeError("not an object")
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableRecord(f"{error!r}") from None
    return RegistryRecord(decoded, content)


def schema_key(subject: str, version: int) -> Key:
    """Return the key of one version."""
    return Key(KeyType.SCHEMA, subject, version)


def schema_record(schema: StoredSchema) -> RegistryRecord:
    """Return the record of one version."""
    definition = schema.definition
    value: Json = {"subject": schema.subject, "version": schema.version, "id": schema.id}
    value["md5"] = base64.b64encode(schema.md5).decode()
    if definition.schema_type != AVRO:
        value["schemaType"] = definition.schema_type
    if definition.references:
        value["references"] = [reference_json(each) for each in definition.references]
    if definition.metadata is not None:
        value["metadata"] = definition.metadata
    if definition.rule_set is not None:
        value["ruleSet"] = definition.rule_set
    value["schema"] = definition.schema
    value["deleted"] = schema.deleted
    return RegistryRecord(schema_key(schema.subject, schema.version), value)


def read_schema(key: Key, value: Json, timestamp: int) -> StoredSchema:
    """Return the version that a record holds."""
    try:
        definition = Definition(
            value["schema"],
            value.get("schemaType") or AVRO,
            references_of(value.get("references") or ()),
            value.get("metadata"),
            value.get("ruleSet"),
        )
        md5 = base64.b64decode(value["md5"]) if value.get("md5") else definition.md5
        subject = value.get("subject") or key.subject or ""
        return StoredSchema(
            subject,
            int(value.get("version", key.version)),
            int(value["id"]),
            md5,
            definition,
            bool(value.get("deleted", False)),
            timestamp,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableRecord(f"{error!r}") from None


def tombstone(subject: str, version: int) -> RegistryRecord:
    """Return what deletes a version for good."""
    return RegistryRecord(schema_key(subject, version), None)


def config_record(subject: str | None, config: Json | None) -> RegistryRecord:
    """Return what sets a config, or removes it."""
    value = None if config is None else ({"subject": subject} if subject is not None else {}) | config
    return RegistryRecord(Key(KeyType.CONFIG, subject), value)


def mode_record(subject: str | None, mode: str | None) -> RegistryRecord:
    """Return what sets a mode, or removes it."""
    value = None if mode is None else ({"subject": subject} if subject is not None else {}) | {"mode": mode}
    return RegistryRecord(Key(KeyType.MODE, subject), value)


def delete_subject_record(subject: str, version: int) -> RegistryRecord:
    """Return what soft deletes all versions of a subject up to one."""
    return RegistryRecord(Key(KeyType.DELETE_SUBJECT, subject), {"subject": subject, "version": version})


def clear_subject_record(subject: str | None) -> RegistryRecord:
    """Return what makes registries forget the soft deleted versions of a subject or context."""
    return RegistryRecord(
        Key(KeyType.CLEAR_SUBJECT, subject), {} if subject is None else {"subject": subject}
    )


def context_record(context: str, *, exists: bool = True) -> RegistryRecord:
    """Return what makes a context known, or forgotten."""
    key = Key(KeyType.CONTEXT, context=context)
    return RegistryRecord(key, {"tenant": TENANT, "context": context} if exists else None)


def max_id_record(context: str, max_id: int) -> RegistryRecord:
    """Return what remembers the largest id of a context, beyond compaction."""
    return RegistryRecord(Key(KeyType.NOOP, context=context), {"maxId": max_id})


def association_record(resource: Resource, subject: str, value: Json | None) -> RegistryRecord:
    """Return what associates a subject with a resource, or no longer does."""
    if value is not None:
        value = {
            "subject": subject,
            "tenant": TENANT,
            **dict(zip(RESOURCE_FIELDS, resource, strict=True)),
            **value,
        }
    return RegistryRecord(Key(KeyType.ASSOC, subject, resource=resource), value)
