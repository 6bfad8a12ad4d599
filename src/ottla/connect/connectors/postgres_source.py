"""A source of PostgreSQL's tables by query: new rows by a growing column, changed rows by a timestamp.

The first batches, which read what is there already, are read in parallel ranges. Deleted rows, and rows that
a long transaction commits with smaller numbers than others, are not seen: postgres_cdc.py sees everything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ottla.common.clock import SystemClock
from ottla.connect.config.keys import HIGH, INT, LIST, LONG, LOW, ConfigKey, at_least
from ottla.connect.connectors.postgresql.database import (
    CONNECTION_KEYS,
    check_connection,
    connect,
    dsn_of,
    full_name,
    primary_key,
    quoted,
    schema_of_rows,
    table_name,
    tables_like,
    value_of,
)
from ottla.connect.data import schema as s
from ottla.connect.data.json_form import EPOCH
from ottla.connect.data.record import Record
from ottla.connect.errors import ConnectError
from ottla.connect.sdk import Offsets, SourceConnector, SourceReader, partition_of
from ottla.spark.pipelines.postgres.read import split_range

BULK, INCREMENTING, TIMESTAMP, BOTH = "bulk", "incrementing", "timestamp", "timestamp+incrementing"
ROWS_AT_ONCE = 10_000


class PostgresSource(SourceConnector):
    """Reads PostgreSQL tables by query: completely, by an increasing column, by a timestamp, or both."""

    keys = (
        *CONNECTION_KEYS,
        ConfigKey("table.whitelist", LIST, [], "Tables, comma-separated; empty: all.", HIGH),
        ConfigKey(
            "mode",
            default=INCREMENTING,
            doc="How new rows are detected.",
            importance=HIGH,
            values=(BULK, INCREMENTING, TIMESTAMP, BOTH),
        ),
        ConfigKey(
            "incrementing.column.name",
            default="",
            doc="A column whose number increases with every new row; default: the primary key.",
        ),
        ConfigKey("timestamp.column.name", default="", doc="A timestamp column that every change updates."),
        ConfigKey(
            "timestamp.delay.interval.ms",
            LONG,
            0,
            "Read only rows that are older than this.",
            check=at_least(0),
        ),
        ConfigKey("topic.prefix", doc="Prefix of the topic; the table's name follows.", importance=HIGH),
        ConfigKey(
            "poll.interval.ms", LONG, 5000, "Interval between two reads of a whole table.", check=at_least(1)
        ),
        ConfigKey("batch.max.rows", LONG, 100_000, "Maximum rows of a table per batch.", LOW, at_least(1)),
        ConfigKey("snapshot.ranges", INT, 4, "Ranges of a large batch read in parallel.", LOW, at_least(1)),
    )
    position_keys = (
        "connection.url",
        "mode",
        "incrementing.column.name",
        "timestamp.column.name",
        "task.tables",
    )

    @classmethod
    def check(cls, config: Mapping[str, str]) -> dict[str, str]:
        """Check the connection and the columns' names."""
        if config.get("mode") in (TIMESTAMP, BOTH) and not config.get("timestamp.column.name"):
            return {
                "timestamp.column.name": f"the mode {config['mode']} needs the name of the timestamp column"
            }
        return check_connection(config)

    @classmethod
    def recommended(cls, key: str, config: Mapping[str, str]) -> list[str]:
        """Return the tables there are."""
        if key != "table.whitelist" or not config.get("connection.url") or check_connection(config):
            return []
        with connect(dsn_of(config)) as connection:
            return tables_like(connection, [])

    def task_configs(self, most: int) -> list[dict[str, str]]:
        """Return tasks that share the tables."""
        with connect(dsn_of(self.settings)) as connection:
            tables = tables_like(connection, self.settings["table.whitelist"])
        if not tables:
            raise ConnectError("table.whitelist: there is no such table")
        count = min(most, len(tables))
        return [{**self.config, "task.tables": ",".join(tables[number::count])} for number in range(count)]

    def reader(self, task: Mapping[str, str]) -> SourceReader:
        """Return the reader."""
        return TableReader(dsn_of(self.settings), task["task.tables"].split(","), dict(self.settings))

    def topics(self) -> list[str]:
        """Return the topics of the tables."""
        return [
            topic_of(self.settings["topic.prefix"], full_name(each))
            for each in self.settings["table.whitelist"]
        ]

    def check_offsets(self, offsets: Offsets) -> None:
        """Check that offsets are of tables."""
        for partition in offsets:
            if '"table"' not in partition:
                raise ConnectError('a partition of this connector is {"table": "SCHEMA.TABLE"}')


def topic_of(prefix: str, table: str) -> str:
    """Return the topic of a table: the schema `public` is left out."""
    return prefix + table.removeprefix("public.")


