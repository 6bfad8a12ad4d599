"""Debezium in Kafka Connect itself, with its topics here; and its events beside those of our own capture."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.integration.connect_stage import call
from tests.interop.fetch_jars import DEBEZIUM_JARS
from tests.interop.kafka_connect import kafka_connect
from tests.postgres_server import PostgresServer, postgres_server
from tests.waiting import wait_until

from ottla.client import Consumer, TopicPartition
from ottla.connect.connectors.postgres_cdc import PostgresCdcSource
from ottla.connect.engine.pipeline import Pipeline
from ottla.connect.engine.source_stream import source_batches
from ottla.connect.engine.spec import TaskSpec
from ottla.testing.local_broker import OttlaBroker

TABLE = """CREATE TABLE items (
    id int PRIMARY KEY, name varchar(40) NOT NULL, price numeric(12,3), free numeric, small smallint,
    big bigint, ok boolean, f real, d double precision, data bytea, day date, t time, at timestamp,
    zoned timestamptz, u uuid, j jsonb)"""
ROW = """(%s, 'n', 1.250, 12.5, 3, 4, true, 1.5, 2.5, '\\x0102', '2020-01-02', '10:11:12.5',
    '2020-01-02 03:04:05.678', '2020-01-02 03:04:05+02', '00000000-0000-0000-0000-000000000001',
    '{"a": 1}')"""
CHANGES = (
    f"INSERT INTO items VALUES {ROW % 3}",
    "INSERT INTO items (id, name) VALUES (4, 'nulls')",
    "UPDATE items SET price = price + 1 WHERE id = 1",
    "UPDATE items SET id = 5 WHERE id = 2",
    "DELETE FROM items WHERE id = 3",
    "ALTER TABLE items REPLICA IDENTITY FULL",
    "UPDATE items SET name = 'whole' WHERE id = 1",
    "ALTER TABLE items ADD COLUMN more text",
    "UPDATE items SET more = 'x' WHERE id = 1",
    "DELETE FROM items WHERE id = 4",
)
EVENTS = 2 + 2 + 1 + 3 + 2 + 1 + 1 + 2
"""The snapshot, inserts, an update, a changed key, a delete with its tombstone, and so on."""
JSON = {f"{each}.converter": "org.apache.kafka.connect.json.JsonConverter" for each in ("key", "value")}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


def _config(server: PostgresServer, name: str) -> dict[str, str]:
    return {
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "tester",
        "database.password": "",
        "database.dbname": "postgres",
        "topic.prefix": "shop",
        "table.include.list": "public.items",
        "slot.name": name,
        "publication.name": name,
        **JSON,
    }


def _theirs(address: str) -> list[tuple[Any, Any]]:
    place = TopicPartition("shop.public.items", 0)
    with Consumer(address, enable_auto_commit=False) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        found: list[Any] = []

        def has_all() -> bool:
            for records in consumer.getmany(timeout_ms=200).values():
                found.extend(records)
            return len(found) >= EVENTS

        wait_until(has_all, "Debezium's events", 120)
    return [(_parsed(each.key), _parsed(each.value)) for each in found]


def _parsed(data: bytes | None) -> Any:
    return None if data is None else json.loads(data)


class Ours:
    """Our capture, without Spark."""

    def __init__(self, config: dict[str, str]) -> None:
        self.spec = TaskSpec("ours", 0, 1, "source", "PostgresCdcSource", config)
        self.reader: Any = PostgresCdcSource("ours", config).reader(config)
        self.offset = self.reader.initial({})
        self.events: list[tuple[Any, Any]] = []

    def read(self) -> int:
        """Read a batch; return how many events there are now."""
        end = self.reader.latest(self.offset)
        pipeline = Pipeline.of(self.spec)
        for part in self.reader.plan(self.offset, end):
            for batch in source_batches(pipeline, self.reader, part):
                keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
                self.events += [
                    (_parsed(key), _parsed(value)) for key, value in zip(keys, values, strict=True)
                ]
        self.offset = end
        return len(self.events)


def test_debezium_runs_and_its_events_are_ours(server: PostgresServer, tmp_path: Path) -> None:
    if not DEBEZIUM_JARS.is_dir():
        pytest.skip(f"Debezium is not in {DEBEZIUM_JARS}; fetch it with: make interop")
    with psycopg.connect(server.url, autocommit=True) as database:
        database.execute(TABLE)
        database.execute(f"INSERT INTO items VALUES {ROW % 1}, {ROW % 2}")
        (tmp_path / "plugins").mkdir()
        (tmp_path / "plugins" / "debezium").symlink_to(DEBEZIUM_JARS)
        with (
            OttlaBroker() as broker,
            kafka_connect(broker.bootstrap_servers, tmp_path, f"plugin.path={tmp_path}/plugins") as (
                url,
                _,
            ),
        ):
            config = {
                "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
                "plugin.name": "pgoutput",
                **_config(server, "theirs"),
            }
            assert call(url, "PUT", "/connectors/shop/config", config).status == 201
            slot = "SELECT active FROM pg_replication_slots WHERE slot_name = 'theirs'"
            wait_until(lambda: database.execute(slot).fetchone() == (True,), "Debezium to stream", 120)
            ours = Ours(_config(server, "ours"))
            wait_until(lambda: ours.read() >= 2, "our snapshot")
            for each in CHANGES:
                database.execute(each)
            theirs = _theirs(broker.bootstrap_servers)
            wait_until(lambda: ours.read() >= EVENTS, "our changes")
    assert len(theirs) == len(ours.events) == EVENTS
    assert [_comparable(*each) for each in ours.events] == [_comparable(*each) for each in theirs]


def _comparable(key: Any, value: Any) -> Any:
    """Return the key, and of the value the rows, the types of their columns, and where they are from."""
    if value is None:
        return key, None
    row, payload = value["schema"]["fields"][1], value["payload"]
    columns = [(each["field"], each["type"], each.get("name")) for each in row["fields"]]
    source = [payload["source"][name] for name in ("connector", "name", "db", "schema", "table")]
    before = payload["before"]
    if before is not None:  # for what the log does not have, Debezium has the empty value of a type
        before = {name: each or None for name, each in before.items()}
    return key, columns, source, payload["op"], before, payload["after"]
