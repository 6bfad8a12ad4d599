"""The PostgreSQL connectors on a real server, without Spark: the kit calls them as a worker does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from tests.postgres_server import PostgresServer, postgres_server
from tests.waiting import wait_until

from ottla.connect.connectors import postgres_cdc
from ottla.connect.connectors.postgres_cdc import PostgresCdcSource
from ottla.connect.connectors.postgres_sink import PostgresSink, PostgresWriter
from ottla.connect.connectors.postgres_source import PostgresSource
from ottla.connect.connectors.postgresql.stream import CannotStream, is_visible
from ottla.connect.converters.plain import JsonConverter
from ottla.connect.data import schema as s
from ottla.connect.data.json_form import schema_to_json, to_json
from ottla.connect.data.record import Record
from ottla.connect.data.schema import Schema
from ottla.connect.engine.pipeline import BadRecord
from ottla.connect.engine.sink_batches import PartWriter
from ottla.connect.engine.spec import TaskSpec
from ottla.connect.errors import ConnectError
from ottla.connect.options import DEFAULT_CONVERTERS
from ottla.connect.sdk import Batch, Offsets
from ottla.connect.testing import check_config, read_source, write_sink


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.fixture
def database(server: PostgresServer) -> Iterator[Any]:
    with psycopg.connect(server.url, autocommit=True) as connection:
        yield connection
        connection.execute(
            "SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots WHERE active"
        )
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        for (name,) in connection.execute("SELECT slot_name FROM pg_replication_slots").fetchall():
            connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))
        for (name,) in connection.execute("SELECT pubname FROM pg_publication").fetchall():
            connection.execute(f"DROP PUBLICATION {name}")


def test_new_rows_are_found_by_a_growing_column(server: PostgresServer, database: Any) -> None:
    database.execute(
        "CREATE TABLE t (id bigserial PRIMARY KEY, name text, price numeric(8,2), day date, raw bytea)"
    )
    database.execute(
        "INSERT INTO t (name, price, day, raw) SELECT 'n' || g, g / 4.0, '2020-01-02', '\\x01' "
        "FROM generate_series(1, 30000) g"
    )
    config = {
        "connection.url": f"jdbc:{server.url}",
        "table.whitelist": "t",
        "topic.prefix": "db-",
        "batch.max.rows": "11000",
    }
    records = read_source(PostgresSource, config)
    assert sorted(each.key["id"] for each in records) == list(range(1, 30001))
    one = next(each for each in records if each.key["id"] == 3)
    assert one.topic == "db-t"
    assert one.value == {
        "id": 3,
        "name": "n3",
        "price": Decimal("0.75"),
        "day": date(2020, 1, 2),
        "raw": b"\x01",
    }
    assert one.value_schema is not None
    assert one.value_schema.field_map()["price"] == s.decimal(2, optional=True)
    stored: Offsets = {'{"table":"public.t"}': {"incrementing": 29998}}
    assert [each.key["id"] for each in read_source(PostgresSource, config, offsets=stored)] == [29999, 30000]

    whole = {**config, "mode": "bulk", "poll.interval.ms": "3600000"}
    assert sorted(each.key["id"] for each in read_source(PostgresSource, whole)) == list(range(1, 30001))


def test_changed_rows_are_found_by_a_timestamp(server: PostgresServer, database: Any) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v int, at timestamptz)")
    database.execute(
        "INSERT INTO t SELECT g, 0, timestamptz '2020-01-01' + g / 3 * interval '1 s' "
        "FROM generate_series(1, 9) g"
    )
    config = {
        "connection.url": server.url,
        "table.whitelist": "t",
        "topic.prefix": "",
        "mode": "timestamp+incrementing",
        "timestamp.column.name": "at",
        "batch.max.rows": "4",
    }
    assert [each.value["id"] for each in read_source(PostgresSource, config)] == list(range(1, 10))
    found = check_config(PostgresSource, {**config, "timestamp.column.name": ""})
    assert found.results["timestamp.column.name"].errors
    wrong = check_config(PostgresSource, {**config, "connection.url": "postgresql://127.0.0.1:1/x"})
    assert "cannot connect" in wrong.results["connection.url"].errors[0]
    assert "public.t" in check_config(PostgresSource, config).results["table.whitelist"].recommended


ROW = s.struct(
    {"id": Schema(s.INT32), "name": Schema(s.STRING, optional=True), "at": s.timestamp_schema(optional=True)}
)
KEY = s.struct({"id": Schema(s.INT32)})


def record(offset: int, key: int, name: str | None = None, *, gone: bool = False) -> Record:
    value = None if gone else {"id": key, "name": name, "at": datetime(2020, 1, 1, tzinfo=UTC)}
    return Record("t", value, None if gone else ROW, {"id": key}, KEY, 0, 0, [], offset, "t")


SAME_IN_ANY_NUMBER: list[tuple[str, Any, str | None]] = [
    ("text", True, "true"),
    ("date", 20200101, None),
    ("boolean", 1, None),
    ("text", b"raw", "\\x726177"),
    ("timestamp", datetime(2020, 1, 1, tzinfo=UTC), "2020-01-01 00:00:00"),
    ("text", "\\N\t\r\n\\", "\\N\t\r\n\\"),
    ("jsonb", '{"a": "\\t"}', '{"a": "\\t"}'),
    ("numeric", Decimal("NaN"), "NaN"),
    ("double precision", float("-inf"), "-Infinity"),
    ("timestamptz", "infinity", "infinity"),
    ("smallint", 1.5, "2"),
    ("int[]", "{1,NULL}", "{1,NULL}"),
]
"""Types of columns, values, and what is stored; None: PostgreSQL refuses the value."""


def test_many_rows_are_written_as_few_are(server: PostgresServer, database: Any) -> None:
    """COPY reads texts: a number must not become a date, or a boolean a letter, because there are many."""
    for number, (kind, value, stored) in enumerate(SAME_IN_ANY_NUMBER):
        database.execute(f'CREATE TABLE t{number} (id int PRIMARY KEY, "Value" {kind})')
        config = {"connection.url": server.url, "table.name.format": f"t{number}"}
        for first, end in ((0, 2), (2, 102)):
            rows = [
                Record("t", {"id": each, "Value": value}, None, {"id": each}, None, number, 0, [], each, "t")
                for each in range(first, end)
            ]
            refused = write_sink(PostgresSink, config, rows, number=first)
            assert len(refused) == (0 if stored is not None else end - first), (kind, value, refused)
        found = database.execute(f'SELECT "Value"::text, count(*) FROM t{number} GROUP BY 1').fetchall()
        assert found == ([] if stored is None else [(stored, 102)])


def test_a_number_and_its_text_are_one_key(server: PostgresServer, database: Any) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
    rows = [
        Record("t", value, None, {"id": key}, None, 0, 0, [], offset, "t")
        for offset, (key, value) in enumerate([(1, {"id": 1, "name": "a"}), ("1", None)])
    ]
    assert write_sink(PostgresSink, {"connection.url": server.url}, rows) == []
    assert database.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_the_sink_creates_upserts_deletes_and_evolves(server: PostgresServer, database: Any) -> None:
    config = {"connection.url": server.url, "auto.create": "true", "auto.evolve": "true"}
    first = [record(0, 1, "a"), record(1, 2, "b"), record(2, 1, "c"), record(3, 2, gone=True)]
    assert write_sink(PostgresSink, config, first) == []
    assert database.execute("SELECT id, name FROM t").fetchall() == [(1, "c")]
    # The same batch again changes nothing, also after the rows have changed.
    database.execute("DELETE FROM t")
    write_sink(PostgresSink, config, first)
    assert database.execute("SELECT count(*) FROM t").fetchone() == (0,)
    wide = record(4, 3, "d")
    wide.value_schema = ROW.with_fields(ROW.field_map() | {"more": Schema(s.FLOAT64, optional=True)})
    wide.value["more"] = 1.5
    write_sink(PostgresSink, config, [wide], number=1)
    assert database.execute("SELECT id, more FROM t").fetchall() == [(3, 1.5)]


def test_a_mix_of_changes_has_the_outcome_of_its_order(server: PostgresServer, database: Any) -> None:
    config = {"connection.url": server.url, "auto.create": "true", "auto.evolve": "true"}
    other_order = record(4, 4, "four")
    other_order.value = dict(reversed(other_order.value.items()))
    narrow = record(6, 5, "narrow")
    del narrow.value["at"]
    rows = [
        record(0, 1, "a"), record(1, 1, gone=True), record(2, 1, "again"),
        record(3, 2, "gone"), other_order, record(5, 5, "wide"), narrow, record(7, 2, gone=True),
        record(8, 6, "wide"), record(9, 6, gone=True),
    ]  # fmt: skip
    late = record(10, 6, "late")
    del late.value["at"]
    assert write_sink(PostgresSink, config, [*rows, late]) == []
    found = database.execute("SELECT id, name, at IS NULL FROM t ORDER BY id").fetchall()
    assert found == [(1, "again", False), (4, "four", False), (5, "narrow", False), (6, "late", True)]


def test_many_rows_are_copied_and_the_refused_one_is_found(server: PostgresServer, database: Any) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, name varchar(9) CHECK (name <> 'bad'), at timestamptz)"
    )
    config = {"connection.url": server.url}
    names = {1: "tab\t\\N", 2: "line\n", 3: "", 4: "\\."}
    rows = [record(each, each, names.get(each, "a")) for each in range(300)]
    assert write_sink(PostgresSink, config, rows) == []
    found = dict(database.execute("SELECT id, name FROM t WHERE id < 5").fetchall())
    assert found == {0: "a", **names}
    changes = [record(300 + each, each, "b", gone=each >= 150) for each in range(300)]
    bad = record(600, 7, "bad")
    assert [each.record for each in write_sink(PostgresSink, config, [*changes, bad], number=1)] == [bad]
    assert write_sink(PostgresSink, config, changes, number=2) == []
    found = database.execute("SELECT count(*), min(name), max(name), max(id) FROM t").fetchone()
    assert found == (150, "b", "b", 149)


def test_names_that_move_between_rows_are_written_one_after_the_other(
    server: PostgresServer, database: Any
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text UNIQUE, at timestamptz)")
    config = {"connection.url": server.url}
    assert write_sink(PostgresSink, config, [record(0, 1, "x"), record(1, 2, "y")]) == []
    moves = [record(2, 1, "free"), record(3, 2, "x"), record(4, 1, "y")]
    assert write_sink(PostgresSink, config, moves, number=1) == []
    assert database.execute("SELECT id, name FROM t ORDER BY id").fetchall() == [(1, "y"), (2, "x")]


def test_rows_that_postgresql_refuses_are_named_and_the_others_are_written(
    server: PostgresServer, database: Any
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text CHECK (name <> 'bad'), at timestamptz)")
    config = {"connection.url": server.url, "insert.mode": "insert"}
    rows = [record(0, 1, "a"), record(1, 2, "bad"), record(2, 1, "again"), record(3, 3, "c")]
    refused = write_sink(PostgresSink, config, rows)
    assert [each.record.offset for each in refused] == [1, 2]
    assert "violates check constraint" in refused[0].reason
    assert database.execute("SELECT id FROM t ORDER BY id").fetchall() == [(1,), (3,)]


def test_a_batch_that_comes_again_refuses_the_same_records(server: PostgresServer, database: Any) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text CHECK (name <> 'bad'), at timestamptz)")
    config = {"connection.url": server.url}
    rows = [record(0, 1, "a"), record(1, 2, "bad")]
    first = write_sink(PostgresSink, config, rows)
    assert [each.record.offset for each in first] == [1]
    # The driver died before it wrote the dead letter.
    assert write_sink(PostgresSink, config, rows) == first


def test_the_offsets_of_a_topic_that_was_created_again_begin_at_0(
    server: PostgresServer, database: Any
) -> None:
    config = {"connection.url": server.url, "auto.create": "true"}
    write_sink(PostgresSink, config, [record(each, each, "old") for each in range(5)])
    write_sink(PostgresSink, config, [record(0, 9, "new")], number=1)
    assert database.execute("SELECT id FROM t WHERE name = 'new'").fetchall() == [(9,)]


def test_a_refused_record_fails_the_task_again_and_again_if_it_is_not_tolerated(
    server: PostgresServer, database: Any
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text CHECK (name <> 'bad'), at timestamptz)")
    settings = {
        "connection.url": server.url,
        "key.converter": "JsonConverter",
        "value.converter": "JsonConverter",
    }
    spec = TaskSpec("c", 0, 1, "sink", "PostgresSink", settings, DEFAULT_CONVERTERS).to_json()
    writer = PostgresSink("c", settings).writer(settings)
    batch = Batch("q", 0, "c", 0)
    assert writer.prepare(batch)
    rows = [as_json(record(0, 1, "a")), as_json(record(1, 2, "bad"))]
    for _ in range(2):
        with pytest.raises(BadRecord, match="violates check constraint"):
            list(PartWriter(spec, writer, batch).write(iter([pa.RecordBatch.from_pylist(rows)])))
        assert database.execute("SELECT count(*) FROM t").fetchone() == (0,)
    database.execute("ALTER TABLE t DROP CONSTRAINT t_name_check")
    list(PartWriter(spec, writer, batch).write(iter([pa.RecordBatch.from_pylist(rows)])))
    assert database.execute("SELECT id FROM t ORDER BY id").fetchall() == [(1,), (2,)]


def as_json(one: Record) -> dict[str, Any]:
    """Return a record as the source of Spark gives it."""
    parts = {"key": (KEY, one.key), "value": (ROW, one.value)}
    row = {
        name: json.dumps({"schema": schema_to_json(schema), "payload": to_json(schema, value)}).encode()
        for name, (schema, value) in parts.items()
    }
    at = datetime(2020, 1, 1, tzinfo=UTC)
    return {**row, "topic": "t", "partition": 0, "offset": one.offset, "timestamp": at}


# Change data capture.


def cdc_config(server: PostgresServer, **more: str) -> dict[str, str]:
    return {
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "tester",
        "database.dbname": "postgres",
        "topic.prefix": "shop",
        **more,
    }


class Capture:
    """A reader that is kept from batch to batch, as Spark's process keeps it."""

    def __init__(self, server: PostgresServer, **more: str) -> None:
        config = cdc_config(server, **more)
        self.url = server.url
        self.reader: Any = PostgresCdcSource("cdc", config).reader(config)
        self.offset: Offsets = self.reader.initial({})

    def batch(self) -> list[Record]:
        end = self.reader.latest(self.offset)
        records = [each for part in self.reader.plan(self.offset, end) for each in self.reader.read(part)]
        self.offset = end
        return records

    def everything(self) -> list[Record]:
        """Return what was committed before this call."""
        with psycopg.connect(self.url) as database:
            end = one(database, "SELECT pg_current_wal_flush_lsn() - '0/0'")
        found: list[Record] = []
        while True:
            before = self.offset
            found += self.batch()
            if self.offset == before and self._has_come(end):
                return found
            self.reader.commit(before)

    def _has_come(self, end: int) -> bool:
        stream = self.reader._stream
        return not self.reader._can_stream or (stream is not None and stream.quiet_until >= end)


