"""PostgreSQL -> topics -> PostgreSQL and Parquet, on Spark, while everything is killed in turn."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.integration.connect_stage import call
from tests.interop.connect_worker import WorkerProcess
from tests.postgres_server import PostgresServer, postgres_server
from tests.waiting import wait_until

from ottla.testing.broker_process import BrokerProcess

pytestmark = pytest.mark.slow

WITHIN_S = 240.0


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


class Writer(threading.Thread):
    """Changes rows without an end: inserts, updates, deletes; PostgreSQL may go away meanwhile."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.stopped, self.changes = url, threading.Event(), 0

    def run(self) -> None:
        number = 10_000
        while not self.stopped.is_set():
            try:
                with psycopg.connect(self.url, autocommit=True, connect_timeout=2) as connection:
                    while not self.stopped.wait(0.05):
                        number += 1
                        connection.execute(
                            "INSERT INTO items (id, name, price) VALUES (%s, %s, %s)",
                            (number, f"n{number}", number / 8),
                        )
                        connection.execute("UPDATE items SET price = price + 1 WHERE id = %s", (number - 20,))
                        connection.execute("DELETE FROM items WHERE id = %s", (number - 50,))
                        self.changes += 3
            except psycopg.Error:
                self.stopped.wait(0.2)


TABLE = "SELECT id, name, price::text, at::text, extra FROM {} ORDER BY id"


@pytest.mark.timeout(1200)
def test_a_mirror_table_is_the_same_after_everything_was_killed(
    server: PostgresServer, tmp_path: Path
) -> None:
    with psycopg.connect(server.url, autocommit=True) as database:
        database.execute(
            "CREATE TABLE items (id int PRIMARY KEY, name text, price numeric(12,3), "
            "at timestamp DEFAULT '2020-01-02 03:04:05.678', extra int)"
        )
        database.execute("INSERT INTO items SELECT g, 'n' || g, g / 7.0 FROM generate_series(1, 2000) g")
    with BrokerProcess(tmp_path / "broker") as broker, WorkerProcess(broker.address, tmp_path) as worker:
        _run(server, broker, worker, tmp_path)


def _run(server: PostgresServer, broker: BrokerProcess, worker: WorkerProcess, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    _create(
        worker,
        "items",
        {
            "connector.class": "PostgresCdcSource",
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": "tester",
            "database.dbname": "postgres",
            "topic.prefix": "shop",
            "table.include.list": "public.items",
            "value.converter.schemas.enable": "true",
            "key.converter.schemas.enable": "true",
            **{
                f"{each}.converter": "org.apache.kafka.connect.json.JsonConverter"
                for each in ("key", "value")
            },
        },
    )
    schemas = {
        "value.converter.schemas.enable": "true",
        "key.converter.schemas.enable": "true",
        **{f"{each}.converter": "org.apache.kafka.connect.json.JsonConverter" for each in ("key", "value")},
    }
    _create(
        worker,
        "mirror",
        {
            "connector.class": "PostgresSink",
            "topics": "shop.public.items",
            "connection.url": server.url,
            "table.name.format": "mirrored",
            "auto.create": "true",
            "auto.evolve": "true",
            **schemas,
        },
    )
    writer = Writer(server.url)
    writer.start()
    wait_until(lambda: _count(server) >= 2000, "the snapshot", WITHIN_S)
    for step in (
        lambda: os.kill(worker.children("SparkSubmit")[0], signal.SIGKILL),
        lambda: (server.kill(), server.start()),
        lambda: os.kill(worker.children("ottla.connect.engine.process")[0], signal.SIGKILL),
        lambda: (broker.kill(), broker.start()),
        lambda: (worker.kill(), worker.start()),
    ):
        _progresses(server, writer)
        step()
    _progresses(server, writer)
    with psycopg.connect(server.url, autocommit=True) as database:
        database.execute("ALTER TABLE items ADD COLUMN more text")
        database.execute("UPDATE items SET more = 'x' WHERE id <= 10")
    writer.stopped.set()
    writer.join()
    wait_until(lambda: _same(server), "the mirror to be the same", WITHIN_S)
    with psycopg.connect(server.url) as database:
        assert database.execute("SELECT count(*) FROM mirrored WHERE more = 'x'").fetchone() == (10,)
    # The tutorial's end: the topic as Parquet files, each record in exactly one of them.
    _create(
        worker,
        "files",
        {
            "connector.class": "FileSink",
            "topics": "shop.public.items",
            "path": str(tmp_path / "out"),
            "format": "parquet",
            "batch.interval.ms": "500",
            **schemas,
            "transforms": "after",
            "transforms.after.type": "ExtractField$Value",
            "transforms.after.field": "after",
            "errors.tolerance": "all",
        },
    )

    def ids() -> set[int]:
        files = (tmp_path / "out").rglob("*.parquet")
        return {row["id"] for each in files for row in pq.read_table(each, columns=["id"]).to_pylist()}

    with psycopg.connect(server.url) as database:
        stored = {row[0] for row in database.execute("SELECT id FROM items").fetchall()}
    wait_until(lambda: ids() >= stored, "the files", WITHIN_S)
    worker.stop()


def _create(worker: WorkerProcess, name: str, config: dict[str, str]) -> None:
    answer = call(worker.url, "PUT", f"/connectors/{name}/config", config)
    assert answer.status == 201, answer


def _count(server: PostgresServer) -> int:
    try:
        with psycopg.connect(server.url) as database:
            return int(database.execute("SELECT count(*) FROM mirrored").fetchone()[0])
    except psycopg.Error:
        return 0


def _newest(server: PostgresServer) -> int:
    with psycopg.connect(server.url) as database:
        return int(database.execute("SELECT coalesce(max(id), 0) FROM mirrored").fetchone()[0])


def _progresses(server: PostgresServer, writer: Writer) -> None:
    """Wait until changes that are made from now on arrive."""
    wait_until(writer.is_alive, "the writer")
    with psycopg.connect(server.url) as database:
        now = int(database.execute("SELECT max(id) FROM items").fetchone()[0])
    wait_until(lambda: _newest(server) > now + 5, "changes to arrive", WITHIN_S)


def _same(server: PostgresServer) -> bool:
    with psycopg.connect(server.url) as database:
        one, two = (database.execute(TABLE.format(name)).fetchall() for name in ("items", "mirrored"))
    return bool(one == two)
