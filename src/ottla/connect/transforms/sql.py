"""A transform in SQL: `SELECT customer, price * quantity AS total FROM record WHERE price > 0`.

SQLite evaluates the query for each record, whose fields are the columns of the table `record`, beside
`_topic`, `_partition`, `_timestamp`, `_offset` and `_key`. The row is the new value; without a row the record
is dropped.

A field that SQLite has no type for (a struct, an array, a decimal, a time) is text in the query, JSON where
it is nested. If the query returns it unchanged under its name, it stays what it was, with its schema.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from ottla.connect.config.keys import HIGH, ConfigKey
from ottla.connect.data import schema as s
from ottla.connect.data.record import Record
from ottla.connect.data.schema import STRUCT, Schema
from ottla.connect.errors import DataError, WrongConfig
from ottla.connect.transforms.base import Transform

MAX_STEPS = 10_000_000
"""Of SQLite's machine for one record: a recursive query ends there."""
MAX_SHAPES = 1_000
_ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
_TYPES = {int: s.INT64, float: s.FLOAT64, str: s.STRING, bytes: s.BYTES}
_META = ("_topic", "_partition", "_timestamp", "_offset", "_key")


class Sql(Transform):
    """Computes the value with an SQL query, or drops the record."""

    name: ClassVar[str] = "ottla.transforms.Sql"
    keys = (
        ConfigKey(
            "query",
            doc="SELECT ... FROM record WHERE ...: the columns are the fields of the new value; a record for "
            "which there is no row is dropped.",
            importance=HIGH,
        ),
    )

    def set_up(self) -> None:
        """Check the query."""
        self._query: str = self.settings["query"].strip().rstrip(";")
        self._texts: dict[tuple[str, ...], str] = {}
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.set_authorizer(lambda action, *_: 0 if action in _ALLOWED else 1)
        self._database.set_progress_handler(lambda: 1, MAX_STEPS)
        if not self._query.lower().startswith("select"):
            raise WrongConfig("query", self._query, "the query must begin with SELECT")
        try:
            self._database.execute(self._text_for(("any",)), (None,) * (1 + len(_META)))
        except sqlite3.Error as error:
            if "no such column" not in str(error):
                raise WrongConfig("query", self._query, str(error)) from None

    def apply(self, record: Record) -> Record | None:
        """Evaluate the query."""
        if record.value is None:
            return record  # a tombstone
        fields = record.value
        if not isinstance(fields, dict):
            raise DataError(f"SQL needs a value with fields, found: {type(fields).__name__}")
        columns = {name: _to_sql(value) for name, value in fields.items()}
        meta = (record.topic, record.partition, record.timestamp_ms, record.offset, _to_sql(record.key))
        try:
            cursor = self._database.execute(self._text_for(tuple(columns)), (*columns.values(), *meta))
            row = cursor.fetchone()
        except (sqlite3.Error, OverflowError) as error:
            raise DataError(f"SQL: {error}") from None
        if row is None:
            return None
        made = {each[0]: value for each, value in zip(cursor.description, row, strict=True)}
        kept = {name for name, value in made.items() if name in columns and _is_same(columns[name], value)}
        if record.value_schema is not None:
            record.value_schema = _schema(record.value_schema, made, kept)
        record.value = {name: fields[name] if name in kept else value for name, value in made.items()}
        return record

    def _text_for(self, names: tuple[str, ...]) -> str:
        """Return the statement for records with these fields."""
        found = self._texts.get(names)
        if found is None:
            if len(self._texts) >= MAX_SHAPES:
                self._texts.clear()
            quoted = ", ".join('? AS "{}"'.format(each.replace('"', '""')) for each in (*names, *_META))
            found = self._texts[names] = f"WITH record AS (SELECT {quoted}) {self._query}"
        return found


def _to_sql(value: Any) -> Any:
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    if isinstance(value, dict | list):
        return json.dumps(value, default=str, separators=(",", ":"))
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _is_same(passed: Any, returned: Any) -> bool:
    """Return whether SQLite returned the value unchanged; it returns a boolean as a number."""
    return bool(passed == returned) and (passed is None) == (returned is None)


def _schema(before: Schema, made: Mapping[str, Any], kept: set[str]) -> Schema:
    """Return the schema of a row: fields that were kept have theirs, others that of their value."""
    fields = before.field_map() if before.type == STRUCT else {}
    found = {}
    for name, value in made.items():
        if name in fields and name in kept:
            found[name] = fields[name]
        elif name in fields and value is None:
            found[name] = replace(fields[name], optional=True)
        else:
            found[name] = Schema(_TYPES.get(type(value), s.STRING), optional=True)
    return s.struct(found, before.name)