def one(database: Any, query: str) -> Any:
    return database.execute(query).fetchone()[0]


def test_snapshot_and_log_make_one_stream_of_changes(server: PostgresServer, database: Any) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, name text, price numeric(8,2), at timestamptz, ok boolean, "
        "free numeric, u uuid, j jsonb, d date, ts timestamp)"
    )
    database.execute(
        "INSERT INTO t SELECT g, 'n' || g, 1.25, '2020-01-01 00:00:00.5+00', true, 12.345, "
        "'00000000-0000-0000-0000-000000000001', '{\"a\": 1}', '1970-01-03', '1970-01-01 00:00:01' "
        "FROM generate_series(1, 1000) g"
    )
    capture = Capture(server, **{"snapshot.fetch.size": "5"})
    # A change while the snapshot is read comes once, from the log.
    first = capture.batch()
    database.execute("UPDATE t SET name = 'changed' WHERE id = 999")
    rest = capture.everything()
    found = first + rest
    snapshot = [each for each in found if each.value["op"] == "r"]
    assert sorted(each.key["id"] for each in snapshot) == list(range(1, 1001))
    assert [each.value["after"]["name"] for each in found if each.key["id"] == 999] == ["n999", "changed"]
    one = snapshot[0]
    assert one.topic == "shop.public.t"
    assert one.value["before"] is None
    assert one.value["source"]["snapshot"] == "true"
    after = one.value["after"]
    assert (after["price"], after["at"], after["ok"], after["d"], after["ts"]) == (
        Decimal("1.25"),
        "2020-01-01T00:00:00.500000Z",
        True,
        2,
        1_000_000,
    )
    assert after["free"] == {"scale": 3, "value": (12345).to_bytes(2, "big")}
    assert one.value_schema is not None
    assert one.value_schema.name == "shop.public.t.Envelope"
    s.check_value(one.value_schema, one.value)

    database.execute("INSERT INTO t (id, name) VALUES (2000, 'new')")
    database.execute("DELETE FROM t WHERE id = 1")
    database.execute("ALTER TABLE t ADD COLUMN extra int")
    database.execute("UPDATE t SET id = 3000, extra = 7 WHERE id = 2")
    changes = [
        (each.key["id"], None if each.value is None else each.value["op"]) for each in capture.everything()
    ]
    assert changes == [
        (2000, "c"),
        (1, "d"),
        (1, None),
        (2, "d"),
        (2, None),
        (3000, "c"),
    ]


