"""Values of a schema registry in Spark: their columns, and how to deserialize and serialize them.

The client and the serdes are the registry's own (`ottla.registry.serdes`), one per process: each schema is
asked for once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ottla.spark.errors import SparkError, WrongOption

if TYPE_CHECKING:
    from ottla.registry.serdes import RegistryClient, RegistryDeserializer, RegistrySerializer


JSON_TYPES = {"string": "string", "integer": "bigint", "number": "double", "boolean": "boolean"}
PROTOBUF_TYPES = {
    "double": "double",
    "float": "float",
    "int32": "int",
    "sint32": "int",
    "sfixed32": "int",
    "int64": "bigint",
    "sint64": "bigint",
    "sfixed64": "bigint",
    "uint32": "bigint",
    "fixed32": "bigint",
    "uint64": "decimal(20,0)",
    "fixed64": "decimal(20,0)",
    "bool": "boolean",
    "string": "string",
    "bytes": "binary",
}
WRAPPERS = "google/protobuf/wrappers.proto"
TELL = "name the columns yourself: `id INT, name STRING`"


def columns_of_json_schema(schema: Any) -> dict[str, str]:
    """Return the properties of an object with their SQL types; raise WrongOption if there is no telling."""
    if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict):
        raise WrongOption("valueSchema", f"the JSON Schema in the registry lists no properties: {TELL}")
    return {name: _json_type(name, each) for name, each in schema["properties"].items()}


def _json_type(name: str, schema: Any) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    if kind in JSON_TYPES:
        return JSON_TYPES[str(kind)]
    if kind == "array" and "items" in schema:
        return f"array<{_json_type(name, schema['items'])}>"
    if kind == "object" and schema.get("properties"):
        inner = ",".join(f"`{each}`:{_json_type(each, of)}" for each, of in schema["properties"].items())
        return f"struct<{inner}>"
    raise WrongOption("valueSchema", f"the JSON Schema does not say which type {name} has: {TELL}")


def columns_of_protobuf(file: Any) -> dict[str, str]:
    """Return the fields of the first message of a file with their SQL types."""
    messages = list(file.message_types_by_name.values())
    if not messages:
        raise WrongOption("valueSchema", f"the Protobuf schema in the registry has no message: {TELL}")
    return {field.name: _field_type(field, (messages[0].full_name,)) for field in messages[0].fields}


def _field_type(field: Any, outer: tuple[str, ...]) -> str:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = message.fields_by_name["key"], message.fields_by_name["value"]
        return f"map<{_single_type(key, outer)},{_single_type(value, outer)}>"
    kind = _single_type(field, outer)
    return f"array<{kind}>" if field.is_repeated else kind


def _single_type(field: Any, outer: tuple[str, ...]) -> str:
    if field.enum_type is not None:
        return "string"
    message = field.message_type
    if message is None:
        kinds = {getattr(field, f"TYPE_{name.upper()}"): kind for name, kind in PROTOBUF_TYPES.items()}
        return kinds[field.type]
    if message.full_name == "google.protobuf.Timestamp":
        return "timestamp"
    if message.file.name == WRAPPERS:
        return _single_type(message.fields_by_name["value"], outer)
    if message.full_name in outer or message.full_name.startswith("google.protobuf."):
        raise WrongOption("valueSchema", f"there is no SQL type for {message.full_name}: {TELL}")
    within = (*outer, message.full_name)
    return "struct<" + ",".join(f"`{each.name}`:{_field_type(each, within)}" for each in message.fields) + ">"


Headers = Iterable[tuple[str, bytes | None]]


class RegistryUnreachable(SparkError):
    """The schema registry does not answer, or has no schema for a topic."""


@lru_cache(64)
def _client(url: str) -> RegistryClient:
    from ottla.registry.serdes import RegistryClient, SerdeError

    try:
        return RegistryClient(url)
    except SerdeError as error:
        raise WrongOption("schemaRegistryUrl", str(error)) from None


def latest_avro(url: str, topic: str) -> tuple[Any, dict[str, str]]:
    """Return the newest schema of a topic's values, if it is Avro, or else the columns that it has."""
    from ottla.registry.formats import parse
    from ottla.registry.serdes import SerdeError

    client = _client(url)
    try:
        schema = client.latest(f"{topic}-value").schema
        if schema.schema_type == "PROTOBUF":
            from ottla.registry.serdes.protobuf_codec import file_of

            return None, columns_of_protobuf(file_of(client, schema))
        if schema.schema_type == "JSON":
            return None, columns_of_json_schema(json.loads(schema.text))
        references = {name: each.text for name, each in client.referenced(schema).items()}
    except SerdeError as error:
        raise RegistryUnreachable(f"no schema for the values of {topic}: {error}") from None
    parsed = parse("AVRO", schema.text, references, validate=False)
    return json.loads(parsed.formatted("resolved")), {}


@lru_cache(64)
def _deserializer(url: str, reader_schema: str | None) -> RegistryDeserializer:
    from ottla.registry.serdes import RegistryDeserializer

    return RegistryDeserializer(_client(url), reader_schema=reader_schema, as_dict=True)


def registry_decoder(url: str, avro_schema: Any) -> Callable[[bytes, Headers], Any]:
    """Return what reads a value by the schema that it names, into an Avro schema if there is one.

    A value that cannot be read raises ValueError; a registry that does not answer, RegistryUnreachable.
    """
    from ottla.registry.serdes import RegistryUnavailable

    deserializer = _deserializer(url, None if avro_schema is None else json.dumps(avro_schema))

    def decode(value: bytes, headers: Headers) -> Any:
        try:
            return deserializer.deserialize_record("", "value", value, headers)
        except RegistryUnavailable as error:
            raise RegistryUnreachable(str(error)) from None

    return decode


@lru_cache(64)
def registry_serializer(url: str, schema: str | None, schema_type: str) -> RegistrySerializer:
    """Return what writes values with a schema, or with the latest one of the topic."""
    from ottla.registry.serdes import RegistrySerializer

    return RegistrySerializer(_client(url), schema, schema_type=schema_type)
