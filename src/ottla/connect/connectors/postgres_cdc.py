"""Change data capture of PostgreSQL: a snapshot, then the write-ahead log, as Debezium's events.

    slot is created --> snapshot in ranges of blocks, all at one exported snapshot --> log from the slot on

The log is streamed (postgresql/stream.py). Where that is refused, and when a batch comes again, it is read by
`pg_logical_slot_peek_binary_changes`. The slot advances after the records are in their topics. A transaction
that the snapshot shows already is skipped by its number. If the process that holds the snapshot dies, the
rest is read at a newer one: changes in between come again from the log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from time import sleep
from typing import Any, TypeVar

from ottla.common.clock import SystemClock
from ottla.connect.config.keys import BOOLEAN, HIGH, INT, LIST, LONG, LOW, PASSWORD, ConfigKey, at_least
from ottla.connect.connectors.postgresql import pgoutput
from ottla.connect.connectors.postgresql.database import (
    check_connection,
    connect,
    dsn_of,
    partitioned,
    primary_key,
    quoted,
    table_name,
    tables_like,
)
from ottla.connect.connectors.postgresql.debezium import (
    EPOCH_2000_MS,
    FAILURE_MODES,
    SNAPSHOT,
    WARN,
    Events,
    Position,
    relation_of,
)
from ottla.connect.connectors.postgresql.debezium_columns import ColumnEncoder, LogColumns
from ottla.connect.connectors.postgresql.pgoutput import Begin, Change, Decoder, Relation, has_whole_rows
from ottla.connect.connectors.postgresql.stream import CannotStream, ChangeStream, Row, behind, is_visible
from ottla.connect.data.record import Record
from ottla.connect.errors import ConnectError
from ottla.connect.sdk import Offsets, SourceConnector, SourceReader, partition_of

ROWS_AT_ONCE = 10_000
NAME = re.compile(r"[a-z0-9_]{1,63}")
PLAIN = re.compile(r"\w+\.\w+")
QUIET_ADVANCE_BYTES = 16 * 1024 * 1024
WAIT_S = 0.1
SLOT_TRIES, SLOT_PAUSE_S = 100, 0.05
BY_ROOT = "publish_via_partition_root = true"
"""Changes of partitions are those of the table that the snapshot reads."""

log = logging.getLogger(__name__)


class PostgresCdcSource(SourceConnector):
    """Captures changes of tables, with Debezium's config keys and events."""

    keys = (
        ConfigKey("database.hostname", doc="The host.", importance=HIGH),
        ConfigKey("database.port", INT, 5432, "The port.", HIGH),
        ConfigKey("database.user", doc="The user; needs the REPLICATION privilege.", importance=HIGH),
        ConfigKey("database.password", PASSWORD, "", "The password.", HIGH),
        ConfigKey("database.dbname", doc="The database.", importance=HIGH),
        ConfigKey("topic.prefix", doc="Prefix of the topic names.", importance=HIGH),
        ConfigKey("table.include.list", LIST, [], "Patterns of SCHEMA.TABLE; empty: all tables.", HIGH),
        ConfigKey("slot.name", default="ottla", doc="The replication slot; each connector needs its own."),
        ConfigKey(
            "publication.name", default="ottla_publication", doc="The publication; created if missing."
        ),
        ConfigKey(
            "snapshot.mode",
            default="initial",
            doc="initial: read existing rows first.",
            values=("initial", "never"),
        ),
        ConfigKey("snapshot.ranges", INT, 4, "Ranges read in parallel.", LOW, at_least(1)),
        ConfigKey(
            "decimal.handling.mode",
            default="precise",
            doc="How `numeric` values are written.",
            values=("precise", "string", "double"),
        ),
        ConfigKey(
            "event.converting.failure.handling.mode",
            default=WARN,
            doc="How to handle a value that its schema cannot hold, such as NaN: warn and skip write null.",
            importance=LOW,
            values=FAILURE_MODES,
        ),
        ConfigKey("tombstones.on.delete", BOOLEAN, True, "Write a tombstone after each delete."),
        ConfigKey(
            "max.batch.size",
            LONG,
            20_000,
            "Changes per batch; a transaction is never split.",
            check=at_least(1),
        ),
        ConfigKey(
            "snapshot.fetch.size",
            LONG,
            8192,
            "Table blocks per batch of the snapshot.",
            LOW,
            at_least(1),
        ),
        ConfigKey(
            "wal.retention.alarm.bytes",
            LONG,
            1 << 30,
            "Raise an alarm if the slot retains more WAL.",
            check=at_least(1),
        ),
    )
    position_keys = ("database.hostname", "database.port", "database.dbname", "slot.name")

    @property
    def dsn(self) -> str:
        """Where the database is."""
        return dsn_of(_connection(self.settings))

    @classmethod
    def check(cls, config: Mapping[str, str]) -> dict[str, str]:
        """Check the names, the connection, and PostgreSQL's settings."""
        for key in ("slot.name", "publication.name"):
            if key in config and not NAME.fullmatch(config[key]):
                return {key: "a name has small letters, digits and _ only"}
        if found := check_connection(_connection(config)):
            return {"database.hostname": found["connection.url"]}
        with connect(dsn_of(_connection(config))) as connection:
            level = connection.execute("SHOW wal_level").fetchone()[0]
            if level != "logical":
                return {
                    "database.hostname": f"wal_level is {level}: set it to logical, and restart PostgreSQL"
                }
        return {}

    def reader(self, task: Mapping[str, str]) -> SourceReader:
        """Return the reader; there is one task."""
        return CdcReader(self.dsn, dict(self.settings))

    def topics(self) -> list[str]:
        """Return the topics of the tables that are named without a pattern."""
        names = [each if "." in each else f"public.{each}" for each in self.settings["table.include.list"]]
        return [f"{self.settings['topic.prefix']}.{each}" for each in names if PLAIN.fullmatch(each)]

    def alarms(self) -> list[str]:
        """Return an alarm if the slot holds much of the log."""
        with connect(self.dsn) as connection:
            row = connection.execute(
                "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint, wal_status "
                "FROM pg_replication_slots WHERE slot_name = %s",
                (self.settings["slot.name"],),
            ).fetchone()
        if row is None:
            return []
        held, status = row
        if status == "lost":
            return [
                f"the slot {self.settings['slot.name']} has lost its log: delete the offsets, and begin again"
            ]
        if held > self.settings["wal.retention.alarm.bytes"]:
            return [
                f"the slot {self.settings['slot.name']} holds {held:,} bytes of PostgreSQL's log: "
                "run the connector, or drop the slot"
            ]
        return []

    def check_offsets(self, offsets: Offsets) -> None:
        """Only a reset makes sense: the slot knows its place."""
        raise ConnectError("the offsets of this connector can be deleted, and then the slot: not set")


