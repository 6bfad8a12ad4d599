"""A sink for PostgreSQL: inserts or upserts rows, creates and evolves tables; each record once.

What is written of each partition is in a table beside the rows, and changes in the same transaction: the
number of the batch, the next offset, and the records that were refused. A batch that comes again finds its
number there: it writes nothing, and refuses the same records. Offsets would not do: those of a topic that was
deleted and created again begin at 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from types import NoneType
from typing import Any

from ottla.connect.connectors.postgresql.columns import OF_COLUMN, Outcome, csv_of, outcome_of
from ottla.connect.connectors.postgresql.columns import by_place as by_columns
from ottla.connect.connectors.postgresql.database import (
    CONNECTION_KEYS,
    check_connection,
    connect,
    dsn_of,
    kept_connection,
    primary_key,
    quoted,
    table_name,
)
from ottla.connect.connectors.postgresql.rows import TABLE_KEYS, Row, RowMaker, check_modes, evolve
from ottla.connect.data.json_codec import FastPathMiss
from ottla.connect.data.record import Record
from ottla.connect.errors import ConnectError, RetriableError
from ottla.connect.sdk import Batch, Refused, SinkConnector, SinkWriter

GUARD = "ottla_connect_offsets"
ROWS_AT_ONCE = 1_000
COPY_FROM = 100
"""Rows from which on a temporary table is worth what it costs PostgreSQL's catalogue."""
UPSERTS = ("upsert", "record_key", True)
"""The modes whose rows can be written in columns."""
COPIED = "pg_temp.ottla_copied"
_TYPES = {
    bool: "boolean",
    int: "bigint",
    float: "double precision",
    Decimal: "numeric",
    bytes: "bytea",
    date: "date",
}
RETRIABLE = ("40001", "40P01", "57P01", "57P02", "57P03", "08000", "08003", "08006", "53300")
"""Serialization failures, deadlocks, shutdowns, lost connections, too many connections."""


class PostgresSink(SinkConnector):
    """Writes records to PostgreSQL tables."""

    keys = (
        *CONNECTION_KEYS,
        *TABLE_KEYS,
    )
    guarantee = "exactly once"

    @classmethod
    def check(cls, config: Mapping[str, str]) -> dict[str, str]:
        """Check the connection, and the modes together."""
        return check_modes(config) or check_connection(config)

    def writer(self, task: Mapping[str, str]) -> SinkWriter:
        """Return the writer."""
        return PostgresWriter(dsn_of(self.settings), dict(self.settings))


