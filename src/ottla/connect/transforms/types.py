"""Transforms of types: Cast and TimestampConverter."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time
from typing import Any

from ottla.connect.config.keys import HIGH, LIST, ConfigKey, non_empty
from ottla.connect.data import schema as s
from ottla.connect.data.json_form import EPOCH, from_epoch_ms, to_epoch_ms
from ottla.connect.data.record import Record
from ottla.connect.data.schema import Schema
from ottla.connect.errors import DataError, WrongConfig
from ottla.connect.transforms.base import NULL_KEY, PartTransform
from ottla.connect.transforms.casts import cast
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
        if value is None:
            return schema, value
        if WHOLE in self.types:
            kind = self.types[WHOLE]
            return None if schema is None else _whole_schema(schema, kind), cast(value, kind)
        given = self.fields_of(schema, value)
        if schema is None:
            return None, {**given, **{name: cast(given.get(name), kind) for name, kind in self.types.items()}}
        fields = {
            name: cast(each, self.types[name]) if name in self.types else each for name, each in given.items()
        }
        made = schema.with_fields(
            {
                name: _cast_schema(each, self.types[name]) if name in self.types else each
                for name, each in schema.field_map().items()
            }
        )
        return replace(made, optional=schema.optional), fields


def _cast_schema(schema: Schema, kind: str) -> Schema:
    default = None if schema.default is None else cast(schema.default, kind)
    return Schema(kind, schema.optional, default=default)


def _whole_schema(schema: Schema, kind: str) -> Schema:
    made = _cast_schema(schema, kind)
    if schema.name in s.LOGICAL_NAMES:  # Kafka keeps the name, which no value of another type can have
        return replace(made, doc=schema.doc)
    return replace(
        made, name=schema.name, version=schema.version, doc=schema.doc, parameters=schema.parameters
    )


_PRECISIONS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1, "nanoseconds": None}
_SCHEMAS = {
    "string": Schema(s.STRING),
    "unix": Schema(s.INT64),
    "Date": s.date_schema(),
    "Time": s.time_schema(),
    "Timestamp": s.timestamp_schema(),
}


_TIMES = (s.DATE_NAME, s.TIME_NAME, s.TIMESTAMP_NAME)


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
            if schema is not None:
                _check_type(schema)
            return None if schema is None else self._schema(schema), self._convert(value)
        name = self.path.steps[0]
        if schema is None:
            if value is None:
                return None, None
            given = self.fields_of(None, value)
            return None, {**given, name: self._convert(given.get(name))}
        made = schema.with_fields(
            {each: self._schema(kind) if each == name else kind for each, kind in schema.field_map().items()}
        )
        made = replace(made, optional=schema.optional)
        if value is None:
            return made, None
        fields = dict(self.fields_of(schema, value))
        if (found := schema.field(name)) is not None:
            _check_type(found.schema)
            fields[name] = self._convert(fields[name])
        return made, fields

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


def _check_type(schema: Schema) -> None:
    """Raise DataError if values of a schema are no times."""
    if schema.name not in _TIMES and schema.type not in (s.STRING, s.INT64):
        raise DataError(f"Schema {schema.type.upper()} does not correspond to a known timestamp type format")