def _connection(settings: Mapping[str, Any]) -> dict[str, Any]:
    host, port = settings.get("database.hostname"), settings.get("database.port") or 5432
    return {
        "connection.url": f"postgresql://{host}:{port}/{settings.get('database.dbname')}",
        "connection.user": settings.get("database.user"),
        "connection.password": settings.get("database.password"),
    }


Result = TypeVar("Result")


class CdcReader(SourceReader):
    """Reads the snapshot, then the log; one source partition, whose offset says how far."""

    def __init__(self, dsn: str, settings: dict[str, Any]) -> None:
        self.dsn, self.settings = dsn, settings
        self.slot: str = settings["slot.name"]
        self.partition = partition_of(server=settings["topic.prefix"])
        self._holder: Any = None
        self._snapshot_id = ""
        self._kept: tuple[int, int, list[Row]] | None = None
        self._connection: Any = None
        self._known_keys: dict[bytes, list[str]] = {}
        self._stream: ChangeStream | None = None
        self._stream_at, self._can_stream = 0, True
        self._advanced = self._more = 0

    # Where to start.

    def initial(self, stored: Offsets) -> Offsets:
        """Create publication and slot, and plan the snapshot; or resume from the stored offset."""
        if self.partition in stored:
            return {self.partition: stored[self.partition]}
        with connect(self.dsn, autocommit=True) as connection:
            tables = tables_like(connection, self.settings["table.include.list"])
            self._publish(connection, tables)
            exists = connection.execute(
                "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = %s",
                (self.slot,),
            ).fetchone()
            if exists is None:
                exists = connection.execute(
                    "SELECT lsn - '0/0' FROM pg_create_logical_replication_slot(%s, 'pgoutput')", (self.slot,)
                ).fetchone()
            offset: dict[str, Any] = {"lsn": int(exists[0])}
        if self.settings["snapshot.mode"] == "initial" and tables:
            offset |= {
                "snapshot": True,
                "tables": tables,
                "table": 0,
                "block": 0,
                "xids": self._open_snapshot(),
            }
        return {self.partition: offset}

    def _publish(self, connection: Any, tables: Sequence[str]) -> None:
        name = self.settings["publication.name"]
        found = connection.execute(
            "SELECT pubviaroot FROM pg_publication WHERE pubname = %s", (name,)
        ).fetchone()
        if found is None:
            if not self.settings["table.include.list"]:
                what = "ALL TABLES"
            elif tables:
                what = f"TABLE {', '.join(map(table_name, tables))}"
            else:
                raise ConnectError("table.include.list: there is no such table")
            connection.execute(f"CREATE PUBLICATION {quoted(name)} FOR {what} WITH ({BY_ROOT})")
        elif not found[0] and (split := partitioned(connection, tables)):
            raise ConnectError(
                f"{split[0]} is partitioned, and {name} publishes its partitions as tables of their own: "
                f"ALTER PUBLICATION {name} SET ({BY_ROOT})"
            )

    def _open_snapshot(self) -> str:
        """Hold one view of the database for all ranges; return which transactions it shows."""
        self._holder = connect(self.dsn)
        self._holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        row = self._holder.execute("SELECT pg_export_snapshot(), pg_current_snapshot()::text").fetchone()
        self._snapshot_id = row[0]
        return str(row[1])

    # How far the next batch goes.

    def latest(self, start: Offsets) -> Offsets:
        """Return the end of the next part of the snapshot, or of the log."""
        offset = start[self.partition]
        if offset.get("snapshot"):
            return {self.partition: self._next_blocks(offset)}
        if self._holder is not None:
            self._holder.close()
            self._holder = None
        rows = self._changes(offset["lsn"])
        if not rows:
            return start
        end = max(each[0] for each in rows)
        self._kept = (offset["lsn"], end, rows)
        return {self.partition: {**offset, "lsn": end}}

    def _next_blocks(self, offset: dict[str, Any]) -> dict[str, Any]:
        """Return the snapshot's next place; after the last table, the log's first."""
        if offset["table"] >= len(offset["tables"]):
            return {"lsn": offset["lsn"], "xids": offset["xids"]}
        block = offset["block"] + self.settings["snapshot.fetch.size"]
        if block >= self._blocks(offset["tables"][offset["table"]]):
            return {**offset, "table": offset["table"] + 1, "block": 0}
        return {**offset, "block": block}

    def _blocks(self, table: str) -> int:
        query = "SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::int"
        name = (table_name(table),)
        return int(self._with_database(lambda database: database.execute(query, name).fetchone()[0]))

    def _with_database(self, work: Callable[[Any], Result], tries: int = SLOT_TRIES) -> Result:
        """Work with a connection that is kept; with a new one, if PostgreSQL has ended it meanwhile.

        A stream that was closed occupies its slot until PostgreSQL's process for it has ended.
        """
        import psycopg

        was_kept = self._connection is not None
        if self._connection is None:
            self._connection = connect(self.dsn, autocommit=True)
        try:
            return work(self._connection)
        except psycopg.errors.ObjectInUse:
            if tries <= 0:
                raise
            sleep(SLOT_PAUSE_S)
        except psycopg.OperationalError:
            self._connection.close()
            self._connection = None
            if not was_kept:
                raise
        return self._with_database(work, tries - 1)

    def _changes(self, after: int) -> list[Row]:
        """Return the messages of the next transactions behind a place."""
        import psycopg

        if not self._can_stream:
            return self._with_database(lambda database: self._next_changes(database, after))
        was_open = self._stream is not None
        try:
            return self._streamed(after)
        except psycopg.OperationalError:
            if not was_open:
                raise
            return self._changes(after)
        except CannotStream as error:
            found = self._with_database(lambda database: self._next_changes(database, after))
            if not error.is_in_use:  # by a process of PostgreSQL that serves an earlier stream, until it ends
                log.warning("%s: the log is read with queries, not streamed: %s", self.slot, error)
                self._can_stream = False
            return found

    def _streamed(self, after: int) -> list[Row]:
        if self._stream is not None and self._stream_at != after:
            self._end_stream()
        try:
            if self._stream is None:
                self._stream = ChangeStream(self.dsn, self.slot, self.settings["publication.name"], after)
            self._stream.confirm(after)
            rows = self._stream.next(self.settings["max.batch.size"], WAIT_S)
            if not rows and self._stream.quiet_until - after > QUIET_ADVANCE_BYTES:
                self._stream.confirm(self._stream.quiet_until)
        except BaseException:
            self._end_stream()
            raise
        self._stream_at = rows[-1][0] if rows else after
        return rows

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _next_changes(self, database: Any, after: int) -> list[Row]:
        # Spark asks for a batch when the one before is in its topics, and calls `commit` for that one later:
        # PostgreSQL would decode and send it again.
        self._advance(database, after)
        # Not pg_current_wal_lsn: a commit that is written and not flushed yet is not peeked at below, so
        # advancing behind it would lose it.
        now = database.execute("SELECT pg_current_wal_flush_lsn() - '0/0'").fetchone()[0]
        rows, is_empty = self._peek(database, after)
        if is_empty and now - after > QUIET_ADVANCE_BYTES:
            # Nothing of ours is in the log up to here: let PostgreSQL remove it.
            self._advance(database, int(now))
        return rows

    def _peek(self, database: Any, after: int, upto: int | None = None) -> tuple[list[Row], bool]:
        """Return the messages of the whole transactions that end behind a place; whether there are any."""
        most = self.settings["max.batch.size"]
        while True:
            limit = most + self._more
            found = database.execute(
                "SELECT lsn - '0/0', xid::text::bigint, data FROM pg_logical_slot_peek_binary_changes("
                "%s, %s::pg_lsn, %s, 'proto_version', '1', 'publication_names', %s)",
                (
                    self.slot,
                    None if upto is None else f"{upto >> 32:X}/{upto & 0xFFFFFFFF:X}",
                    None if upto is not None else limit,
                    quoted(self.settings["publication.name"]),
                ),
                binary=True,
            ).fetchall()
            rows = behind([(int(lsn), xid, data) for lsn, xid, data in found], after, upto)
            if rows or len(found) < limit or upto is not None:
                break
            self._more += len(found)  # all of it is done already, and the slot has not advanced yet
        self._more = min(len(found), most * 4) if found and not rows else 0
        return rows, not found

    # Reading.

    def plan(self, start: Offsets, end: Offsets) -> Sequence[Any]:
        """Return ranges of blocks, or the messages themselves: one part, so that their order stays."""
        before, after = start[self.partition], end[self.partition]
        if before.get("snapshot"):
            return self._plan_snapshot(before, after)
        if self._kept is None or self._kept[:2] != (before["lsn"], after["lsn"]):
            self._end_stream()
            rows, _ = self._with_database(lambda database: self._peek(database, before["lsn"], after["lsn"]))
            self._kept = (before["lsn"], after["lsn"], rows)
        rows = self._kept[2]
        return [("log", rows, after.get("xids"), self._keys(rows))] if rows else []

    def _keys(self, rows: Sequence[Row]) -> dict[bytes, list[str]]:
        """Return the primary keys of tables whose replica identity is the whole row."""
        found = {}
        for data in {each for _, _, each in rows if has_whole_rows(each)}:
            if data not in self._known_keys:
                described = pgoutput.relation_of(data)
                name = f"{described.schema}.{described.table}"
                self._known_keys[data] = self._with_database(partial(primary_key, table=name))
            found[data] = self._known_keys[data]
        return found

    def _plan_snapshot(self, before: dict[str, Any], after: dict[str, Any]) -> Sequence[Any]:
        if before["table"] >= len(before["tables"]):
            return []
        table = before["tables"][before["table"]]
        is_last = after.get("table") != before["table"]
        first, last = before["block"], None if is_last else after["block"]
        if self._holder is None or self._holder.closed:
            self._open_snapshot()
        count = self.settings["snapshot.ranges"]
        high = last if last is not None else max(first + 1, self._blocks(table))
        edges = sorted({first + (high - first) * each // count for each in range(count)})
        ends: list[int | None] = [*edges[1:], last]
        return [
            ("snapshot", table, low, up, self._snapshot_id, before["lsn"])
            for low, up in zip(edges, ends, strict=True)
        ]

    def _events(self) -> Events:
        return Events(
            self.settings["topic.prefix"],
            self.settings["database.dbname"],
            decimals=self.settings["decimal.handling.mode"],
            tombstones=self.settings["tombstones.on.delete"],
            failures=self.settings["event.converting.failure.handling.mode"],
        )

    def read(self, part: Any) -> Iterator[Record]:
        """Yield the records of a part."""
        return self._read_log(*part[1:]) if part[0] == "log" else self._read_snapshot(*part[1:])

    def _read_snapshot(
        self, table: str, low: int, high: int | None, snapshot: str, lsn: int
    ) -> Iterator[Record]:
        events, now_ms = self._events(), SystemClock().wall_ms()
        upper = "" if high is None else f" AND ctid < '({high},0)'::tid"
        with connect(self.dsn) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
            relation = describe(connection, table)
            names = ", ".join(f"{quoted(each.name)}::text" for each in relation.columns)
            with connection.cursor(name="ottla_snapshot") as cursor:
                cursor.itersize = ROWS_AT_ONCE
                cursor.execute(
                    f"SELECT {names} FROM {table_name(table)} WHERE ctid >= '({low},0)'::tid{upper}"
                )
                columns = [each.name for each in relation.columns]
                at = Position(lsn, 0, now_ms)
                for row in cursor:
                    change = Change("r", relation, None, dict(zip(columns, row, strict=True)))
                    yield from events.records(change, at, SNAPSHOT)

    def _read_log(
        self, rows: Sequence[Row], xids: str | None, keys: Mapping[bytes, Sequence[str]]
    ) -> Iterator[Record]:
        events, decoder = self._events(), Decoder(keys)
        is_wanted = self._filter()
        at, skips = Position(0, 0, 0), False
        for lsn, _, data in rows:
            for message in decoder.decode(data):
                if isinstance(message, Change):
                    relation = message.relation
                    if not skips and is_wanted(relation.schema, relation.table):
                        yield from events.records(message, at)
                elif isinstance(message, Begin):  # lsn is the end of the transaction, in all of its rows
                    at = Position(lsn, message.xid, message.commit_us // 1000 + EPOCH_2000_MS)
                    skips = xids is not None and is_visible(xids, message.xid)

    def _filter(self) -> Callable[[str, str], bool]:
        """Return a function that says whether a table is captured."""
        wanted = self.settings["table.include.list"]
        patterns = [re.compile(each if "." in each else f"public.{each}") for each in wanted]
        return cache(lambda schema, table: _is_wanted(schema, table, patterns))

    def read_json(self, part: Any, key: Any, value: Any) -> Iterator[Any] | None:
        """Yield the new rows of a part of the log in Arrow batches, everything else in records."""
        if part[0] != "log":
            return None
        return LogColumns(self._events(), ColumnEncoder(key, value), self._filter()).read(*part[1:])

    def commit(self, end: Offsets) -> None:
        """Let PostgreSQL remove the log before a place."""
        offset = end[self.partition]
        if self._stream is not None:
            self._stream.confirm(offset["lsn"])
        elif not offset.get("snapshot"):
            self._with_database(lambda database: self._advance(database, offset["lsn"]))

    def _advance(self, database: Any, lsn: int) -> None:
        if lsn <= self._advanced:
            return
        database.execute(
            "SELECT pg_replication_slot_advance(slot_name, '0/0'::pg_lsn + %s::numeric) "
            "FROM pg_replication_slots "
            "WHERE slot_name = %s AND confirmed_flush_lsn < '0/0'::pg_lsn + %s::numeric",
            (lsn, self.slot, lsn),
        )
        self._advanced = lsn

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_holder": None, "_kept": None, "_connection": None, "_stream": None}


def _is_wanted(schema: str, table: str, patterns: Sequence[re.Pattern[str]]) -> bool:
    name = f"{schema}.{table}"
    return not patterns or any(each.fullmatch(name) for each in patterns)


def describe(connection: Any, table: str) -> Relation:
    """Return a table's columns from the catalogue; keys are those of its primary key."""
    rows = connection.execute(
        "SELECT a.attname, a.atttypid::bigint, a.atttypmod, coalesce(a.attnum = ANY(i.indkey), false) "
        "FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary "
        "WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        (table_name(table),),
    ).fetchall()
    schema, _, name = table.rpartition(".")
    return relation_of(schema or "public", name, rows)