FORMS = {
    "datestyle": "German",
    "timezone": "Asia/Kolkata",
    "bytea_output": "escape",
    "extra_float_digits": "0",
    "intervalstyle": "iso_8601",
}


def test_values_do_not_depend_on_the_settings_of_the_user(server: PostgresServer, database: Any) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, at timestamptz, ts timestamp, d date, raw bytea, f float8, "
        "i interval)"
    )
    row = (
        "'2024-03-05 10:11:12.5+00', '2024-03-05 01:02:03', '2024-03-05', '\\xdead', 0.1::float8 + 0.2, "
        "'2 days'"
    )
    database.execute(f"INSERT INTO t SELECT 1, {row}")
    for name, value in FORMS.items():
        database.execute(f"ALTER ROLE tester SET {name} = '{value}'")
    try:
        capture = Capture(server)
        found = capture.everything()
        database.execute(f"INSERT INTO t SELECT 2, {row}")
        found += capture.everything()
        capture.reader._end_stream()
        capture.reader._can_stream = False
        database.execute(f"INSERT INTO t SELECT 3, {row}")
        found += capture.everything()
    finally:
        database.execute("ALTER ROLE tester RESET ALL")
    assert [each.value["after"] for each in found] == [
        {
            "id": number,
            "at": "2024-03-05T10:11:12.500000Z",
            "ts": 1_709_600_523_000_000,
            "d": 19_787,
            "raw": b"\xde\xad",
            "f": 0.30000000000000004,
            "i": "2 days",
        }
        for number in (1, 2, 3)
    ]


