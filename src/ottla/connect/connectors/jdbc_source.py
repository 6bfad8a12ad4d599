"""A source for every database with a DB-API driver: rows by a growing column, by a timestamp, or by both.

The keys are those of Confluent's JDBC connector.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from ottla.connect.config.keys import HIGH, LIST, LONG, LOW, ConfigKey, at_least
from ottla.connect.connectors.dbapi import CONNECTION_KEYS, Database, check_connection
from ottla.connect.data import schema as s
from ottla.connect.data.record import Record
from ottla.connect.data.schema import Schema
from ottla.connect.errors import ConnectError
from ottla.connect.sdk import Offsets, SourceConnector, SourceReader, partition_of

INCREMENTING, TIMESTAMP, BOTH = "incrementing", "timestamp", "timestamp+incrementing"
ROWS_AT_ONCE = 10_000


class JdbcSource(SourceConnector):
    """Reads database tables by query."""

    keys = (
        *CONNECTION_KEYS,
        ConfigKey("table.whitelist", LIST, doc="Tables, comma-separated.", importance=HIGH),
        ConfigKey(
            "mode",
            default=INCREMENTING,
            doc="How new rows are detected.",
            importance=HIGH,
            values=(INCREMENTING, TIMESTAMP, BOTH),
        ),
        ConfigKey(
            "incrementing.column.name",
            default="id",
            doc="A column whose number increases with every new row.",
        ),
        ConfigKey("timestamp.column.name", default="", doc="A timestamp column that every change updates."),
        ConfigKey("topic.prefix", doc="Prefix of the topic; the table's name follows.", importance=HIGH),
        ConfigKey("batch.max.rows", LONG, 100_000, "Maximum rows of a table per batch.", LOW, at_least(1)),
    )
    position_keys = (
        "connection.url",
        "connection.driver",
        "connection.arguments",
        "mode",
        "incrementing.column.name",
        "timestamp.column.name",
        "task.tables",
    )
    interval_ms = 1_000

    @classmethod
    def check(cls, config: Mapping[str, str]) -> dict[str, str]:
        """Check the connection and the columns' names."""
        if config.get("mode") in (TIMESTAMP, BOTH) and not config.get("timestamp.column.name"):
            return {
                "timestamp.column.name": f"the mode {config['mode']} needs the name of the timestamp column"
            }
        return check_connection(cls("check", config).settings)

    def task_configs(self, most: int) -> list[dict[str, str]]:
        """Return tasks that share the tables."""
        tables = sorted(self.settings["table.whitelist"])
        count = min(most, len(tables))
        return [{**self.config, "task.tables": ",".join(tables[number::count])} for number in range(count)]

    def reader(self, task: Mapping[str, str]) -> SourceReader:
        """Return the reader."""
        tables = task.get("task.tables") or ",".join(self.settings["table.whitelist"])
        return RowReader(Database.of(self.settings), tables.split(","), dict(self.settings))

    def topics(self) -> list[str]:
        """Return the topics of the tables."""
        return [self.settings["topic.prefix"] + each for each in self.settings["table.whitelist"]]

    def check_offsets(self, offsets: Offsets) -> None:
        """Check that offsets are of tables."""
        for partition in offsets:
            if "table" not in json.loads(partition):
                raise ConnectError('a partition of this connector is {"table": NAME}')


class RowReader(SourceReader):
    """Reads tables; the offset of a table has the values of its last row that were read."""

    def __init__(self, database: Database, tables: Sequence[str], settings: dict[str, Any]) -> None:
        self.database, self.tables, self.settings = database, list(tables), settings
        mode = settings["mode"]
        moment = settings["timestamp.column.name"] if mode in (TIMESTAMP, BOTH) else ""
        number = settings["incrementing.column.name"] if mode in (INCREMENTING, BOTH) else ""
        self.order = [each for each in (moment, number) if each]

    def latest(self, start: Offsets) -> Offsets:
        """Return the last rows that the next batch has."""
        end = dict(start)
        with self.database.connected() as connection:
            for table in self.tables:
                partition = partition_of(table=table)
                condition, values = self._behind(start.get(partition), 1)
                cursor = connection.cursor()
                names = self.database.names(self.order)
                cursor.execute(
                    f"SELECT {names} FROM {self.database.name(table)} WHERE {condition} ORDER BY {names}",
                    values,
                )
                rows = cursor.fetchmany(self.settings["batch.max.rows"])
                if rows:
                    pairs = zip(self.order, rows[-1], strict=True)
                    end[partition] = {name: _stored(value) for name, value in pairs}
        return end

    def _behind(self, offset: Mapping[str, Any] | None, first: int) -> tuple[str, list[Any]]:
        """Return the condition for the rows behind an offset, and its values."""
        if offset is None:
            return " AND ".join(f"{self.database.name(each)} IS NOT NULL" for each in self.order), []
        return self._compared(">", offset, first)

    def _compared(self, sign: str, offset: Mapping[str, Any], first: int) -> tuple[str, list[Any]]:
        names = [self.database.name(each) for each in self.order]
        given = [offset[each] for each in self.order]
        if len(names) == 1:
            return f"{names[0]} {sign} {self.database.marks(1, first)[0]}", given
        one, two, three = self.database.marks(3, first)
        strict = sign[0]
        text = f"({names[0]} {strict} {one} OR ({names[0]} = {two} AND {names[1]} {sign} {three}))"
        return text, [given[0], given[0], given[1]]

    def plan(self, start: Offsets, end: Offsets) -> Sequence[Any]:
        """Return a part for each table."""
        return [
            (json.loads(partition)["table"], start.get(partition), offset)
            for partition, offset in sorted(end.items())
            if start.get(partition) != offset
        ]

    def read(self, part: Any) -> Iterator[Record]:
        """Yield the rows of a table between two offsets."""
        table, begin, end = part
        low, values = self._behind(begin, 1)
        high, more = self._compared("<=", end, 1 + len(values))
        names = self.database.names(self.order)
        with self.database.connected() as connection:
            cursor = connection.cursor()
            cursor.execute(
                f"SELECT * FROM {self.database.name(table)} WHERE {low} AND {high} ORDER BY {names}",
                [*values, *more],
            )
            columns = [each[0] for each in cursor.description]
            while rows := cursor.fetchmany(ROWS_AT_ONCE):
                for row in rows:
                    yield self._record(table, dict(zip(columns, row, strict=True)))

    def _record(self, table: str, value: dict[str, Any]) -> Record:
        fields = {name: _schema(each) for name, each in value.items()}
        return Record(self.settings["topic.prefix"] + table, value, s.struct(fields, table))


def _stored(value: Any) -> Any:
    """Return a value of a column as an offset has it."""
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return value.isoformat() if isinstance(value, date) else value


def _schema(value: Any) -> Schema:
    """Return the schema of a value: drivers do not agree on how they name types."""
    found = s.infer(value)
    if found is None:
        return Schema(s.STRING, optional=True)
    return Schema(
        found.type, optional=True, name=found.name, version=found.version, parameters=found.parameters
    )
