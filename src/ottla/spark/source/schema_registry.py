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
from ottla.spark.source.registry_columns import columns_of_json_schema, columns_of_protobuf

if TYPE_CHECKING:
    from ottla.registry.serdes import RegistryClient, RegistryDeserializer, RegistrySerializer

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