def test_a_database_of_another_encoding_is_captured(server: PostgresServer, database: Any) -> None:
    database.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
    url = server.url.replace("/postgres", "/latin")
    with psycopg.connect(url, autocommit=True, client_encoding="utf8") as latin:
        latin.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
        latin.execute("INSERT INTO t VALUES (1, 'é')")
        capture = Capture(server, **{"database.dbname": "latin"})
        found = capture.batch()
        latin.execute("INSERT INTO t VALUES (2, 'ü')")
        wait_until(lambda: found.extend(capture.batch()) or len(found) == 2, "the change")
        capture.reader._end_stream()
    wait_until(
        lambda: one(database, "SELECT count(*) FROM pg_replication_slots WHERE active") == 0, "the slot's end"
    )
    database.execute("SELECT pg_drop_replication_slot('ottla')")
    database.execute("DROP DATABASE latin WITH (FORCE)")
    assert [each.value["after"]["name"] for each in found] == ["é", "ü"]


@pytest.mark.parametrize("tables", ["public.parts", "public\\.parts.*", ""])
def test_a_partitioned_table_is_one_table(server: PostgresServer, database: Any, tables: str) -> None:
    database.execute("CREATE TABLE parts (id int, at int, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)")
    for number in range(2):
        database.execute(
            f"CREATE TABLE parts_{number} PARTITION OF parts FOR VALUES FROM ({number}) TO ({number + 1})"
        )
    database.execute("INSERT INTO parts VALUES (1, 0), (2, 1)")
    capture = Capture(server, **({"table.include.list": tables} if tables else {}))
    found = capture.everything()
    database.execute("INSERT INTO parts VALUES (3, 0), (4, 1)")
    found += capture.everything()
    assert [(each.topic, each.key["id"], each.value["op"]) for each in found] == [
        ("shop.public.parts", number, "r" if number < 3 else "c") for number in (1, 2, 3, 4)
    ]


