"""The columns of a write: which there are, and what each means.

value      string or binary   the only one that must be there
key        string or binary   null: any partition
topic      string             unless the option `topic` says where all records go
partition  int                null: by the key, or any
headers    array<struct<key: string, value: binary>>
timestamp  timestamp          with the option `includeTimestamp`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.spark.errors import SparkError, WrongOption

COLUMNS = {
    "value": ("string", "binary"),
    "key": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp", "timestamp_ntz"),
}


@dataclass(frozen=True)
class Layout:
    """Which columns of a write are used, by their place."""

    places: Mapping[str, int]
    topic: str | None


def layout_of(schema: Any, topic: str | None, *, with_headers: bool, with_timestamp: bool) -> Layout:
    """Return the columns of a write; raise if one has the wrong type, or is missing."""
    places: dict[str, int] = {}
    for place, field in enumerate(schema.fields):
        name = field.name.lower()
        if name not in COLUMNS or (name == "headers" and not with_headers):
            continue
        if (name == "timestamp" and not with_timestamp) or (name == "topic" and topic is not None):
            continue
        kind = field.dataType.simpleString()
        if kind not in COLUMNS[name]:
            wanted = " or ".join(COLUMNS[name])
            raise SparkError(f"the column {field.name} must be {wanted}, not {kind}; use CAST, or to_json")
        places[name] = place
    if "value" not in places:
        raise SparkError(
            "there is no column `value`: what is in it becomes the records. "
            "For whole rows: df.select(to_json(struct('*')).alias('value'))"
        )
    if topic is None and "topic" not in places:
        raise WrongOption("topic", "must say where the records go, or there must be a column `topic`")
    return Layout(places, topic)
