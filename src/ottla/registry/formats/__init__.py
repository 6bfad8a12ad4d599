"""Parses, writes and compares schemas: Avro, JSON Schema, Protobuf. No IO, no event loop.

parsed         what a parsed schema offers
levels         compatibility levels
limits         what bounds it all
identity       the MD5 and the GUID of a schema
avro, json_schema, protobuf    the formats
json_text, patterns, trampoline    JSON text as Jackson writes it; regular expressions; deep recursion

`parse` imports a format's libraries when it first needs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from ottla.registry.formats.identity import schema_guid, schema_md5
from ottla.registry.formats.levels import LEVELS, check
from ottla.registry.formats.limits import (
    MAX_DEPTH,
    MAX_ERROR_CHARS,
    MAX_SCHEMA_BYTES,
    InvalidSchema,
    check_size,
)
from ottla.registry.formats.parsed import SCHEMA_TYPES, Entity, ParsedSchema, Reference, TagChanges

if TYPE_CHECKING:
    from ottla.registry.formats.protobuf.schema import ProtobufSchema

__all__ = [
    "LEVELS",
    "MAX_DEPTH",
    "MAX_SCHEMA_BYTES",
    "SCHEMA_TYPES",
    "Entity",
    "InvalidSchema",
    "ParsedSchema",
    "Reference",
    "TagChanges",
    "check",
    "message_indexes",
    "message_name",
    "parse",
    "schema_guid",
    "schema_md5",
]


def parse(
    schema_type: str,
    text: str,
    references: Mapping[str, str] | None = None,
    *,
    normalize: bool = False,
    validate: bool = True,
) -> ParsedSchema:
    """Parse a schema; raise `InvalidSchema`, whose text is for the client, if it is none.

    `references` holds the text of everything that the schema refers to, by the name of the reference, in
    order: a schema comes after those that it refers to. `normalize` parses the normalised text instead.
    `validate` is for schemas that a client brings; those that are stored are parsed without, since earlier
    rules let them in.
    """
    if schema_type not in SCHEMA_TYPES:
        raise InvalidSchema(f"Invalid schema type {schema_type}")
    closure = dict(references or {})
    try:
        check_size(text, closure)
        parsed = _parse(schema_type, text, closure, validate=validate)
        if normalize and parsed.normalized != parsed.canonical:
            parsed = _parse(schema_type, parsed.normalized, closure, validate=False)
    except InvalidSchema as error:
        text = str(error)
        shown = text if len(text) <= MAX_ERROR_CHARS else f"{text[:MAX_ERROR_CHARS]}..."
        raise InvalidSchema(f"Invalid schema of type {schema_type}, details: {shown}") from None
    except RecursionError:
        raise InvalidSchema(f"Invalid schema of type {schema_type}, details: it is nested too deep") from None
    return parsed


def _parse(schema_type: str, text: str, references: dict[str, str], *, validate: bool) -> ParsedSchema:
    if schema_type == "AVRO":
        from ottla.registry.formats.avro.schema import AvroSchema

        return AvroSchema(text, references, validate=validate)
    if schema_type == "JSON":
        from ottla.registry.formats.json_schema.schema import JsonSchema

        return JsonSchema(text, references, validate=validate)
    from ottla.registry.formats.protobuf.schema import ProtobufSchema

    return ProtobufSchema(text, references, validate=validate)


def message_indexes(schema: ParsedSchema, name: str) -> list[int]:
    """Return the positions that a record names a message of a PROTOBUF schema by."""
    return _protobuf(schema).message_indexes(name)


def message_name(schema: ParsedSchema, indexes: Sequence[int]) -> str:
    """Return the full name of the message of a PROTOBUF schema at these positions."""
    return _protobuf(schema).message_name(indexes)


def _protobuf(schema: ParsedSchema) -> ProtobufSchema:
    if schema.schema_type != "PROTOBUF":
        raise InvalidSchema(f"a schema of type {schema.schema_type} has no messages")
    return cast("ProtobufSchema", schema)