def test_a_publication_of_partitions_is_refused_for_their_table(
    server: PostgresServer, database: Any
) -> None:
    database.execute("CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    database.execute("CREATE PUBLICATION mine FOR ALL TABLES")
    with pytest.raises(ConnectError, match=r"public\.parts is partitioned.*ALTER PUBLICATION mine SET"):
        Capture(server, **{"publication.name": "mine", "table.include.list": "public.parts"})


TYPES = {
    "int": ["-2147483648", "7"],
    "bigint": ["9223372036854775807"],
    "real": ["0.1", "3e38"],
    "float8": ["1e22", "-0.0"],
    "numeric": ["1e30", "-1.50"],
    "numeric(10,3)": ["-0.128", "32.768", "0"],
    "numeric(5,0)": ["-128", "255"],
    "text": ["E'a\"\\\\\\n'", "'ü😀'", "''"],
    "char(6)": ["'a'"],
    "bool": ["true", "false"],
    "bytea": ["'\\x00ff'"],
    "date": ["'infinity'", "'0044-03-15 BC'", "'1969-12-31'"],
    "time": ["'24:00:00'", "'12:34:56.789'"],
    "timestamp": ["'1969-12-31 23:59:59.999999'", "'20000-01-01'"],
    "timestamptz": ["'2020-01-01 00:00:00+02'", "'infinity'"],
    "uuid": ["'00000000-0000-0000-0000-000000000001'"],
    "jsonb": ["'{\"a\": [1]}'"],
    "text[]": ["ARRAY['a\"b', NULL]"],
}


@pytest.mark.parametrize("schemas", ["true", "false"])
@pytest.mark.parametrize(("mode", "form"), [("precise", "BASE64"), ("string", "NUMERIC")])
def test_changes_in_columns_are_those_that_come_one_by_one(
    server: PostgresServer, database: Any, schemas: str, mode: str, form: str
) -> None:
    names = [f'"c{number} \u00fc"' for number in range(len(TYPES))]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, TYPES, strict=True))
    database.execute(f"CREATE TABLE t (id int PRIMARY KEY, large text, {columns})")
    database.execute("ALTER TABLE t ALTER COLUMN large SET STORAGE EXTERNAL")
    capture = Capture(server, **{"decimal.handling.mode": mode})
    capture.everything()
    with database.transaction():
        for number in range(90):
            values = [
                f"CAST({given[number % len(given)]} AS {kind})" if (number + at) % 5 else "NULL"
                for at, (kind, given) in enumerate(TYPES.items())
            ]
            database.execute(f"INSERT INTO t VALUES ({number}, repeat('x', 9000), {', '.join(values)})")
        database.execute("UPDATE t SET id = id + 1000 WHERE id = 40")
        database.execute("DELETE FROM t WHERE id = 41")
    database.execute("ALTER TABLE t ADD COLUMN more int DEFAULT 5")
    database.execute("UPDATE t SET more = id WHERE id < 60")
    settings = {"schemas.enable": schemas, "decimal.format": form}
    key, value = JsonConverter(settings, is_key=True), JsonConverter(settings, is_key=False)

    def encoded(record: Record) -> tuple[Any, ...]:
        return (
            record.topic,
            key.to_bytes(record.topic, record.key_schema, record.key),
            value.to_bytes(record.topic, record.value_schema, record.value),
            record.timestamp_ms,
        )

    rows: list[tuple[Any, ...]] = []
    columns_read: list[tuple[Any, ...]] = []
    in_columns = 0
    while len(rows) < 90 + 4 + 59:
        start, end = capture.offset, capture.reader.latest(capture.offset)
        for part in capture.reader.plan(start, end):
            rows += [encoded(each) for each in capture.reader.read(part)]
            for each in capture.reader.read_json(part, key, value):
                if isinstance(each, Record):
                    columns_read.append(encoded(each))
                    continue
                in_columns += each.num_rows
                times = [moment // 1000 for moment in each.column("timestamp").cast("int64").to_pylist()]
                columns_read += zip(
                    *(each.column(name).to_pylist() for name in ("topic", "key", "value")), times, strict=True
                )
        capture.offset = end
    assert columns_read == rows
    assert in_columns > 100


PLAIN_TYPES = {kind: given for kind, given in TYPES.items() if kind != "numeric"} | {
    "date": ["'0001-01-01'", "'1969-12-31'", "'9999-12-31'"],
    "time": ["'12:34:56.789'", "'23:59:59.999999'"],
    "timestamp": ["'1969-12-31 23:59:59.999999'", "'2020-01-02'"],
}


def test_rows_in_columns_are_those_that_are_written_one_by_one(
    server: PostgresServer, database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = ", ".join(f'"c{number} \u00fc" {kind}' for number, kind in enumerate(PLAIN_TYPES))
    database.execute(f"CREATE TABLE t (id int PRIMARY KEY, large text, {columns})")
    database.execute("ALTER TABLE t ALTER COLUMN large SET STORAGE EXTERNAL")
    capture = Capture(server, **{"decimal.handling.mode": "precise"})
    changes = [
        "INSERT INTO t (id, large, \"c10 \u00fc\") VALUES (-1, 'a', '1999-01-01'), (-2, 'b', NULL)",
        "UPDATE t SET large = 'c\t\"\n\\' WHERE id = -1",
        "DELETE FROM t WHERE id = -2",
        "INSERT INTO t (id, large) VALUES (-2, '')",
        "UPDATE t SET id = 700 WHERE id = -1",
        "DELETE FROM t WHERE id = 700",
        "UPDATE t SET large = 'x' || id",
        "ALTER TABLE t ADD COLUMN more numeric(9,2)",
        "UPDATE t SET more = id / 7.0 WHERE id > 30",
        "DELETE FROM t",
    ]
    with database.transaction():
        for number in range(40):
            values = [
                f"CAST({given[number % len(given)]} AS {kind})" if (number + at) % 5 else "NULL"
                for at, (kind, given) in enumerate(PLAIN_TYPES.items())
            ]
            database.execute(f"INSERT INTO t VALUES ({number}, repeat('x', 9000), {', '.join(values)})")
    groups = [capture.everything()]
    for each in changes:
        database.execute(each)
        groups.append(capture.everything())
    groups += [[each for group in groups[:number] for each in group] for number in (6, 8)]
    outcomes = []
    for is_column in (True, False):
        name = f"mirrored_{is_column}"
        counts = write_groups(server, name, groups, monkeypatch, is_column=is_column)
        rows = database.execute(f"SELECT m::text FROM {name.lower()} m ORDER BY 1").fetchall()
        outcomes.append((rows, counts))
    assert outcomes[0][0] == outcomes[1][0]
    assert outcomes[0][1] > 5
    assert outcomes[1][1] == 0


def write_groups(
    server: PostgresServer,
    name: str,
    groups: list[list[Record]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_column: bool,
) -> int:
    """Write batches as Spark has them; return how many were written in columns."""
    config = {
        "connection.url": server.url,
        "table.name.format": name.lower(),
        "auto.create": "true",
        "auto.evolve": "true",
        "key.converter": JsonConverter.name,
        "value.converter": JsonConverter.name,
    }
    key, value = (JsonConverter({}, is_key=each) for each in (True, False))
    spec = TaskSpec("c", 0, 1, "sink", "PostgresSink", config, DEFAULT_CONVERTERS).to_json()
    found: list[Any] = []
    write = PostgresWriter.write_json

    def counted(*arguments: Any) -> Any:
        found.append(write(*arguments) if is_column else None)
        return found[-1]

    monkeypatch.setattr(PostgresWriter, "write_json", counted)
    offset = 0
    for number, records in enumerate(groups):
        writer = PostgresSink("c", config).writer(config)
        batch = Batch("q" + name, number, "c", 0)
        writer.prepare(batch)
        rows = []
        for each in records:
            rows.append(
                {
                    "key": key.to_bytes(each.topic, each.key_schema, each.key),
                    "value": value.to_bytes(each.topic, each.value_schema, each.value),
                    "topic": each.topic,
                    "partition": 0,
                    "offset": offset,
                    "timestamp": datetime(2020, 1, 1, tzinfo=UTC),
                }
            )
            offset += 1
        rows_of = [pa.RecordBatch.from_pylist(rows)] if rows else []
        list(PartWriter(spec, writer, batch).write(iter(rows_of)))
    monkeypatch.undo()
    return sum(each is not None for each in found)


def test_large_values_that_an_update_leaves_out_stay_in_the_mirror(
    server: PostgresServer, database: Any
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, n int, large text, raw bytea, doc jsonb)")
    for each in ("large", "raw", "doc"):
        database.execute(f"ALTER TABLE t ALTER COLUMN {each} SET STORAGE EXTERNAL")
    database.execute(
        "INSERT INTO t SELECT g, 0, repeat('x', 9000), repeat('y', 9000)::bytea, "
        "jsonb_build_object('a', repeat('z', 9000)) FROM generate_series(1, 200) g"
    )
    capture = Capture(server, **{"table.include.list": "public.t"})
    config = {"connection.url": server.url, "table.name.format": "mirrored", "auto.create": "true"}
    write_sink(PostgresSink, config, capture.everything())
    database.execute("UPDATE t SET n = id")
    database.execute("UPDATE t SET large = 'short' WHERE id = 3")
    database.execute("UPDATE t SET n = 7 WHERE id < 5")
    assert not write_sink(PostgresSink, config, numbered(capture.everything()), number=1)
    rows = "SELECT md5(string_agg(m::text, ',' ORDER BY id)) FROM {} m"
    assert one(database, rows.format("mirrored")) == one(database, rows.format("t"))


def numbered(records: list[Record]) -> list[Record]:
    """Give records the offsets of a topic."""
    return [replace(each, offset=number, partition=0) for number, each in enumerate(records)]


FAR_TIMES = [
    ("infinity", "infinity", "infinity", "24:00:00"),
    ("-infinity", "-infinity", "-infinity", "00:00:00"),
    ("0044-03-15 BC", "0044-03-15 12:30:00 BC", "2020-01-01 00:00:00+00", "23:59:59.5"),
    ("0001-12-31 BC", "0001-01-01 00:00:00", "9999-12-31 23:59:59+00", "12:00:00"),
    ("10000-02-29", "12345-06-07 08:09:10.111213", "0001-01-01 00:00:00+00", "01:02:03"),
]


def test_times_without_end_and_of_any_year_are_captured_and_written(
    server: PostgresServer, database: Any
) -> None:
    columns = "id int PRIMARY KEY, d date, ts timestamp, tz timestamptz, t time"
    database.execute(f"CREATE TABLE t ({columns})")
    database.execute(f"CREATE TABLE copied ({columns})")
    for number, each in enumerate(FAR_TIMES):
        database.execute("INSERT INTO t VALUES (%s, %s, %s, %s, %s)", (number, *each))
    capture = Capture(server, **{"table.include.list": "public.t"})
    records = capture.everything()
    for number, each in enumerate(records):
        assert each.value_schema is not None
        s.check_value(each.value_schema, each.value)
        each.offset, each.partition = number, 0
    config = {"connection.url": server.url, "table.name.format": "copied"}
    assert write_sink(PostgresSink, config, records) == []
    both = [
        database.execute(
            f"SELECT id, d::text, ts::text, tz::text, t::text FROM {name} ORDER BY id"
        ).fetchall()
        for name in ("t", "copied")
    ]
    assert both[0] == both[1]
    (after, *_) = (each.value["after"] for each in records)
    assert (after["d"], after["ts"], after["tz"]) == (2**31 - 1, 9_223_372_036_825_200_000, "infinity")
    database.execute("INSERT INTO t VALUES (9, NULL, NULL, '294247-01-01 23:59:59.999999+00', NULL)")
    database.execute("INSERT INTO t VALUES (10, NULL, NULL, '4713-11-24 00:00:00+00 BC', NULL)")
    far = [each.value["after"]["tz"] for each in capture.everything()]
    assert far == ["+294247-01-01T23:59:59.999999Z", "-4712-11-24T00:00:00.000000Z"]


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "queried"])
def test_a_batch_is_the_same_after_a_restart_and_the_slot_advances_after_it(
    server: PostgresServer, database: Any, streams: bool
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    config = cdc_config(server)
    capture = Capture(server, **{"table.include.list": "public.t"})
    capture.reader._can_stream = streams
    capture.everything()
    with database.transaction():
        for number in range(50):
            database.execute("INSERT INTO t VALUES (%s, 0)", (number,))
    start = end = capture.offset
    while end == start:
        end = capture.reader.latest(start)
    records = [each for part in capture.reader.plan(start, end) for each in capture.reader.read(part)]
    capture.reader._end_stream()
    again: Any = PostgresCdcSource("cdc", config).reader(config)
    again._can_stream = streams
    replayed = [each for part in again.plan(start, end) for each in again.read(part)]
    assert [each.value for each in replayed] == [each.value for each in records]
    assert [each.key["id"] for each in records] == list(range(50))
    database.execute("UPDATE t SET v = 1 WHERE id = 7")
    held = "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots"
    before = database.execute(held).fetchone()[0]
    again.commit(end)
    assert database.execute(held).fetchone()[0] > before
    database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ottla-connect'"
    )
    following = end
    while following == end:
        following = again.latest(end)
    later = [each for part in again.plan(end, following) for each in again.read(part)]
    assert [(each.key["id"], each.value["op"]) for each in later] == [(7, "u")]
    # Spark asks for the next batch before it calls commit: the slot must not send the last one again.
    again.latest(following)
    wait_until(lambda: one(database, held) >= next(iter(following.values()))["lsn"], "the slot to advance")


def test_the_key_of_a_whole_row_is_the_primary_key(server: PostgresServer, database: Any) -> None:
    database.execute("CREATE TABLE t (a int, id int, v int, PRIMARY KEY (id, a))")
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute("CREATE TABLE gone (id int PRIMARY KEY)")
    database.execute("ALTER TABLE gone REPLICA IDENTITY FULL")
    capture = Capture(server)
    capture.everything()
    database.execute("INSERT INTO t VALUES (1, 2, 3)")
    database.execute("UPDATE t SET v = 4")
    database.execute("INSERT INTO gone VALUES (1)")
    database.execute("DROP TABLE gone")
    found = [(each.key, each.value["op"]) for each in capture.everything()]
    assert found[:2] == [({"a": 1, "id": 2}, "c"), ({"a": 1, "id": 2}, "u")]


def test_what_has_been_sent_is_read_at_once(server: PostgresServer, database: Any) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    capture = Capture(server, **{"table.include.list": "public.t"})
    capture.everything()
    database.execute("INSERT INTO t SELECT g, repeat('x', 200) FROM generate_series(1, 20000) g")
    calls, records = 0, []
    while not records:
        records, calls = capture.batch(), calls + 1
    assert len(records) == 20_000
    assert calls < 100


def test_a_slot_is_waited_for_until_an_earlier_stream_has_ended(
    server: PostgresServer, database: Any
) -> None:
    """After kill -9 of a worker, PostgreSQL's process for its stream lives for a moment."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    killed = Capture(server, **{"table.include.list": "public.t"})
    killed.everything()
    database.execute("INSERT INTO t VALUES (1)")
    restarted = Capture(server, **{"table.include.list": "public.t"})
    restarted.offset = killed.offset
    end = threading.Timer(0.3, killed.reader._end_stream)
    end.start()
    assert [each.key["id"] for each in restarted.everything()] == [1]
    assert restarted.reader._can_stream
    end.join()


def test_an_ended_stream_continues_at_its_position(server: PostgresServer, database: Any) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    capture = Capture(server, **{"table.include.list": "public.t"})
    capture.everything()
    seen = []
    for number in range(3):
        database.execute("INSERT INTO t VALUES (%s, 0)", (number,))
        database.execute("UPDATE t SET v = 1 WHERE id = %s", (number,))
        seen += [(each.key["id"], each.value["op"]) for each in capture.everything()]
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ottla-connect'"
        )
    assert seen == [(number, op) for number in range(3) for op in "cu"]
    assert capture.reader._can_stream


def test_a_server_without_senders_is_queried(
    server: PostgresServer,
    database: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(*_: Any) -> None:
        raise CannotStream("max_wal_senders")

    monkeypatch.setattr(postgres_cdc, "ChangeStream", refuse)
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    capture = Capture(server, **{"table.include.list": "public.t"})
    database.execute("INSERT INTO t VALUES (1)")
    assert [each.key["id"] for each in capture.everything()] == [1]
    assert "is read with queries, not streamed" in caplog.text


def test_a_slot_that_holds_much_of_the_log_is_an_alarm(server: PostgresServer, database: Any) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    config = cdc_config(server, **{"wal.retention.alarm.bytes": "100000"})
    assert PostgresCdcSource("cdc", config).alarms() == []
    Capture(server).everything()
    database.execute("INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 5000) g")
    (alarm,) = PostgresCdcSource("cdc", config).alarms()
    assert "run the connector, or drop the slot" in alarm


def test_what_a_snapshot_shows() -> None:
    snapshot = "100:110:101,105"
    assert [is_visible(snapshot, each) for each in (99, 100, 101, 104, 105, 109, 110, 111)] == [
        True,
        True,
        False,
        True,
        False,
        True,
        False,
        False,
    ]
    wrapped = f"{(1 << 32) + 5}:{(1 << 32) + 9}:"
    assert is_visible(wrapped, 4294967290)
    assert is_visible(wrapped, 6)
    assert not is_visible(wrapped, 9)