class TableReader(SourceReader):
    """Reads tables; the offset of a table is the last row's number and time, or the number of reads."""

    def __init__(self, dsn: str, tables: Sequence[str], settings: dict[str, Any]) -> None:
        self.dsn, self.tables, self.settings = dsn, list(tables), settings
        self.mode: str = settings["mode"]
        self._columns: dict[str, str] = {}

    def _number(self, connection: Any, table: str) -> str:
        """Return the column that grows."""
        name: str = self.settings["incrementing.column.name"]
        if not name and table not in self._columns:
            key = primary_key(connection, table)
            if len(key) != 1:
                raise ConnectError(f"incrementing.column.name: {table} has no primary key of one column")
            self._columns[table] = key[0]
        return name or self._columns[table]

    def latest(self, start: Offsets) -> Offsets:
        """Return the last rows that the next batch has."""
        end = dict(start)
        with connect(self.dsn) as connection:
            for table in self.tables:
                partition = partition_of(table=table)
                found = self._latest(connection, table, start.get(partition, {}))
                if found is not None:
                    end[partition] = found
        return end

    def _latest(self, connection: Any, table: str, start: dict[str, Any]) -> dict[str, Any] | None:
        if self.mode == BULK:
            now_ms = SystemClock().wall_ms()
            due = start.get("read_at", 0) + self.settings["poll.interval.ms"]
            return {"read_at": now_ms} if now_ms >= due else None
        columns = self._order(connection, table)
        names = ", ".join(quoted(each) for each in columns)
        condition, values = self._after(columns, start)
        if self.mode in (TIMESTAMP, BOTH):
            condition += f" AND {quoted(columns[0])} <= now() - %s * interval '1 millisecond'"
            values.append(self.settings["timestamp.delay.interval.ms"])
        row = connection.execute(
            f"SELECT {names} FROM (SELECT {names} FROM {table_name(table)} WHERE {condition} "
            f"ORDER BY {names} LIMIT %s) AS next ORDER BY {_descending(columns)} LIMIT 1",
            (*values, self.settings["batch.max.rows"]),
        ).fetchone()
        return None if row is None else self._offset(row)

    def _order(self, connection: Any, table: str) -> list[str]:
        number = self._number(connection, table) if self.mode in (INCREMENTING, BOTH) else ""
        moment = self.settings["timestamp.column.name"] if self.mode in (TIMESTAMP, BOTH) else ""
        return [each for each in (moment, number) if each]

    def _offset(self, row: Sequence[Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.mode in (TIMESTAMP, BOTH):
            found["timestamp_us"] = _microseconds(row[0])
        if self.mode in (INCREMENTING, BOTH):
            found["incrementing"] = int(row[-1])
        return found

    def _after(self, columns: Sequence[str], offset: dict[str, Any]) -> tuple[str, list[Any]]:
        """Return the condition for the rows behind an offset."""
        if not offset:
            return " AND ".join(f"{quoted(each)} IS NOT NULL" for each in columns), []
        return f"({', '.join(map(quoted, columns))}) > ({self._marks()})", self._values(offset)

    def _marks(self) -> str:
        moment = "timestamptz 'epoch' + %s * interval '1 microsecond'"
        return ", ".join({INCREMENTING: ["%s"], TIMESTAMP: [moment], BOTH: [moment, "%s"]}[self.mode])

    @staticmethod
    def _values(offset: dict[str, Any]) -> list[Any]:
        return [offset[key] for key in ("timestamp_us", "incrementing") if key in offset]

    def plan(self, start: Offsets, end: Offsets) -> Sequence[Any]:
        """Return a part for each table; several ranges of one that has much to read."""
        parts = []
        for partition, offset in sorted(end.items()):
            before = start.get(partition)
            if before == offset:
                continue
            table = json.loads(partition)["table"]
            ranges = self._ranges(table, before or {}, offset)
            parts += [(table, begin, finish) for begin, finish in ranges]
        return parts

    def _ranges(self, table: str, begin: dict[str, Any], end: dict[str, Any]) -> list[tuple[Any, Any]]:
        count = self.settings["snapshot.ranges"]
        if self.mode == BULK:
            with connect(self.dsn) as connection:
                blocks = connection.execute(
                    "SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::int",
                    (table_name(table),),
                ).fetchone()[0]
            edges = [max(0, blocks) * each // count for each in range(count)]
            ends: list[int | None] = [*edges[1:], None]
            return [(low, high) for low, high in zip(edges, ends, strict=True) if high is None or high > low]
        if (
            self.mode != INCREMENTING
            or not begin
            or end["incrementing"] - begin["incrementing"] < ROWS_AT_ONCE
        ):
            return [(begin, end)]
        return [
            ({"incrementing": low - 1}, {"incrementing": high})
            for low, high in split_range(begin["incrementing"] + 1, end["incrementing"], count)
        ]

    def read(self, part: Any) -> Iterator[Record]:
        """Yield the rows of a part of a table."""
        table, begin, end = part
        topic = topic_of(self.settings["topic.prefix"], table)
        with connect(self.dsn) as connection:
            query, values = self._query(connection, table, begin, end)
            key = primary_key(connection, table)
            with connection.cursor(name="ottla") as cursor:
                cursor.itersize = ROWS_AT_ONCE
                cursor.execute(query, values)
                schema = schema_of_rows(cursor.description or [], table)
                kinds = list(schema.field_map().items())
                key_schema = s.struct({name: schema.field_map()[name] for name in key}) if key else None
                for row in cursor:
                    value = {
                        name: value_of(kind, each) for (name, kind), each in zip(kinds, row, strict=True)
                    }
                    record_key = {name: value[name] for name in key} if key else None
                    yield Record(topic, value, schema, record_key, key_schema)

    def _query(self, connection: Any, table: str, begin: Any, end: Any) -> tuple[str, list[Any]]:
        if self.mode == BULK:
            upper = "" if end is None else f" AND ctid < '({end},0)'::tid"
            return f"SELECT * FROM {table_name(table)} WHERE ctid >= '({begin},0)'::tid{upper}", []
        columns = self._order(connection, table)
        condition, values = self._after(columns, begin)
        names = ", ".join(map(quoted, columns))
        condition += f" AND ({names}) <= ({self._marks()})"
        query = f"SELECT * FROM {table_name(table)} WHERE {condition} ORDER BY {names}"
        return query, [*values, *self._values(end)]


def _descending(columns: Sequence[str]) -> str:
    return ", ".join(f"{quoted(each)} DESC" for each in columns)


def _microseconds(value: datetime) -> int:
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (aware - EPOCH) // EPOCH.resolution
