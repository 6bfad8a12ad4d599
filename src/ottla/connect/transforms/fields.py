"""Transforms of fields: choose, rename, hoist, extract, flatten, insert, mask."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from ottla.connect.config.keys import HIGH, INT, LIST, ConfigKey, non_empty
from ottla.connect.converters import header_values
from ottla.connect.data import schema as s
from ottla.connect.data.json_form import from_epoch_ms
from ottla.connect.data.record import Record
from ottla.connect.data.schema import Schema
from ottla.connect.errors import DataError, WrongConfig
from ottla.connect.transforms.base import NULL_KEY, PACKAGE, PartTransform, Transform, with_defaults
from ottla.connect.transforms.casts import cut
from ottla.connect.transforms.paths import SYNTAX_KEY, FieldPath


class ExtractField(PartTransform):
    """Replaces a struct or map with one of its fields."""

    purpose = "field extraction"
    keys = (ConfigKey("field", doc="The field.", check=non_empty), SYNTAX_KEY, NULL_KEY)

    def set_up(self) -> None:
        """Parse the path."""
        self.path = FieldPath.of(self.settings["field"], self.settings["field.syntax.version"])

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        """Return the field."""
        if schema is None:
            return None, None if value is None else self.path.value_in(self.fields_of(schema, value))
        found = self.path.schema_in(schema)
        if found is None:
            raise DataError(f"Unknown field: {self.settings['field']}")
        return found, None if value is None else self.path.value_in(self.fields_of(schema, value))


class HoistField(PartTransform):
    """Wraps the key or value in a struct or map with one field."""

    keys = (ConfigKey("field", doc="The name of the field.", check=non_empty),)

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        """Return the wrapper."""
        name = self.settings["field"]
        return None if schema is None else s.struct({name: schema}), {name: value}


class ReplaceField(PartTransform):
    """Chooses and renames fields."""

    purpose = "field replacement"
    keys = (
        ConfigKey("exclude", LIST, [], "Fields to leave out."),
        ConfigKey("include", LIST, [], "Fields to keep; empty: all."),
        ConfigKey("renames", LIST, [], "old:new, with commas."),
        NULL_KEY,
    )

    def set_up(self) -> None:
        """Parse the renames."""
        self.names = parse_pairs("renames", self.settings["renames"])
        self.include, self.exclude = set(self.settings["include"]), set(self.settings["exclude"])
        self._kept: tuple[Schema, Schema] | None = None

    def keeps(self, name: str) -> bool:
        """Return whether a field stays."""
        return name not in self.exclude and (not self.include or name in self.include)

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        """Return the fields that stay, by their new names."""
        if value is None:
            return schema, value
        names = self.names
        fields = self.fields_of(schema, value)
        new_value = {names.get(name, name): each for name, each in fields.items() if self.keeps(name)}
        return None if schema is None else self._schema(schema), new_value

    def _schema(self, schema: Schema) -> Schema:
        if self._kept is None or self._kept[0] is not schema:
            fields = {
                self.names.get(each.name, each.name): each.schema
                for each in schema.fields
                if self.keeps(each.name)
            }
            self._kept = schema, schema.with_fields(fields)
        return self._kept[1]


def parse_pairs(key: str, given: Iterable[str]) -> dict[str, str]:
    """Return `a:b` pairs as a mapping."""
    found = {}
    for each in given:
        name, colon, target = each.partition(":")
        if not colon or not name.strip() or not target.strip() or ":" in target:
            raise WrongConfig(key, ",".join(given), f"Invalid rename mapping: {each}")
        found[name.strip()] = target.strip()
    return found


class Flatten(PartTransform):
    """Flattens nested structs and maps."""

    purpose = "flattening"
    keys = (ConfigKey("delimiter", default=".", doc="Between the names of the levels."),)

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        """Return the fields of all levels."""
        if value is None:
            return schema, value
        given = self.fields_of(schema, value)
        if schema is None:
            return None, self._values(given, "")
        fields: dict[str, Schema] = {}
        self._schemas(schema, "", schema.optional, fields)
        return schema.with_fields(fields), self._struct(schema, given, "")

    def _values(self, fields: dict[str, Any], prefix: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in fields.items():
            path = f"{prefix}{name}"
            if isinstance(value, dict):
                found |= self._values(value, path + self.settings["delimiter"])
            else:
                found[path] = value
        return found

    def _schemas(self, schema: Schema, prefix: str, optional: bool, found: dict[str, Schema]) -> None:
        for each in schema.fields:
            path = f"{prefix}{each.name}"
            nullable = optional or each.schema.optional
            if each.schema.type == s.STRUCT:
                self._schemas(each.schema, path + self.settings["delimiter"], nullable, found)
            else:
                found[path] = each.schema.as_optional() if nullable else each.schema

    def _struct(self, schema: Schema, value: dict[str, Any] | None, prefix: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        value = None if value is None else self.with_defaults(schema, value)
        for each in schema.fields:
            path, inner = f"{prefix}{each.name}", None if value is None else value.get(each.name)
            if each.schema.type == s.STRUCT:
                found |= self._struct(each.schema, inner, path + self.settings["delimiter"])
            else:
                found[path] = inner
        return found


class InsertField(PartTransform):
    """Adds fields: topic, partition, offset, timestamp, a fixed value."""

    purpose = "field insertion"
    keys = (
        ConfigKey("topic.field", default=None, doc="The field for the topic; `!` at the end: required."),
        ConfigKey("partition.field", default=None, doc="The field for the partition."),
        ConfigKey("offset.field", default=None, doc="The field for the offset; sinks only."),
        ConfigKey("timestamp.field", default=None, doc="The field for the record's timestamp."),
        ConfigKey("static.field", default=None, doc="The field for a fixed value."),
        ConfigKey("static.value", default=None, doc="The fixed value."),
        NULL_KEY,
    )

    def set_up(self) -> None:
        """Parse the names."""
        kinds = {
            "topic": Schema(s.STRING),
            "partition": Schema(s.INT32),
            "offset": Schema(s.INT64),
            "timestamp": s.timestamp_schema(),
            "static": Schema(s.STRING),
        }
        self.added: list[tuple[str, str, Schema]] = []
        for what, schema in kinds.items():
            given = self.settings[f"{what}.field"]
            if given is not None:
                required = given.endswith("!")
                name = given[:-1] if given.endswith(("!", "?")) else given
                self.added.append((what, name, schema if required else schema.as_optional()))
        if not self.added:
            raise WrongConfig("topic.field", None, "No field insertion configured")
        if self.settings["static.field"] is not None and self.settings["static.value"] is None:
            raise WrongConfig(
                "static.value", None, f"No value specified for static field: {self.settings['static.field']}"
            )

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        """Return the value with more fields."""
        if value is None:
            return schema, value
        new = dict(self.fields_of(schema, value))
        for what, name, _ in self.added:
            found = self._value(what, record)
            if schema is not None or found is not None:
                new[name] = found
        if schema is None:
            return None, new
        for _, name, _ in self.added:
            if schema.field(name) is not None:
                raise DataError(f"Cannot create field because of field name duplication {name}")
        return schema.with_fields(schema.field_map() | {name: each for _, name, each in self.added}), new

    def _value(self, what: str, record: Record) -> Any:
        if what == "topic":
            return record.topic
        if what == "partition":
            return record.partition
        if what == "static":
            return self.settings["static.value"]
        if what == "offset":
            if record.offset < 0:
                raise DataError(f"Only SinkRecord supported for [{self.purpose}], found: SourceRecord")
            return record.offset
        return None if record.timestamp_ms is None else from_epoch_ms(record.timestamp_ms)


class MaskField(PartTransform):
    """Replaces fields with the null value of their type, or with a given text or number."""

    purpose = "mask fields"
    keys = (
        ConfigKey("fields", LIST, doc="Fields to mask.", importance=HIGH, check=non_empty),
        ConfigKey("replacement", default=None, doc="For texts and numbers.", check=non_empty),
        NULL_KEY,
    )

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        """Return the value with masks."""
        if value is None:
            return schema, value
        fields = dict(self.fields_of(schema, value))
        for name in self.settings["fields"]:
            field = None if schema is None else schema.field(name)
            if schema is None or field is not None:
                given, kind = fields.get(name), None if field is None else field.schema
                fields[name] = None if given is None else self._mask(given, kind)
        return schema, fields

    def _mask(self, value: Any, schema: Schema | None) -> Any:
        replacement = self.settings["replacement"]
        if replacement is None:
            return _nothing(value)
        if isinstance(value, str):
            return replacement
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise DataError(f"Cannot mask value of type {type(value).__name__} with custom replacement.")
        _, found = header_values.parse(replacement)
        if isinstance(found, bool) or not isinstance(found, int | float | Decimal):
            raise DataError(f"Unable to convert {replacement} to number")
        if isinstance(value, int):
            return cut(int(found), s.INTEGERS.get(schema.type, 64) if schema is not None else 64)
        return float(found) if isinstance(value, float) else Decimal(str(found))


def _nothing(value: Any) -> Any:
    """Return the null of a value's type: 0, an empty text, and so on."""
    from datetime import UTC, date, datetime, time

    if isinstance(value, datetime):
        return datetime(1970, 1, 1, tzinfo=UTC)
    if isinstance(value, date):
        return date(1970, 1, 1)
    if isinstance(value, time):
        return time()
    if isinstance(value, Decimal):
        return value * 0
    if isinstance(value, bool | int | float | str | list | dict | bytes):
        return type(value)()
    raise DataError(f"Cannot mask value of type: {type(value).__name__}")


