"""Data as JSON that people type and read: for commands, where values are text.

Avro has types that JSON lacks. Bytes are written as text with one character per byte, as in Avro's own JSON
encoding; decimals as text; times in ISO 8601. Unions have no tags, unlike Avro's JSON encoding; tags are
understood where they are written.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from ottla.registry.serdes.errors import SerdeError

_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "decimal": Decimal,
    "date": date.fromisoformat,
    "time-millis": time.fromisoformat,
    "time-micros": time.fromisoformat,
    "timestamp-millis": datetime.fromisoformat,
    "timestamp-micros": datetime.fromisoformat,
    "local-timestamp-millis": datetime.fromisoformat,
    "local-timestamp-micros": datetime.fromisoformat,
}


def to_json_text(data: Any) -> bytes:
    """Return data of any format as one line of JSON."""
    if hasattr(data, "DESCRIPTOR"):
        from google.protobuf.json_format import MessageToDict

        data = MessageToDict(
            data, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=_as_json).encode()


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("latin-1")
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def avro_from_json(schema: Any, data: Any, named: dict[str, Any] | None = None) -> Any:
    """Return what JSON means for an Avro schema that fastavro has parsed."""
    named = {} if named is None else named
    if isinstance(schema, list):
        return _of_union(schema, data, named)
    if isinstance(schema, str):
        if schema in named:
            return avro_from_json(named[schema], data, named)
        return data.encode("latin-1") if schema == "bytes" and isinstance(data, str) else data
    kind = schema["type"]
    if "name" in schema:
        named[schema["name"]] = schema
    logical = schema.get("logicalType")
    if logical in _FROM_TEXT and isinstance(data, str):
        try:
            return _FROM_TEXT[logical](data)
        except (ValueError, InvalidOperation):
            raise SerdeError(f"{data!r} is no {logical}") from None
    if kind in ("bytes", "fixed") and isinstance(data, str):
        return data.encode("latin-1")
    if kind == "record" and isinstance(data, dict):
        types = {each["name"]: each["type"] for each in schema["fields"]}
        return {
            name: avro_from_json(types[name], value, named) if name in types else value
            for name, value in data.items()
        }
    if kind == "array" and isinstance(data, list):
        return [avro_from_json(schema["items"], each, named) for each in data]
    if kind == "map" and isinstance(data, dict):
        return {key: avro_from_json(schema["values"], each, named) for key, each in data.items()}
    return data


def _of_union(branches: list[Any], data: Any, named: dict[str, Any]) -> Any:
    names = {_branch_name(each): each for each in branches if each != "null"}
    if data is None:
        return None
    if isinstance(data, dict) and len(data) == 1:
        ((tag, value),) = data.items()
        if tag in names:
            return tag, avro_from_json(names[tag], value, named)
    if len(names) == 1:
        return avro_from_json(next(iter(names.values())), data, named)
    return data


def _branch_name(branch: Any) -> str:
    return branch if isinstance(branch, str) else str(branch.get("name") or branch["type"])
