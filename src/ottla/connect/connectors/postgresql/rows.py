"""Records as rows of tables, and what sinks that write them are configured with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from ottla.connect.config.keys import BOOLEAN, HIGH, LIST, ConfigKey
from ottla.connect.connectors.postgresql.database import quoted, table_name
from ottla.connect.connectors.postgresql.debezium import (
    CYCLE_DAYS,
    CYCLE_YEARS,
    DAY_US,
    INFINITIES,
    UNAVAILABLE,
)
from ottla.connect.data import schema as s
from ottla.connect.data.json_form import DECIMALS
from ottla.connect.data.record import Record
from ottla.connect.data.schema import Schema
from ottla.connect.errors import ConnectError

ENVELOPE = frozenset({"before", "after", "source", "op"})
MAX_SCHEMAS = 1000
UNAVAILABLE_BYTES = UNAVAILABLE.encode()
"""As UNAVAILABLE: the column keeps what the table has."""
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"


TABLE_KEYS = (
    ConfigKey("table.name.format", default="${topic}", doc="The table for a topic.", importance=HIGH),
    ConfigKey(
        "insert.mode",
        default="upsert",
        doc="Insert rows, or upsert them by primary key.",
        importance=HIGH,
        values=("insert", "upsert"),
    ),
    ConfigKey(
        "pk.mode",
        default="record_key",
        doc="The source of the primary key.",
        importance=HIGH,
        values=("none", "record_key", "record_value"),
    ),
    ConfigKey("pk.fields", LIST, [], "The columns of the primary key; default: all fields of the key."),
    ConfigKey("delete.enabled", BOOLEAN, True, "Delete the row of a key for a tombstone."),
    ConfigKey("auto.create", BOOLEAN, False, "Create missing tables."),
    ConfigKey("auto.evolve", BOOLEAN, False, "Add missing columns."),
)
"""What sinks that write to tables are configured with."""


def check_modes(config: Mapping[str, str]) -> dict[str, str]:
    """Return what is wrong with the modes of a sink together, by key."""
    if config.get("insert.mode", "upsert") == "upsert" and config.get("pk.mode") == "none":
        return {"pk.mode": "upsert needs a primary key: record_key or record_value"}
    if config.get("pk.mode") == "record_value" and not config.get("pk.fields"):
        return {"pk.fields": "record_value needs the names of the key's columns"}
    return {}


@dataclass(slots=True)
class Row:
    """A row to write, or the key of one to delete."""

    record: Record
    key: dict[str, Any]
    columns: dict[str, Any]
    schemas: Mapping[str, Schema | None]
    """Of the columns; rows of the same schemas share it."""
    is_delete: bool = False


class RowMaker:
    """Makes rows of records."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._columns: dict[tuple[int, int], tuple[Any, Any, dict[str, Schema | None], set[str]]] = {}

    def row(self, record: Record) -> Row | str | None:
        """Return the row of a record; a text if it has none, None if there is nothing to do."""
        value, is_delete, in_envelope = record.value, record.value is None, False
        if isinstance(value, dict) and value.keys() >= ENVELOPE:  # Debezium's envelope
            is_delete, in_envelope = value["op"] == "d", True
            value = value["before"] if is_delete else value["after"]
            if value is None and not is_delete:
                return None
        key = _key(record, value, self._settings)
        if isinstance(key, str):
            return key
        if is_delete:
            if not self._settings["delete.enabled"]:
                return None
            return Row(record, key, {}, {}, is_delete=True) if key else "a record without a value and a key"
        if not isinstance(value, dict):
            return f"the value is {type(value).__name__}, and a row needs fields"
        schemas, special = self._schemas(record, in_envelope, key)
        columns = value if value.keys() >= key.keys() else {**key, **value}
        columns = {
            name: _ready(schemas.get(name), each)
            if name in special or isinstance(each, dict | list)
            else each
            for name, each in columns.items()
        }
        if UNAVAILABLE in columns.values() or UNAVAILABLE_BYTES in columns.values():
            columns = {name: each for name, each in columns.items() if not is_unavailable(each)}
        if columns.keys() != schemas.keys():
            schemas = {name: schemas.get(name) for name in columns}
        return Row(record, key, columns, schemas)

    def _schemas(
        self, record: Record, in_envelope: bool, key: dict[str, Any]
    ) -> tuple[dict[str, Schema | None], set[str]]:
        """Return the schemas of the columns, and which have values that psycopg does not write."""
        place = (id(record.value_schema), id(record.key_schema))
        kept = self._columns.get(place)
        if kept is None or kept[0] is not record.value_schema or kept[1] is not record.key_schema:
            schema = record.value_schema
            if schema is not None and in_envelope:
                schema = schema.field_map()["after"]
            found: dict[str, Schema | None] = {}
            if record.key_schema is not None and record.key_schema.type == s.STRUCT:
                found |= {name: each for name, each in record.key_schema.field_map().items() if name in key}
            if schema is not None:
                found |= schema.field_map()
            special = {name for name, each in found.items() if each is not None and _is_special(each)}
            if len(self._columns) >= MAX_SCHEMAS:
                self._columns.clear()
            kept = self._columns[place] = (record.value_schema, record.key_schema, found, special)
        return kept[2], kept[3]


def is_unavailable(value: Any) -> bool:
    """Tell whether a value stands for one that the log does not have."""
    return value in (UNAVAILABLE, UNAVAILABLE_BYTES) if isinstance(value, str | bytes) else False


def _is_special(schema: Schema) -> bool:
    return schema.name in _DEBEZIUM or schema.name == VARIABLE_DECIMAL


