"""Values and schemas as JSON, in the form of Connect's JSON converter."""

from __future__ import annotations

import base64
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

from ottla.connect.data import schema as s
from ottla.connect.data.schema import Field, Schema
from ottla.connect.errors import DataError

_TYPE_WORDS = {s.FLOAT32: "float", s.FLOAT64: "double"}
_TYPES = {word: kind for kind, word in _TYPE_WORDS.items()} | {
    each: each
    for each in (s.STRUCT, s.MAP, s.ARRAY, s.BOOLEAN, s.STRING, s.BYTES, s.INT8, s.INT16, s.INT32, s.INT64)
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_DAY = date(1970, 1, 1)
DECIMALS = Context(prec=200_000, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Of as many digits as PostgreSQL's numeric has at most: Python's own context rounds to 28."""


def schema_to_json(schema: Schema | None) -> dict[str, Any] | None:
    """Return the JSON object of a schema."""
    if schema is None:
        return None
    found: dict[str, Any] = {"type": _TYPE_WORDS.get(schema.type, schema.type)}
    if schema.type == s.STRUCT:
        found["fields"] = [
            {**(schema_to_json(each.schema) or {}), "field": each.name} for each in schema.fields
        ]
    elif schema.type == s.MAP:
        found |= {"keys": schema_to_json(schema.keys), "values": schema_to_json(schema.items)}
    elif schema.type == s.ARRAY:
        found["items"] = schema_to_json(schema.items)
    found["optional"] = schema.optional
    if schema.name is not None:
        found["name"] = schema.name
    if schema.version is not None:
        found["version"] = schema.version
    if schema.doc is not None:
        found["doc"] = schema.doc
    if schema.parameters:
        found["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        found["default"] = to_json(schema, schema.default)
    return found


def schema_from_json(found: Any) -> Schema | None:
    """Return the schema of a JSON object."""
    if found is None:
        return None
    if not isinstance(found, dict) or found.get("type") not in _TYPES:
        raise DataError(
            "Unknown schema type: " + str(found.get("type") if isinstance(found, dict) else found)
        )
    kind = _TYPES[found["type"]]
    fields: tuple[Field, ...] = ()
    if kind == s.STRUCT:
        fields = tuple(_field(each) for each in found.get("fields", ()))
    made = Schema(
        kind,
        bool(found.get("optional", False)),
        found.get("name"),
        found.get("version"),
        found.get("doc"),
        None,
        dict(found.get("parameters") or {}),
        fields,
        schema_from_json(found.get("keys")),
        schema_from_json(found.get("values") if kind == s.MAP else found.get("items")),
    )
    if found.get("default") is not None:
        made = Schema(
            *[
                from_json(made, found["default"]) if name == "default" else getattr(made, name)
                for name in made.__dataclass_fields__
            ]
        )
    return made


def _field(found: Any) -> Field:
    schema = schema_from_json(found)
    if schema is None or not isinstance(found.get("field"), str):
        raise DataError("Struct schema's field name not specified properly")
    return Field(found["field"], schema)


def to_json(schema: Schema | None, value: Any, *, decimals: str = "BASE64") -> Any:
    """Return what JSON has for a value."""
    if value is None:
        return to_json(schema, schema.default) if schema is not None and schema.default is not None else None
    if schema is None:
        return _plain(value, decimals)
    if schema.type == s.STRUCT:
        return {
            each.name: to_json(each.schema, value.get(each.name), decimals=decimals) for each in schema.fields
        }
    if schema.type == s.ARRAY:
        return [to_json(schema.items, each, decimals=decimals) for each in value]
    if schema.type == s.MAP:
        if schema.keys is not None and schema.keys.type == s.STRING:
            return {key: to_json(schema.items, each, decimals=decimals) for key, each in value.items()}
        return [
            [to_json(schema.keys, key, decimals=decimals), to_json(schema.items, each, decimals=decimals)]
            for key, each in value.items()
        ]
    return _plain(value, decimals, schema)


def _plain(value: Any, decimals: str, schema: Schema | None = None) -> Any:
    """Return what JSON has for a value that is no struct, array or map of a schema."""
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        scale = int(schema.parameters.get("scale", "0")) if schema is not None else None
        return float(value) if decimals == "NUMERIC" else base64.b64encode(unscaled(value, scale)).decode()
    if isinstance(value, datetime):
        return to_epoch_ms(value)
    if isinstance(value, date):
        return (value - EPOCH_DAY).days
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"  # as Jackson does
    if isinstance(value, dict):
        return {str(key): _plain(each, decimals) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, decimals) for each in value]
    return value


def from_json(schema: Schema | None, found: Any) -> Any:
    """Return the value that JSON stands for; raise DataError if it does not fit the schema."""
    if schema is None or found is None:
        return schema.default if schema is not None else found
    try:
        return _from_json(schema, found)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise DataError(f"{found!r} is no {schema.type}: {error}") from None


def _from_json(schema: Schema, found: Any) -> Any:
    if schema.type == s.STRUCT:
        return {each.name: from_json(each.schema, found.get(each.name)) for each in schema.fields}
    if schema.type == s.ARRAY:
        return [from_json(schema.items, each) for each in found]
    if schema.type == s.MAP:
        pairs = found.items() if isinstance(found, dict) else found
        return {from_json(schema.keys, key): from_json(schema.items, each) for key, each in pairs}
    if schema.name == s.DECIMAL_NAME:
        if isinstance(found, int | float):
            return Decimal(str(found))
        number = int.from_bytes(base64.b64decode(found), "big", signed=True)
        return DECIMALS.scaleb(Decimal(number), -int(schema.parameters.get("scale", "0")))
    if schema.name == s.TIMESTAMP_NAME:
        return from_epoch_ms(int(found))
    if schema.name == s.DATE_NAME:
        return EPOCH_DAY + timedelta(days=int(found))
    if schema.name == s.TIME_NAME:
        return (EPOCH + timedelta(milliseconds=int(found))).time()
    if schema.type == s.BYTES:
        return base64.b64decode(found)
    value = float(found) if schema.type in s.FLOATS and not isinstance(found, bool) else found
    s.check_value(schema, value)
    return value


def unscaled(value: Decimal, scale: int | None = None) -> bytes:
    """Return a decimal's unscaled number as the shortest two's complement bytes."""
    if scale is None:
        exponent = value.as_tuple().exponent
        scale = -exponent if isinstance(exponent, int) else 0
    number = int(DECIMALS.scaleb(value, scale))
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def to_epoch_ms(value: datetime) -> int:
    """Return milliseconds since 1970; a time without a zone is UTC."""
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(milliseconds=1)


def from_epoch_ms(value: int) -> datetime:
    """Return the time of milliseconds since 1970."""
    return EPOCH + timedelta(milliseconds=value)