class PostgresWriter(SinkWriter):
    """Writes the records of a partition of a topic in one transaction."""

    by_partition = True

    def __init__(self, dsn: str, settings: dict[str, Any]) -> None:
        self.dsn, self.settings = dsn, settings
        self._is_prepared = False

    def prepare(self, batch: Batch) -> bool:
        """Create the table of the offsets, before the first batch."""
        if not self._is_prepared:
            self._create_guard()
            self._is_prepared = True
        return True

    def _create_guard(self) -> None:
        with connect(self.dsn) as connection:
            exists = connection.execute("SELECT to_regclass(%s)", (GUARD,)).fetchone()[0]
            if exists is None:
                connection.execute("SELECT pg_advisory_xact_lock(7079461)")
                connection.execute(
                    f"CREATE TABLE IF NOT EXISTS {GUARD} (query text, topic text, part int, "
                    "batch bigint NOT NULL, next bigint NOT NULL, refused text NOT NULL, "
                    "PRIMARY KEY (query, topic, part))"
                )

    def write(self, records: Iterator[Record], batch: Batch, refused: list[Refused]) -> Any:
        """Write records; they come sorted by topic, partition and offset."""
        import psycopg

        count = 0
        try:
            with kept_connection(self.dsn) as connection:
                for place, group in by_place(records):
                    count += self._write_place(connection, batch, place, group, refused)
                    connection.commit()
        except psycopg.Error as error:
            if error.sqlstate is None or error.sqlstate in RETRIABLE:
                raise RetriableError(f"PostgreSQL: {str(error).splitlines()[0]}") from None
            raise
        return count

    def write_json(self, rows: Sequence[Any], batch: Batch, key: Any, value: Any) -> Any:
        """Write the newest row of each key in columns; None if anything needs a closer look."""
        import psycopg
        from pyarrow import ArrowException

        settings = self.settings
        if (settings["insert.mode"], settings["pk.mode"], settings["delete.enabled"]) != UPSERTS:
            return None
        try:
            outcomes = [
                ((topic, partition), outcome_of(topic, group, key, value, settings["pk.fields"]), group)
                for topic, partition, group in by_columns(rows)
            ]
            with kept_connection(self.dsn) as connection:
                for place, outcome, group in outcomes:
                    self._write_outcome(connection, batch, place, outcome)
                    self._note(connection, batch, place, group.column("offset")[-1].as_py() + 1)
                    connection.commit()
        except (FastPathMiss, ConnectError, ArrowException, psycopg.Error):
            return None  # what is committed already is not written again: the guard says so
        return sum(each.num_rows for each in rows)

    def _write_outcome(self, connection: Any, batch: Batch, place: tuple[str, int], outcome: Outcome) -> None:
        written, _ = self._guard(connection, batch, place)
        if written >= batch.number:
            raise FastPathMiss
        table = self.settings["table.name.format"].replace("${topic}", place[0])
        names = list(outcome.schemas)
        key = dict.fromkeys(outcome.key)
        if names:
            row = Row(Record(place[0]), key, dict.fromkeys(names), outcome.schemas)
            create, alter = self.settings["auto.create"], self.settings["auto.evolve"]
            evolve(connection, table, [row], create=create, alter=alter)
        with connection.cursor() as cursor:
            for rows, columns, types, is_delete in (
                (outcome.deletes, outcome.key, [OF_COLUMN] * len(key), True),
                (outcome.upserts, names, outcome.types, False),
            ):
                if rows.num_rows:
                    self._create_copied(cursor, table, columns, types)
                    with cursor.copy(f"COPY {COPIED} FROM STDIN (FORMAT csv)") as copy:
                        copy.write(csv_of(rows))
                    self._write_copied(cursor, table, outcome.key, columns, is_delete=is_delete)

    def _guard(self, connection: Any, batch: Batch, place: tuple[str, int]) -> tuple[int, str]:
        """Lock what is known of a partition: the last batch, and what was refused of it."""
        key = (batch.query, *place)
        connection.execute(
            f"INSERT INTO {GUARD} VALUES (%s, %s, %s, -1, -1, '[]') ON CONFLICT DO NOTHING", key
        )
        found = connection.execute(
            f"SELECT batch, refused FROM {GUARD} WHERE query = %s AND topic = %s AND part = %s FOR UPDATE",
            key,
        ).fetchone()
        return int(found[0]), str(found[1])

    def _note(
        self, connection: Any, batch: Batch, place: tuple[str, int], next_offset: int, refused: str = "[]"
    ) -> None:
        """Store that a batch is written."""
        connection.execute(
            f"UPDATE {GUARD} SET batch = %s, next = %s, refused = %s "
            "WHERE query = %s AND topic = %s AND part = %s",
            (batch.number, next_offset, refused, batch.query, *place),
        )

    def _write_place(
        self,
        connection: Any,
        batch: Batch,
        place: tuple[str, int],
        group: list[Record],
        refused: list[Refused],
    ) -> int:
        written, earlier = self._guard(connection, batch, place)
        if written >= batch.number:
            reasons = dict(json.loads(earlier)) if written == batch.number else {}
            refused += [Refused(each, reasons[each.offset]) for each in group if each.offset in reasons]
            return 0
        before = len(refused)
        for table, rows in self._tables(group, refused).items():
            self._write_rows(connection, table, rows, refused)
        noted = json.dumps([(each.record.offset, each.reason) for each in refused[before:]])
        self._note(connection, batch, place, group[-1].offset + 1, noted)
        return len(group)

    def _tables(self, records: list[Record], refused: list[Refused]) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        maker = RowMaker(self.settings)
        for record in records:
            row = maker.row(record)
            if isinstance(row, str):
                refused.append(Refused(record, row))
            elif row is not None:
                table = self.settings["table.name.format"].replace("${topic}", record.topic)
                found.setdefault(table, []).append(row)
        return found

    def _write_rows(self, connection: Any, table: str, rows: list[Row], refused: list[Refused]) -> None:
        evolve(
            connection, table, rows, create=self.settings["auto.create"], alter=self.settings["auto.evolve"]
        )
        key = list(rows[0].key)
        if self.settings["insert.mode"] == "upsert" and not key:
            key = primary_key(connection, table)
        if self.settings["insert.mode"] != "upsert" or not self._write_newest(connection, table, key, rows):
            for run in _runs(rows):
                self._write_run(connection, table, key, run, refused)

    def _write_newest(self, connection: Any, table: str, key: list[str], rows: list[Row]) -> bool:
        """Write the outcome of the rows of each key, in few statements; False if PostgreSQL refuses any.

        Rows of different keys can be written in any order, unless the table has other constraints: then, as
        after every refusal, nothing is written here, and the rows are to be written one after the other.
        """
        import psycopg

        found = newest_rows(rows)
        if found is None:
            return False
        deletes, upserts = found
        try:
            with connection.transaction(), connection.cursor() as cursor:
                if deletes:
                    values = [[each[name] for name in key] for each in deletes]
                    self._write_many(cursor, table, key, key, values, is_delete=True)
                for names, group in upserts.items():
                    self._write_many(cursor, table, key, list(names), group)
        except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError):
            return False
        return True

    def _write_many(
        self,
        cursor: Any,
        table: str,
        key: list[str],
        names: list[str],
        rows: list[list[Any]],
        *,
        is_delete: bool = False,
    ) -> None:
        """Write rows of different keys: many by COPY to a temporary table, and one statement from there."""
        types = copied_types(rows) if len(rows) >= COPY_FROM else None
        if types is None:
            statement = _delete(table, names) if is_delete else self._insert(table, key, names)
            cursor.executemany(statement, rows)
            return
        self._create_copied(cursor, table, names, types)
        with cursor.copy(f"COPY {COPIED} FROM STDIN") as copy:
            for each in rows:
                copy.write_row(each)
        self._write_copied(cursor, table, key, names, is_delete=is_delete)

    def _create_copied(self, cursor: Any, table: str, names: list[str], types: list[str]) -> None:
        """Create the temporary table for rows."""
        copied = ", ".join(
            quoted(name) if kind == OF_COLUMN else f"NULL::{kind} AS {quoted(name)}"
            for name, kind in zip(names, types, strict=True)
        )
        cursor.execute(f"CREATE TEMP TABLE {COPIED} AS SELECT {copied} FROM {table_name(table)} WITH NO DATA")

    def _write_copied(
        self, cursor: Any, table: str, key: list[str], names: list[str], *, is_delete: bool
    ) -> None:
        """Write the rows of the temporary table, and drop it."""
        if is_delete:
            same = " AND ".join(f"t.{quoted(each)} = c.{quoted(each)}" for each in names)
            cursor.execute(f"DELETE FROM {table_name(table)} AS t USING {COPIED} AS c WHERE {same}")
        else:
            columns = ", ".join(map(quoted, names))
            cursor.execute(self._insert(table, key, names, f"SELECT {columns} FROM {COPIED}"))
        cursor.execute(f"DROP TABLE {COPIED}")

    def _write_run(
        self, connection: Any, table: str, key: list[str], run: list[Row], refused: list[Refused]
    ) -> None:
        """Write rows of one kind; if PostgreSQL refuses one, write them one by one."""
        import psycopg

        names = list(run[0].key if run[0].is_delete else run[0].columns)
        statement = _delete(table, names) if run[0].is_delete else self._insert(table, key, names)
        values = [
            [(each.key if each.is_delete else each.columns)[name] for name in names]  # not in the row's order
            for each in run
        ]
        try:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(statement, values)
        except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError) as error:
            if len(run) == 1:
                refused.append(Refused(run[0].record, f"PostgreSQL: {str(error).splitlines()[0]}"))
                return
            for each in run:
                self._write_run(connection, table, key, [each], refused)

    def _insert(self, table: str, key: list[str], columns: list[str], query: str = "") -> str:
        names = ", ".join(map(quoted, columns))
        rows = query or f"VALUES ({', '.join(['%s'] * len(columns))})"
        statement = f"INSERT INTO {table_name(table)} ({names}) {rows}"
        if self.settings["insert.mode"] != "upsert":
            return statement
        others = [each for each in columns if each not in key]
        changes = ", ".join(f"{quoted(each)} = excluded.{quoted(each)}" for each in others)
        action = f"DO UPDATE SET {changes}" if others else "DO NOTHING"
        return f"{statement} ON CONFLICT ({', '.join(map(quoted, key))}) {action}"


