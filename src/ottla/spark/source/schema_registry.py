"""Schemas from a registry (Confluent's HTTP interface), each asked for once per process.

value on the wire   byte 0, int32 schema id, the value in Avro
"""

from __future__ import annotations

import json
from functools import lru_cache
from struct import Struct
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from ottla.spark.errors import SparkError

_HEADER = Struct(">bI")
WIRE_HEADER_BYTES = 5
TIMEOUT_S = 10
MAX_SCHEMAS = 1_000


class RegistryUnreachable(SparkError):
    """The schema registry does not answer, or does not know the schema."""


def schema_id_of(value: bytes) -> int:
    """Return the id of the schema that a value was written with."""
    if len(value) < WIRE_HEADER_BYTES:
        raise ValueError("it is too short for a value of a schema registry")
    magic, schema_id = _HEADER.unpack_from(value)
    if magic != 0:
        raise ValueError("it does not begin with byte 0, as values of a schema registry do")
    return int(schema_id)


@lru_cache(MAX_SCHEMAS)
def schema_by_id(url: str, schema_id: int) -> Any:
    """Return the schema with an id."""
    return json.loads(_get(url, f"schemas/ids/{schema_id}")["schema"])


def latest_schema(url: str, topic: str) -> Any:
    """Return the newest schema of the values of a topic."""
    return json.loads(_get(url, f"subjects/{quote(topic, safe='')}-value/versions/latest")["schema"])


def _get(url: str, path: str) -> Any:
    address = f"{url.rstrip('/')}/{path}"
    if not address.startswith(("http://", "https://")):
        raise SparkError(f"schemaRegistryUrl: must begin with http:// or https://, unlike {url!r}")
    try:
        with urlopen(Request(address), timeout=TIMEOUT_S) as answer:
            return json.load(answer)
    except (URLError, OSError, ValueError) as error:
        raise RegistryUnreachable(f"{address} does not answer with a schema: {error}") from None