class ValueToKey(Transform):
    """Creates the key from fields of the value."""

    name = PACKAGE + "ValueToKey"
    keys = (
        ConfigKey("fields", LIST, doc="The fields.", importance=HIGH, check=non_empty),
        NULL_KEY,
    )

    def apply(self, record: Record) -> Record:
        """Set the key."""
        value, schema = record.value, record.value_schema
        if not isinstance(value, dict) or (schema is not None and schema.type != s.STRUCT):
            raise DataError(
                "Only Map objects supported in absence of schema for [copying fields from value to key]"
            )
        names = self.settings["fields"]
        if schema is None:
            record.key_schema, record.key = None, {name: value.get(name) for name in names}
            return record
        fields = schema.field_map()
        for name in names:
            if name not in fields:
                raise DataError(f"Field does not exist: {name}")
        record.key_schema = s.struct({name: fields[name] for name in names})
        if self.settings[NULL_KEY.name]:
            value = with_defaults(schema, value)
        record.key = {name: value.get(name) for name in names}
        return record


class SetSchemaMetadata(PartTransform):
    """Sets name and version of the schema."""

    keys = (
        ConfigKey("schema.name", default=None, doc="The new name.", importance=HIGH),
        ConfigKey("schema.version", INT, None, "The new version.", HIGH),
        NULL_KEY,
    )

    def set_up(self) -> None:
        """Check that there is something to set."""
        if self.settings["schema.name"] is None and self.settings["schema.version"] is None:
            raise WrongConfig("schema.name", None, "Neither schema name nor version configured")

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        """Return the same value with the new schema."""
        from dataclasses import replace

        if schema is None:
            if value is None:
                return schema, value
            raise DataError("Schema required for [updating schema metadata]")
        if schema.type == s.STRUCT and isinstance(value, dict):
            value = self.with_defaults(schema, value)
        name, version = self.settings["schema.name"], self.settings["schema.version"]
        return (
            replace(
                schema,
                name=schema.name if name is None else name,
                version=schema.version if version is None else version,
            ),
            value,
        )


PART_TRANSFORMS = (ExtractField, HoistField, ReplaceField, Flatten, InsertField, MaskField, SetSchemaMetadata)