def _delete(table: str, key: list[str]) -> str:
    same = " AND ".join(f"{quoted(each)} = %s" for each in key)
    return f"DELETE FROM {table_name(table)} WHERE {same}"


def by_place(records: Iterator[Record]) -> Iterator[tuple[tuple[str, int], list[Record]]]:
    """Yield the records of each partition; a transform may have renamed the topic, so by what was read."""
    groups: dict[tuple[str, int], list[Record]] = {}
    for each in records:
        groups.setdefault((each.origin or each.topic, each.partition or 0), []).append(each)
    for place, group in groups.items():
        group.sort(key=lambda record: record.offset)
        yield place, group


def copied_types(rows: list[list[Any]]) -> list[str] | None:
    """Return the types of a temporary table for rows; None if a column has values of several types.

    Only texts have the type of the column that they are for, as parameters of statements do. The others keep
    theirs, and PostgreSQL converts or refuses them: in the text of COPY, 1 would be true, and true be t.
    """
    found = []
    for column in zip(*rows, strict=True):
        kinds = set(map(type, column)) - {NoneType}
        if kinds == {datetime}:
            zones = {each.tzinfo is None for each in column if each is not None}
            kind = None if len(zones) > 1 else "timestamp" if zones.pop() else "timestamptz"
        elif kinds <= {str}:
            kind = OF_COLUMN
        else:
            kind = _TYPES.get(kinds.pop()) if len(kinds) == 1 else None
        if kind is None:
            return None
        found.append(kind)
    return found