def _key(record: Record, value: Any, settings: dict[str, Any]) -> dict[str, Any] | str:
    mode, names = settings["pk.mode"], settings["pk.fields"]
    if mode == "none":
        return {}
    if mode == "record_value":
        if not isinstance(value, dict):
            return "the value has no fields, and pk.mode is record_value"
        missing = [each for each in names if value.get(each) is None]
        return (
            f"the key's column {missing[0]} is not set" if missing else {name: value[name] for name in names}
        )
    if record.key is None:
        return "the record has no key, and pk.mode is record_key"
    if not isinstance(record.key, dict):
        return {names[0] if names else "id": record.key}
    chosen = names or list(record.key)
    return {name: record.key.get(name) for name in chosen}


_EPOCH = datetime(1970, 1, 1)
_DEBEZIUM: dict[str, Callable[[int], Any]] = {
    "io.debezium.time.Date": lambda value: date.fromordinal(719163 + value),
    "io.debezium.time.MicroTimestamp": lambda value: _EPOCH + timedelta(microseconds=value),
    "io.debezium.time.MicroTime": lambda value: (
        "24:00:00" if value == DAY_US else (_EPOCH + timedelta(microseconds=value)).time()
    ),
}
_INFINITIES = {value: text for text, found in INFINITIES.items() for value in found.values()}


def _far_time(name: str | None, value: int) -> str:
    """Return the text of a time that Python has not: infinity, or a year before 1 or after 9999."""
    if value in _INFINITIES:
        return _INFINITIES[value]
    days, rest_us = (value, 0) if name == "io.debezium.time.Date" else divmod(value, DAY_US)
    cycles, day = divmod(days, CYCLE_DAYS)
    near = (_EPOCH + timedelta(days=day, microseconds=rest_us)).isoformat(" ")
    year = int(near[:4]) + cycles * CYCLE_YEARS
    return f"{year:04}{near[4:]}" if year > 0 else f"{1 - year:04}{near[4:]} BC"


def _ready(schema: Schema | None, value: Any) -> Any:
    """Return a value that psycopg writes."""
    if value is None:
        return None
    convert = _DEBEZIUM.get(schema.name or "") if schema is not None else None
    if schema is not None and convert is not None and isinstance(value, int):
        try:
            return convert(value)
        except (OverflowError, ValueError):
            return _far_time(schema.name, value)
    if schema is not None and schema.name == VARIABLE_DECIMAL and isinstance(value, dict):
        number = int.from_bytes(value["value"], "big", signed=True)
        return DECIMALS.scaleb(Decimal(number), -value["scale"])
    return json.dumps(value, default=str) if isinstance(value, dict | list) else value


_SQL = {
    s.BOOLEAN: "boolean",
    s.INT8: "smallint",
    s.INT16: "smallint",
    s.INT32: "integer",
    s.INT64: "bigint",
    s.FLOAT32: "real",
    s.FLOAT64: "double precision",
    s.BYTES: "bytea",
    s.STRING: "text",
    s.STRUCT: "jsonb",
    s.MAP: "jsonb",
    s.ARRAY: "jsonb",
}
_SQL_BY_NAME = {
    s.DECIMAL_NAME: "numeric",
    s.DATE_NAME: "date",
    s.TIME_NAME: "time",
    s.TIMESTAMP_NAME: "timestamptz",
    "io.debezium.time.Date": "date",
    "io.debezium.time.MicroTime": "time",
    "io.debezium.time.MicroTimestamp": "timestamp",
    "io.debezium.time.ZonedTimestamp": "timestamptz",
    "io.debezium.data.Uuid": "uuid",
    "io.debezium.data.Json": "jsonb",
    "io.debezium.data.VariableScaleDecimal": "numeric",
}


def sql_type(schema: Schema | None, value: Any) -> str:
    """Return the type of a new column."""
    if schema is not None:
        return _SQL_BY_NAME.get(schema.name or "") or _SQL[schema.type]
    kinds = (
        (bool, "boolean"),
        (int, "bigint"),
        (float, "double precision"),
        (Decimal, "numeric"),
        (bytes, "bytea"),
        (datetime, "timestamptz"),
        (date, "date"),
        (time, "time"),
    )
    if isinstance(value, str) and value[:1] in "{[":
        return "jsonb"
    return next((name for kind, name in kinds if isinstance(value, kind)), "text")


def evolve(connection: Any, table: str, rows: list[Row], *, create: bool, alter: bool) -> None:
    """Create a table, or add the columns that it lacks, if that is allowed."""
    columns: dict[str, str] = {}
    for row in rows:
        if row.columns.keys() <= columns.keys():
            continue
        for name, value in row.columns.items():
            if name not in columns and (value is not None or row.schemas.get(name) is not None):
                columns[name] = sql_type(row.schemas.get(name), value)
    if not columns:
        return
    name = table_name(table)
    if connection.execute("SELECT to_regclass(%s)", (name,)).fetchone()[0] is None:
        if not create:
            raise ConnectError(f"there is no table {table}; create it, or set auto.create=true")
        key = next((each.key for each in rows if each.columns), {})
        parts = [f"{quoted(each)} {kind}" for each, kind in columns.items()]
        if key:
            parts.append(f"PRIMARY KEY ({', '.join(map(quoted, key))})")
        connection.execute("SELECT pg_advisory_xact_lock(7079462)")
        connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(parts)})")
        return
    if alter:
        there = {each.name for each in connection.execute(f"SELECT * FROM {name} LIMIT 0").description}
        for each, kind in columns.items():
            if each not in there:
                connection.execute(f"ALTER TABLE {name} ADD COLUMN IF NOT EXISTS {quoted(each)} {kind}")
