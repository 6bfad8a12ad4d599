"""A sink for every database with a DB-API driver: inserts or upserts rows, each record once.

As in the sink of PostgreSQL, a table beside the rows has the number of the last batch of each partition, and
changes in the same transaction. An upsert is an UPDATE, and an INSERT if no row has the key: all databases
have both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.connect.connectors.dbapi import CONNECTION_KEYS, SAVEPOINT, Database, check_connection
from ottla.connect.connectors.postgres_sink import GUARD, by_place
from ottla.connect.connectors.postgresql.rows import TABLE_KEYS, Row, RowMaker, check_modes
from ottla.connect.data.record import Record
from ottla.connect.errors import ConnectError
from ottla.connect.sdk import Batch, Refused, SinkConnector, SinkWriter


class JdbcSink(SinkConnector):
    """Writes records to database tables."""

    keys = (
        *CONNECTION_KEYS,
        *TABLE_KEYS,
    )
    guarantee = "exactly once"

    @classmethod
    def check(cls, config: Mapping[str, str]) -> dict[str, str]:
        """Check the connection, and the modes together."""
        return check_modes(config) or check_connection(cls("check", config).settings)

    def writer(self, task: Mapping[str, str]) -> SinkWriter:
        """Return the writer."""
        return JdbcWriter(Database.of(self.settings), dict(self.settings))


class JdbcWriter(SinkWriter):
    """Writes the records of a partition of a topic in one transaction."""

    by_partition = True

    def __init__(self, database: Database, settings: dict[str, Any]) -> None:
        self.database, self.settings = database, settings
        self._known: set[tuple[str, tuple[str, ...]]] = set()

    def prepare(self, batch: Batch) -> bool:
        """Create the table of the batches."""
        with self.database.connected() as connection:
            if self.database.columns(connection, GUARD) is None:
                connection.cursor().execute(
                    f"CREATE TABLE {self.database.name(GUARD)} (query VARCHAR(250), topic VARCHAR(250), "
                    "part INTEGER, batch BIGINT NOT NULL, refused TEXT NOT NULL, "
                    "PRIMARY KEY (query, topic, part))"
                )
                connection.commit()
        return True

    def write(self, records: Iterator[Record], batch: Batch, refused: list[Refused]) -> Any:
        """Write records; they come sorted by topic, partition and offset."""
        count = 0
        with self.database.connected() as connection:
            for place, group in by_place(records):
                count += self._write_place(connection, batch, place, group, refused)
                connection.commit()
        return count

    def _write_place(
        self,
        connection: Any,
        batch: Batch,
        place: tuple[str, int],
        group: list[Record],
        refused: list[Refused],
    ) -> int:
        """Write the records of a partition, unless the guard has the batch."""
        key, before = (batch.query, *place), len(refused)
        written, earlier = self._guard(connection, key)
        if written >= batch.number:
            reasons = dict(json.loads(earlier)) if written == batch.number else {}
            refused += [Refused(each, reasons[each.offset]) for each in group if each.offset in reasons]
            return 0
        maker = RowMaker(self.settings)
        for record in group:
            row = maker.row(record)
            if isinstance(row, str):
                refused.append(Refused(record, row))
            elif row is not None:
                table = self.settings["table.name.format"].replace("${topic}", record.topic)
                self._write_row(connection, table, row, refused)
        noted = json.dumps([(each.record.offset, each.reason) for each in refused[before:]])
        number, reasons_mark, *marks = self.database.marks(5)
        connection.cursor().execute(
            f"UPDATE {self.database.name(GUARD)} SET batch = {number}, refused = {reasons_mark} "
            f"WHERE {_same(('query', 'topic', 'part'), marks)}",
            (batch.number, noted, *key),
        )
        return len(group)

    def _guard(self, connection: Any, key: tuple[Any, ...]) -> tuple[int, str]:
        """Lock the row of a partition, and return the last batch with what was refused of it."""
        table, cursor = self.database.name(GUARD), connection.cursor()
        same = _same(("query", "topic", "part"), self.database.marks(3))
        cursor.execute(f"UPDATE {table} SET batch = batch WHERE {same}", key)
        if cursor.rowcount == 0:
            marks = ", ".join(self.database.marks(3))
            cursor.execute(f"INSERT INTO {table} VALUES ({marks}, -1, '[]')", key)
        cursor.execute(f"SELECT batch, refused FROM {table} WHERE {same}", key)
        found = cursor.fetchone()
        return int(found[0]), str(found[1])

    def _write_row(self, connection: Any, table: str, row: Row, refused: list[Refused]) -> None:
        """Write or delete a row; what the database refuses leaves the transaction as it was."""
        module, cursor = self.database.module, connection.cursor()
        self._evolve(connection, table, row)
        cursor.execute(f"SAVEPOINT {SAVEPOINT}")
        try:
            self._change(cursor, table, row)
        except (module.DataError, module.IntegrityError, module.ProgrammingError, OverflowError) as error:
            cursor.execute(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
            refused.append(Refused(row.record, f"{self.database.driver}: {str(error).splitlines()[0]}"))
        cursor.execute(f"RELEASE SAVEPOINT {SAVEPOINT}")

    def _change(self, cursor: Any, table: str, row: Row) -> None:
        database, name = self.database, self.database.name(table)
        keys = [database.value(each) for each in row.key.values()]
        names = [database.name(each) for each in row.key]
        if row.is_delete:
            cursor.execute(f"DELETE FROM {name} WHERE {_same(names, database.marks(len(keys)))}", keys)
            return
        if self.settings["insert.mode"] == "upsert":
            others = [each for each in row.columns if each not in row.key]
            changes = [database.name(each) for each in others] or names
            values = [database.value(row.columns[each]) for each in others] or keys
            marks = database.marks(len(values) + len(keys))
            cursor.execute(
                f"UPDATE {name} SET {_same(changes, marks, ', ')} WHERE {_same(names, marks[len(values) :])}",
                [*values, *keys],
            )
            if cursor.rowcount:
                return
        columns = database.names(list(row.columns))
        marks = database.marks(len(row.columns))
        values = [database.value(each) for each in row.columns.values()]
        cursor.execute(f"INSERT INTO {name} ({columns}) VALUES ({', '.join(marks)})", values)

    def _evolve(self, connection: Any, table: str, row: Row) -> None:
        """Create a table, or add the columns that it lacks, if that is allowed; once for each shape."""
        shape = (table, tuple(row.columns))
        if row.is_delete or shape in self._known:
            return
        database = self.database
        there = database.columns(connection, table)
        kinds = {name: database.type_of(value) for name, value in row.columns.items()}
        cursor = connection.cursor()
        if there is None:
            if not self.settings["auto.create"]:
                raise ConnectError(f"there is no table {table}; create it, or set auto.create=true")
            parts = [f"{database.name(name)} {kind}" for name, kind in kinds.items()]
            if row.key:
                parts.append(f"PRIMARY KEY ({database.names(list(row.key))})")
            cursor.execute(f"CREATE TABLE {database.name(table)} ({', '.join(parts)})")
        elif self.settings["auto.evolve"]:
            for name, kind in kinds.items():
                if name not in there:
                    cursor.execute(
                        f"ALTER TABLE {database.name(table)} ADD COLUMN {database.name(name)} {kind}"
                    )
        self._known.add(shape)


def _same(names: Sequence[str], marks: Sequence[str], between: str = " AND ") -> str:
    return between.join(f"{name} = {mark}" for name, mark in zip(names, marks, strict=False))
