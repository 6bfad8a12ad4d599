"""Transforms of types: Cast and TimestampConverter."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from ottla.connect.config.keys import HIGH, LIST, ConfigKey, non_empty
from ottla.connect.converters.plain import as_text
from ottla.connect.data import schema as s
from ottla.connect.data.json_form import EPOCH, from_epoch_ms, to_epoch_ms, to_json
from ottla.connect.data.record import Record
from ottla.connect.data.schema import Schema
from ottla.connect.errors import DataError, WrongConfig
from ottla.connect.transforms.base import NULL_KEY, PartTransform
from ottla.connect.transforms.java_dates import JavaDateFormat
from ottla.connect.transforms.paths import FieldPath

CASTS = (*s.INTEGERS, *s.FLOATS, s.BOOLEAN, s.STRING)
WHOLE = ""


class Cast(PartTransform):
    """Casts the key or value, or fields of it."""

    purpose = "cast types"
    keys = (
        ConfigKey(
            "spec",
            LIST,
            doc="field:type, with commas; or one type for the whole.",
            importance=HIGH,
            check=non_empty,
        ),
        NULL_KEY,
    )

    def set_up(self) -> None:
        """Parse the types."""
        self.types: dict[str, str] = {}
        for each in self.settings["spec"]:
            name, colon, kind = each.rpartition(":")
            kind = kind.strip().lower()
            if kind not in (*CASTS, s.BYTES):
                raise WrongConfig("spec", each, f"Invalid type found in casting spec: {kind}")
            if kind == s.BYTES:
                raise WrongConfig("spec", each, "Cast transformation does not support casting to BYTES")
            self.types[name.strip() if colon else WHOLE] = kind
        if WHOLE in self.types and len(self.types) > 1:
            raise WrongConfig(
                "spec",
                ",".join(self.settings["spec"]),
                "Cast transformations that specify a type to cast the entire value to may ony "
                "specify a single cast in their spec",
            )

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        """Return the cast."""
        if value is None and schema is None:
            return schema, value
        if WHOLE in self.types:
            kind = self.types[WHOLE]
            return None if schema is None else _cast_schema(schema, kind), cast(value, kind)
        fields = {
            name: cast(each, self.types[name]) if name in self.types else each
            for name, each in self.fields_of(schema, value).items()
        }
        if schema is None:
            return None, fields
        return schema.with_fields(
            {
                name: _cast_schema(each, self.types[name]) if name in self.types else each
                for name, each in schema.field_map().items()
            }
        ), fields


def _cast_schema(schema: Schema, kind: str) -> Schema:
    default = None if schema.default is None else cast(schema.default, kind)
    return Schema(kind, schema.optional, default=default, doc=schema.doc)


def cast(value: Any, kind: str) -> Any:
    """Return a value in another type; raise DataError."""
    if value is None:
        return None
    if isinstance(value, date | datetime | time):
        value = to_json(None, value)
    if isinstance(value, dict | list | bytes):
        raise DataError(f"Unexpected type in Cast transformation: {type(value).__name__}")
    try:
        if kind in s.INTEGERS:
            return _wrapped(value, s.INTEGERS[kind])
        if kind in s.FLOATS:
            return float(value)
        if kind == s.BOOLEAN:
            return value.lower() == "true" if isinstance(value, str) else bool(value)
        return as_text(value)
    except (ValueError, OverflowError):
        raise DataError(f"Value ({value}) was out of range for requested data type") from None


def _wrapped(value: Any, bits: int) -> int:
    """Return an integer of so many bits: numbers are cut as in Java, texts must fit."""
    limit = 1 << bits - 1
    if isinstance(value, str):
        number = int(value)
        if not -limit <= number < limit:
            raise ValueError(value)
        return number
    if isinstance(value, float | Decimal):
        return (
            max(-limit, min(limit - 1, int(value)))
            if bits >= 32
            else _cut(max(-(1 << 31), min((1 << 31) - 1, int(value))), bits)
        )
    return _cut(int(value), bits)


def _cut(number: int, bits: int) -> int:
    limit = 1 << bits - 1
    return (number + limit) % (1 << bits) - limit


_PRECISIONS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1, "nanoseconds": None}
_SCHEMAS = {
    "string": Schema(s.STRING),
    "unix": Schema(s.INT64),
    "Date": s.date_schema(),
    "Time": s.time_schema(),
    "Timestamp": s.timestamp_schema(),
}


class TimestampConverter(PartTransform):
    """Converts a time between text, Unix time, Date, Time and Timestamp."""

    purpose = "converting timestamp formats"
    keys = (
        ConfigKey("field", default="", doc="The field; empty: the whole.", importance=HIGH),
        ConfigKey("target.type", doc="The new type.", importance=HIGH, values=tuple(_SCHEMAS)),
        ConfigKey("format", default="", doc="Of texts, as in java.text.SimpleDateFormat."),
        ConfigKey("unix.precision", default="milliseconds", doc="Of Unix times.", values=tuple(_PRECISIONS)),
        NULL_KEY,
    )

    def set_up(self) -> None:
        """Parse the format."""
        self.target = self.settings["target.type"]
        self.precision = self.settings["unix.precision"]
        if self.target == "string" and not self.settings["format"].strip():
            raise WrongConfig(
                "format",
                "",
                "TimestampConverter requires format option to be specified when using string timestamps",
            )
        given = self.settings["format"]
        self.format = JavaDateFormat("format", given) if given else None
        self.path = FieldPath.of(self.settings["field"], "V1") if self.settings["field"] else None

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        """Return the converted time."""
        if self.path is None:
            found = None if schema is None else self._schema(schema)
            return found, self._convert(value)
        if value is None:
            return schema, value
        name = self.path.steps[0]
        fields = dict(self.fields_of(schema, value))
        if name in fields:
            fields[name] = self._convert(fields[name])
        if schema is None:
            return None, fields
        return schema.with_fields(
            {each: self._schema(kind) if each == name else kind for each, kind in schema.field_map().items()}
        ), fields

    def _schema(self, schema: Schema) -> Schema:
        made = _SCHEMAS[self.target]
        return replace(made, optional=schema.optional)

    def _convert(self, value: Any) -> Any:
        if value is None:
            return None
        moment = self._moment(value)
        if self.target == "string":
            assert self.format is not None
            return self.format.text(moment)
        if self.target == "unix":
            microseconds = (moment - EPOCH) // (EPOCH.resolution)
            per = _PRECISIONS[self.precision]
            return microseconds * 1000 if per is None else microseconds // per
        if self.target == "Date":
            return moment.date()
        if self.target == "Time":
            return moment.time().replace(microsecond=moment.microsecond // 1000 * 1000)
        return from_epoch_ms(to_epoch_ms(moment))

    def _moment(self, value: Any) -> datetime:
        if isinstance(value, datetime):
            return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        if isinstance(value, time):
            return datetime.combine(EPOCH.date(), value, UTC)
        if isinstance(value, str):
            if self.format is None:
                raise DataError("TimestampConverter requires format option for string timestamps")
            return self.format.parse(value)
        if isinstance(value, int) and not isinstance(value, bool):
            per = _PRECISIONS[self.precision]
            return EPOCH + (value // 1000 if per is None else value * per) * EPOCH.resolution
        raise DataError(f"TimestampConverter does not support {type(value).__name__} objects as timestamps")
