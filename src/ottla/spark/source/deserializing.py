"""Deserialize values into columns: JSON, Avro, or Avro, JSON Schema and Protobuf with a schema registry.

The fields of the values become columns beside those of the records. An invalid value fails the query, with
its topic, partition and offset; or, with `badRecords` = `keep`, its columns are null, and the columns `value`
and `error` contain the bytes and the reason.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from ottla.spark.errors import SparkError, WrongOption
from ottla.spark.options import BAD_RECORDS, DESERIALIZE, JSON, REGISTRY, GivenOptions
from ottla.spark.source.json_times import Zone, find_zone
from ottla.spark.source.json_values import parse_json
from ottla.spark.source.schema_registry import latest_avro, registry_decoder
from ottla.spark.worker import task_info

# The columns of an Avro record, in SQL types.

SIMPLE = {
    "null": "void",
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
    "enum": "string",
    "fixed": "binary",
}
LOGICAL = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "uuid": "string",
}


def columns_of_avro(schema: Any) -> dict[str, str]:
    """Return the fields of an Avro record with their SQL types; raise WrongOption for another schema."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise WrongOption("valueSchema", "must be an Avro record: its fields become columns")
    named: dict[str, Any] = {}
    return {field["name"]: _type(field["type"], named) for field in schema.get("fields", ())}


def _type(schema: Any, named: dict[str, Any]) -> str:
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) != 1:
            raise WrongOption("valueSchema", f"a union may be of one type and null, not {schema}")
        return _type(kinds[0], named)
    if isinstance(schema, str):
        if schema in SIMPLE:
            return SIMPLE[schema]
        if schema in named:
            return _type(named[schema], named)
        raise WrongOption("valueSchema", f"does not say what {schema} is")
    kind = schema["type"]
    if "name" in schema:
        named[schema["name"]] = named[f"{schema.get('namespace', '')}.{schema['name']}"] = schema
    logical = schema.get("logicalType")
    if logical == "decimal":
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    if logical in LOGICAL:
        return LOGICAL[logical]
    if kind == "record":
        inner = ",".join(f"`{each['name']}`:{_type(each['type'], named)}" for each in schema["fields"])
        return f"struct<{inner}>"
    if kind == "array":
        return f"array<{_type(schema['items'], named)}>"
    if kind == "map":
        return f"map<string,{_type(schema['values'], named)}>"
    return _type(kind, named)


ERROR = "error"
HEADERS = "headers"
PLACE = ("topic", "partition", "offset")


class BadValue(SparkError):
    """A value that cannot be deserialized."""


@dataclass(frozen=True)
class Deserializer:
    """How values become columns."""

    kind: str
    types: Mapping[str, str]
    """The fields, and ERROR, with their SQL types."""
    keeps_bad: bool
    avro_schema: Any = None
    registry_url: str = ""
    columns: tuple[str, ...] = ()
    """The requested columns, in order."""
    schema: Any = None
    """Their Arrow types, as Spark expects them."""
    time_zone: str | None = None
    """The zone of times in JSON that name none."""

    @property
    def fields(self) -> list[str]:
        """The fields of a value."""
        return [each for each in self.types if each != ERROR]

    @property
    def needed(self) -> list[str]:
        """The columns of the records that are needed as input."""
        mine = set(self.types)
        headers = (HEADERS,) if self.kind == REGISTRY else ()
        return [
            each for each in dict.fromkeys((*self.columns, "value", *headers, *PLACE)) if each not in mine
        ]

    def available(self, columns: Sequence[str]) -> list[str]:
        """Return all available columns."""
        kept = [each for each in columns if each != "value" or self.keeps_bad]
        twice = sorted({each.lower() for each in self.types} & {each.lower() for each in kept})
        fresh = [each for each in self.types if each.lower() not in twice]
        if twice:
            # A field hides the record's column of the same name.
            kept = [each for each in kept if each.lower() not in twice]
            fresh = list(self.types)
        return kept + fresh

    def choosing(self, columns: Sequence[str]) -> Deserializer:
        """Return a copy for these columns only."""
        return replace(self, columns=tuple(columns))

    def typed(self, schema: Any) -> Deserializer:
        """Return a copy with the Arrow types of its columns."""
        return replace(self, schema=schema)

    def apply(self, rows: Any) -> Any:
        """Return records with their values as columns."""
        fields = [each for each in self.columns if each in self.types and each != ERROR]
        wanted = pa.schema([self.schema.field(each) for each in fields])
        parsed, errors = self._parse(rows, wanted)
        if not self.keeps_bad and errors:
            row, reason = next(iter(errors.items()))
            place = {each: rows.column(each)[row].as_py() for each in PLACE if each in rows.schema.names}
            raise BadValue(
                f"the value of {place.get('topic')}-{place.get('partition')} at offset {place.get('offset')} "
                f"is not valid {self.kind}: {reason}. To keep such records, set badRecords to keep"
            )
        arrays = []
        for name in self.columns:
            if name == ERROR and ERROR in self.types:
                arrays.append(pa.array([errors.get(row) for row in range(rows.num_rows)], pa.string()))
            else:
                arrays.append(parsed.column(name) if name in fields else rows.column(name))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _parse(self, rows: Any, wanted: Any) -> tuple[Any, dict[int, str]]:
        values = rows.column("value").to_pylist()
        if self.kind == JSON:
            return parse_json(values, wanted, self._zone())
        found: list[dict[str, Any]] = []
        errors: dict[int, str] = {}
        decode = self._decoder(rows)
        for row, value in enumerate(values):
            try:
                found.append({} if value is None else _fields(decode(value, row), wanted))
            except SparkError:
                raise
            except Exception as error:
                errors[row] = f"{type(error).__name__}: {error}"
                found.append({})
        try:
            return pa.RecordBatch.from_pylist(found, schema=wanted), errors
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return _fitting(found, errors, wanted), errors

    def _zone(self) -> Zone:
        """Return the zone of times that name none: the option's, or the session's, or this machine's."""
        name = self.time_zone or task_info().time_zone
        return find_zone(name) if name else None

    def _decoder(self, rows: Any) -> Callable[[bytes, int], Any]:
        """Return what reads the value of a row."""
        if self.kind == REGISTRY:
            read, headers = registry_decoder(self.registry_url, self.avro_schema), _headers(rows)
            return lambda value, row: read(value, headers[row])
        from fastavro import schemaless_reader

        return lambda value, row: schemaless_reader(io.BytesIO(value), self.avro_schema, None)