def newest_rows(
    rows: list[Row],
) -> tuple[list[dict[str, Any]], dict[tuple[str, ...], list[list[Any]]]] | None:
    """Return the keys to delete, then the rows to upsert, by their columns; None if a row has no usable key.

    Later rows of a key change the columns that they have. What a deletion is followed by begins anew: the key
    is deleted, and the later row is upserted.
    """
    deletes: dict[tuple[Any, ...], dict[str, Any]] = {}
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    names = list(rows[0].key)
    try:
        for row in rows:
            if not row.key or row.key.keys() != rows[0].key.keys():
                return None
            place = tuple([row.key[name] for name in names])
            if row.is_delete:
                deletes[place] = row.key
                newest.pop(place, None)
            else:
                before = newest.get(place)
                if before is None or before.keys() == row.columns.keys():
                    newest[place] = row.columns
                else:
                    newest[place] = {**before, **row.columns}
    except TypeError:  # a key that cannot be compared, such as an array
        return None
    if len({tuple(map(type, place)) for place in (*deletes, *newest)}) > 1:
        return None  # 1 and "1" may be the key of one row
    upserts: dict[tuple[str, ...], list[list[Any]]] = {}
    for columns in newest.values():
        upserts.setdefault(tuple(columns), []).append(list(columns.values()))
    return list(deletes.values()), upserts


def _runs(rows: list[Row]) -> Iterator[list[Row]]:
    """Yield rows that one statement can write, in their order."""
    run: list[Row] = []
    for row in rows:
        if run and (
            row.is_delete != run[0].is_delete
            or row.columns.keys() != run[0].columns.keys()
            or row.key.keys() != run[0].key.keys()
            or len(run) >= ROWS_AT_ONCE
        ):
            yield run
            run = []
        run.append(row)
    if run:
        yield run
