"""CPU seconds of each stage of PostgreSQL -> topic -> PostgreSQL, for 100,000 rows, without Spark and broker.

    python -m benchmarks.connect_stages --rows 100000

The same calls as in Spark's Python workers: the source reads, converts and makes Arrow batches, the sink
takes them apart, converts and writes. Needs PostgreSQL's packages; its own CPU seconds are given beside.
"""

from __future__ import annotations

import argparse
import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import psycopg
import pyarrow as pa
from tests.postgres_server import PostgresServer, postgres_server

from benchmarks.connect_cdc import DIGEST, SCHEMAS
from ottla.connect.connectors.postgres_cdc import PostgresCdcSource
from ottla.connect.connectors.postgres_sink import PostgresSink
from ottla.connect.engine.pipeline import Pipeline
from ottla.connect.engine.sink_batches import PartWriter
from ottla.connect.engine.source_stream import source_batches
from ottla.connect.engine.spec import TaskSpec
from ottla.connect.sdk import Batch


class Stages:
    """Runs stages, and says what they cost."""

    def __init__(self, server: PostgresServer, rows: int) -> None:
        self.server, self.rows = server, rows
        pid = int((server.data / "postmaster.pid").read_text().split()[0])
        self._server = psutil.Process(pid)

    def _server_cpu(self) -> float:
        total = 0.0
        for each in [self._server, *self._server.children()]:
            try:
                times = each.cpu_times()
            except psutil.Error:
                continue
            total += times.user + times.system
            if each is self._server:
                total += times.children_user + times.children_system
        return total

    def run(self, what: str, work: Callable[[], Any], rows: int) -> Any:
        """Run a stage, and print its CPU seconds."""
        server, cpu = self._server_cpu(), time.process_time()
        found = work()
        used, served = time.process_time() - cpu, self._server_cpu() - server
        each = 100_000 / rows
        print(f"{what:<40} {used * each:6.2f} CPU s, PostgreSQL {served * each:5.2f} CPU s per 100,000")
        return found


def topic_rows(batches: list[Any], first: int) -> Iterator[Any]:
    """Return what the source of a topic gives for batches that were written to it."""
    for batch in batches:
        count = batch.num_rows
        columns = {name: batch.column(name) for name in ("key", "value", "topic", "headers", "timestamp")}
        columns["partition"] = pa.array([0] * count, pa.int32())
        columns["offset"] = pa.array(range(first, first + count), pa.int64())
        first += count
        yield pa.RecordBatch.from_pydict(columns)


def measure(stages: Stages, transactions: int) -> None:
    """Run all stages."""
    server, rows = stages.server, stages.rows
    config = {
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "tester",
        "database.dbname": "postgres",
        "topic.prefix": "shop",
        "table.include.list": "public.items",
        "max.batch.size": "10000000",
        **SCHEMAS,
    }
    spec = TaskSpec("items", 0, 1, "source", "PostgresCdcSource", config)
    reader = PostgresCdcSource("items", config).reader(config)

    def batches_of(parts: Any) -> list[Any]:
        pipeline = Pipeline.of(spec)
        return [batch for part in parts for batch in source_batches(pipeline, reader, part)]

    start = reader.initial({})
    snapshot: list[Any] = []
    while next(iter(start.values())).get("snapshot"):
        end = reader.latest(start)
        parts = reader.plan(start, end)
        if parts:
            snapshot += stages.run("snapshot: rows to Arrow", lambda: batches_of(parts), rows)  # noqa: B023
        start = end
    with psycopg.connect(server.url, autocommit=True) as database:
        for number in range(transactions):
            database.execute(
                "UPDATE items SET price = price + 1, at = clock_timestamp() WHERE id > %s AND id <= %s",
                (rows * number // transactions, rows * (number + 1) // transactions),
            )
    plans: list[Any] = []

    def read_log() -> None:
        nonlocal start
        quiet = 0
        while quiet < 30:
            end = reader.latest(start)
            quiet = quiet + 1 if end == start else 0
            plans.append(pickle.dumps(reader.plan(start, end)))
            start = end

    stages.run("log: received from the slot, planned", read_log, rows)
    changes = stages.run(
        "log: messages to Arrow",
        lambda: [batch for each in plans for batch in batches_of(pickle.loads(each))],  # noqa: S301
        rows,
    )
    stages.run("log: advance the slot", lambda: reader.commit(start), rows)
    sizes = [batch.column("value").nbytes for batch in changes]
    print(f"bytes of a value: {sum(sizes) / sum(batch.num_rows for batch in changes):,.0f}")
    _sink(stages, snapshot, changes)


def _sink(stages: Stages, snapshot: list[Any], changes: list[Any]) -> None:
    server, rows = stages.server, stages.rows
    config = {
        "topics": "shop.public.items",
        "connection.url": server.url,
        "table.name.format": "mirrored",
        "auto.create": "true",
        "auto.evolve": "true",
        **SCHEMAS,
    }
    spec = TaskSpec("mirror", 0, 1, "sink", "PostgresSink", config)
    writer = PostgresSink("mirror", config).writer(config)
    first = 0
    for number, (what, batches) in enumerate((("snapshot", snapshot), ("changes", changes))):
        batch = Batch("mirror/0", number, "mirror", 0)
        writer.prepare(batch)
        pieces = list(topic_rows(batches, first))
        first += sum(each.num_rows for each in pieces)
        work = PartWriter(spec.to_json(), writer, batch)
        stages.run(f"sink: {what} to PostgreSQL", lambda: list(work.write(iter(pieces))), rows)  # noqa: B023
    with psycopg.connect(server.url) as database:
        one, two = (database.execute(DIGEST.format(each)).fetchone() for each in ("items", "mirrored"))
    print("the same rows" if one == two else f"NOT the same rows: {one} {two}")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--transactions", type=int, default=100)
    chosen = parser.parse_args()
    with postgres_server() as server:
        with psycopg.connect(server.url, autocommit=True) as database:
            database.execute(
                "CREATE TABLE items (id int PRIMARY KEY, name text, price numeric(12,3), at timestamp)"
            )
            database.execute(
                "INSERT INTO items SELECT g, 'name of ' || g, g / 7.0, now() FROM generate_series(1, %s) g",
                (chosen.rows,),
            )
        measure(Stages(server, chosen.rows), chosen.transactions)


if __name__ == "__main__":
    main()
