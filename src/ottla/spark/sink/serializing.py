"""Structs into values with the schemas of a registry, for the option `serialize`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ottla.spark.errors import SparkError, WrongOption
from ottla.spark.options import SCHEMA_TYPE, SERIALIZE, GivenOptions


@dataclass(frozen=True)
class SerializeOptions:
    """With which schema values are written."""

    url: str
    schema: str | None
    schema_type: str


def read_serialize_options(given: GivenOptions) -> SerializeOptions | None:
    """Return what the options of a write say about schemas; None if they say nothing."""
    if given.text("serialize") is None:
        for name in ("valueSchema", "schemaRegistryUrl", "schemaType"):
            if given.text(name) is not None:
                raise WrongOption(name, "says how values are serialized: write also serialize")
        return None
    given.value(SERIALIZE)
    url = given.text("schemaRegistryUrl")
    if url is None:
        raise WrongOption("schemaRegistryUrl", "must say where the registry is: http://localhost:8081")
    kind = given.value(SCHEMA_TYPE)
    return SerializeOptions(url, given.text("valueSchema"), kind.upper())


def serialized(options: SerializeOptions, column: Any, topics: Iterable[str]) -> list[bytes | None]:
    """Return the bytes of each struct of a column."""
    from ottla.registry.serdes import SerdeError
    from ottla.spark.source.schema_registry import registry_serializer

    serializer = registry_serializer(options.url, options.schema, options.schema_type)
    try:
        return [
            serializer.serialize_record(topic, "value", data, [])
            for topic, data in zip(topics, column.to_pylist(maps_as_pydicts="lossy"), strict=False)
        ]
    except SerdeError as error:
        raise SparkError(str(error)) from None
