"""Schemas of Connect: what a value is, with the names and the type words that Connect uses.

A value is a plain Python object: a struct and a map are dicts, an array is a list, bytes are bytes, and the
logical types are Decimal, date, time and datetime.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from ottla.connect.errors import DataError

STRUCT, MAP, ARRAY = "struct", "map", "array"
BOOLEAN, STRING, BYTES = "boolean", "string", "bytes"
INT8, INT16, INT32, INT64 = "int8", "int16", "int32", "int64"
FLOAT32, FLOAT64 = "float32", "float64"
INTEGERS = {INT8: 8, INT16: 16, INT32: 32, INT64: 64}
FLOATS = (FLOAT32, FLOAT64)

DECIMAL_NAME = "org.apache.kafka.connect.data.Decimal"
DATE_NAME = "org.apache.kafka.connect.data.Date"
TIME_NAME = "org.apache.kafka.connect.data.Time"
TIMESTAMP_NAME = "org.apache.kafka.connect.data.Timestamp"
LOGICAL_NAMES = frozenset({DECIMAL_NAME, DATE_NAME, TIME_NAME, TIMESTAMP_NAME})


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Schema:
    """What a value is."""

    type: str
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    default: Any = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: tuple[Field, ...] = ()
    keys: Schema | None = None
    """Of a map."""
    items: Schema | None = None
    """The values of a map, the elements of an array."""

    def field(self, name: str) -> Field | None:
        """Return a field of a struct by its name."""
        return next((each for each in self.fields if each.name == name), None)

    def as_optional(self) -> Schema:
        """Return the same schema for values that may be null."""
        return self if self.optional else replace(self, optional=True)

    def without_defaults(self) -> Schema:
        """Return the same schema where what has a default is null instead."""
        return replace(
            self,
            optional=self.optional or self.default is not None,
            default=None,
            fields=tuple(Field(each.name, each.schema.without_defaults()) for each in self.fields),
            keys=None if self.keys is None else self.keys.without_defaults(),
            items=None if self.items is None else self.items.without_defaults(),
        )

    def with_fields(self, fields: Mapping[str, Schema]) -> Schema:
        """Return a required struct of other fields with the same name, version, doc and parameters."""
        made = tuple(Field(name, schema) for name, schema in fields.items())
        return replace(self, optional=False, default=None, fields=made)

    def field_map(self) -> dict[str, Schema]:
        """Return the schemas of the fields by name, in order."""
        return {each.name: each.schema for each in self.fields}


def struct(fields: Mapping[str, Schema], name: str | None = None, *, optional: bool = False) -> Schema:
    """Return the schema of a struct."""
    made = tuple(Field(each, schema) for each, schema in fields.items())
    return Schema(STRUCT, optional=optional, name=name, fields=made)


def decimal(scale: int, *, optional: bool = False) -> Schema:
    """Return the schema of decimals with a scale."""
    return Schema(BYTES, optional, DECIMAL_NAME, 1, parameters={"scale": str(scale)})


def date_schema(*, optional: bool = False) -> Schema:
    """Return the schema of dates."""
    return Schema(INT32, optional, DATE_NAME, 1)


def time_schema(*, optional: bool = False) -> Schema:
    """Return the schema of times of day."""
    return Schema(INT32, optional, TIME_NAME, 1)


def timestamp_schema(*, optional: bool = False) -> Schema:
    """Return the schema of timestamps with milliseconds."""
    return Schema(INT64, optional, TIMESTAMP_NAME, 1)


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    STRUCT: (dict,),
    MAP: (dict,),
    ARRAY: (list, tuple),
    BOOLEAN: (bool,),
    STRING: (str,),
    BYTES: (bytes, bytearray, memoryview),
    FLOAT32: (float, int),
    FLOAT64: (float, int),
}
_LOGICAL_TYPES: dict[str, type] = {
    DECIMAL_NAME: Decimal,
    DATE_NAME: date,
    TIME_NAME: time,
    TIMESTAMP_NAME: datetime,
}


def check_value(schema: Schema, value: Any, where: str = "value") -> None:
    """Raise DataError if a value is not what its schema says."""
    if value is None:
        if not schema.optional and schema.default is None:
            raise DataError(
                f'Invalid value: null used for required field: "{where}", schema type: {schema.type.upper()}'
            )
        return
    logical = _LOGICAL_TYPES.get(schema.name or "")
    if logical is not None:
        if not isinstance(value, logical):
            raise _wrong(schema, value, where)
        return
    bits = INTEGERS.get(schema.type)
    if bits is not None:
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not -(1 << bits - 1) <= value < 1 << bits - 1
        ):
            raise _wrong(schema, value, where)
        return
    if not isinstance(value, _PYTHON_TYPES[schema.type]) or (
        schema.type in FLOATS and isinstance(value, bool)
    ):
        raise _wrong(schema, value, where)
    _check_parts(schema, value, where)


def _check_parts(schema: Schema, value: Any, where: str) -> None:
    if schema.type == STRUCT:
        for each in schema.fields:
            check_value(each.schema, value.get(each.name), each.name)
    elif schema.type == ARRAY and schema.items is not None:
        for item in value:
            check_value(schema.items, item, where)
    elif schema.type == MAP and schema.items is not None and schema.keys is not None:
        for key, item in value.items():
            check_value(schema.keys, key, where)
            check_value(schema.items, item, where)


def _wrong(schema: Schema, value: Any, where: str) -> DataError:
    return DataError(
        f'Invalid Python object for schema "{schema.name or ""}" with type {schema.type.upper()}: '
        f'{type(value).__name__} for field: "{where}"'
    )


def infer(value: Any) -> Schema | None:
    """Return the schema of a single value; None for null, maps and arrays."""
    if isinstance(value, bool):
        return Schema(BOOLEAN)
    for kind, schema in (
        (int, Schema(INT64)),
        (float, Schema(FLOAT64)),
        (str, Schema(STRING)),
        (bytes, Schema(BYTES)),
        (datetime, timestamp_schema()),
        (date, date_schema()),
        (time, time_schema()),
    ):
        if isinstance(value, kind):
            return schema
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return decimal(-exponent if isinstance(exponent, int) else 0)
    return None