def _headers(rows: Any) -> Sequence[Sequence[tuple[str, bytes | None]]]:
    """Return the headers of each row, which may name the schema."""
    if HEADERS not in rows.schema.names:
        return [()] * rows.num_rows
    return [[(each["key"], each["value"]) for each in row or ()] for row in rows.column(HEADERS).to_pylist()]


def _fields(value: Any, wanted: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"it is not an object but {type(value).__name__}")
    return {name: value.get(name) for name in wanted.names}


def _fitting(found: list[dict[str, Any]], errors: dict[int, str], wanted: Any) -> Any:
    """Return the rows that fit their types; for the others, add the reason to `errors`."""
    for row, fields in enumerate(found):
        try:
            pa.RecordBatch.from_pylist([fields], schema=wanted)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            errors[row] = f"{type(error).__name__}: {error}"
            found[row] = {}
    return pa.RecordBatch.from_pylist(found, schema=wanted)


def read_deserializer(given: GivenOptions) -> Deserializer:
    """Return the deserializer of the options."""
    if given.text("deserialize") is None:
        for name in ("valueSchema", "schemaRegistryUrl", "badRecords", "timeZone"):
            if given.text(name) is not None:
                raise WrongOption(name, "needs the option deserialize")
    kind = given.value(DESERIALIZE) or JSON
    keeps_bad = given.value(BAD_RECORDS) == "keep"
    schema = given.text("valueSchema")
    url = given.text("schemaRegistryUrl") or ""
    types, avro_schema = _types(kind, schema, url, given)
    if keeps_bad:
        if ERROR in types:
            raise WrongOption(
                "badRecords", f"keep needs a column {ERROR}, but the values have a field of that name"
            )
        types = {**types, ERROR: "string"}
    return Deserializer(kind, types, keeps_bad, avro_schema, url, time_zone=_time_zone(given))


def _time_zone(given: GivenOptions) -> str | None:
    name = given.text("timeZone")
    if name is not None:
        try:
            find_zone(name)
        except ValueError as error:
            raise WrongOption("timeZone", str(error)) from None
    return name


def _types(kind: str, schema: str | None, url: str, given: GivenOptions) -> tuple[dict[str, str], Any]:
    if kind == JSON:
        if schema is None:
            raise WrongOption("valueSchema", "must name the columns of the JSON: id INT, name STRING")
        return split_columns(schema), None
    if kind == REGISTRY:
        if not url:
            raise WrongOption(
                "schemaRegistryUrl", "must be the address of the registry: http://localhost:8081"
            )
        topics = (given.text("subscribe") or "").split(",")
        if schema is None and (len(topics) != 1 or not topics[0]):
            raise WrongOption("valueSchema", "is needed unless one topic is subscribed by name")
        if schema is not None and not schema.lstrip().startswith("{"):
            return split_columns(schema), None
        avro: Any = None
        if schema is None:
            avro, columns = latest_avro(url, topics[0].strip())
            if columns:
                return columns, None
        else:
            avro = _avro(schema)
    else:
        if schema is None:
            raise WrongOption("valueSchema", "must be the Avro schema of the values, as JSON")
        avro = _avro(schema)
    return columns_of_avro(avro), avro


def _avro(schema: str) -> Any:
    try:
        return json.loads(schema)
    except ValueError:
        raise WrongOption("valueSchema", "is not JSON; an Avro schema is") from None


def split_columns(text: str) -> dict[str, str]:
    """Return the columns of a list as in SQL, `id INT, tags ARRAY<STRING>`, with their types."""
    parts, depth, part = [], 0, ""
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            parts.append(part)
            part = ""
        else:
            part += character
    found = {}
    for each in (*parts, part):
        name, _, kind = (
            each.strip().replace(":", " ", 1).partition(" ")
            if "<" not in each.split(" ")[0]
            else ("", "", "")
        )
        if not name or not kind.strip():
            raise WrongOption("valueSchema", f"must look like `id INT, name STRING`, not {text!r}")
        found[name.strip("`")] = kind.strip()
    return found
