"""Kill processes of Connect at random, and count what is lost and what is doubled.

    python -m benchmarks.connect_kills --minutes 10 --seed 1

Three lines run at once: datagen -> topic -> JSON files, a file that grows -> topic -> PostgreSQL (insert),
and PostgreSQL's changes -> topic -> mirror table. Every few seconds one of these gets SIGKILL: the worker,
its engine, Spark's JVM, a Python worker of Spark, the broker, PostgreSQL. At the end everything must have
arrived, once. Needs PostgreSQL's packages.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from tests.integration.connect_stage import call
from tests.interop.connect_worker import WorkerProcess
from tests.postgres_server import PostgresServer, postgres_server

from benchmarks.connect_cdc import DIGEST, SCHEMAS
from ottla.client import Consumer, TopicPartition
from ottla.testing.broker_process import BrokerProcess

WITHIN_S = 900.0
RATE = 50


class Input(threading.Thread):
    """Appends lines to a file, and changes rows, until it is stopped."""

    def __init__(self, url: str, lines: Path) -> None:
        super().__init__(daemon=True)
        self.url, self.lines, self.stopped = url, lines, threading.Event()
        self.written = 0

    def run(self) -> None:
        """Write; PostgreSQL may go away meanwhile."""
        number = 10_000
        while not self.stopped.wait(0.2):
            with self.lines.open("a") as file:
                for _ in range(10):
                    file.write(json.dumps({"n": self.written}) + "\n")
                    self.written += 1
            with suppress(psycopg.Error), psycopg.connect(self.url, connect_timeout=2) as database:
                number += 1
                database.execute("INSERT INTO items VALUES (%s, %s, %s)", (number, f"n{number}", number / 8))
                database.execute("UPDATE items SET price = price + 1 WHERE id % 97 = %s", (number % 97,))
                database.execute("DELETE FROM items WHERE id = %s", (number - 50,))


class Run:
    """Everything that runs."""

    def __init__(self, server: PostgresServer, broker: BrokerProcess, worker: WorkerProcess, folder: Path):
        self.server, self.broker, self.worker, self.folder = server, broker, worker, folder
        self.kills: Counter[str] = Counter()

    def create(self) -> None:
        """Create the connectors."""
        plain = {
            f"{each}.converter": "org.apache.kafka.connect.json.JsonConverter" for each in ("key", "value")
        }
        plain |= {f"{each}.converter.schemas.enable": "false" for each in ("key", "value")}
        cdc = {
            "connector.class": "PostgresCdcSource",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.server.port),
            "database.user": "tester",
            "database.dbname": "postgres",
            "topic.prefix": "shop",
            "table.include.list": "public.items",
        }
        mirror = {
            "connector.class": "PostgresSink",
            "topics": "shop.public.items",
            "connection.url": self.server.url,
            "table.name.format": "mirrored",
            "auto.create": "true",
        }
        lines = {
            "connector.class": "FileSource",
            "file": str(self.folder / "lines.jsonl"),
            "topic": "lines",
            "format": "jsonl",
        }
        table = {
            "connector.class": "PostgresSink",
            "topics": "lines",
            "connection.url": self.server.url,
            "table.name.format": "lines",
            "insert.mode": "insert",
            "pk.mode": "none",
        }
        orders = {"connector.class": "DatagenSource", "topic": "orders", "rate": str(RATE)}
        files = {
            "connector.class": "FileSink",
            "topics": "orders",
            "path": str(self.folder / "out"),
            "batch.interval.ms": "1000",
        }
        for name, config in (
            ("cdc", cdc | SCHEMAS),
            ("mirror", mirror | SCHEMAS),
            ("lines", lines | plain),
            ("table", table | plain),
            ("orders", orders | plain),
            ("files", files | plain),
        ):
            answer = call(
                self.worker.url, "PUT", f"/connectors/{name}/config", {"task.restart.max": "1000", **config}
            )
            if answer.status != 201:
                raise SystemExit(f"{name}: {answer}")

    def kill(self, what: str) -> bool:
        """Kill one; return whether it was there."""
        if what == "worker":
            self.worker.kill()
            self.worker.start()
        elif what == "broker":
            self.broker.kill()
            self.broker.start()
        elif what == "PostgreSQL":
            self.server.kill()
            self.server.start()
        else:
            word = {"JVM": "SparkSubmit", "engine": "connect.engine.process", "Python worker": "daemon"}[what]
            found = self.worker.children(word)
            if not found:
                return False
            with suppress(ProcessLookupError):
                os.kill(random.choice(found), signal.SIGKILL)
        self.kills[what] += 1
        return True

    def count(self, query: str) -> Any:
        """Return the first column of the first row; None while PostgreSQL is not there."""
        with suppress(psycopg.Error), psycopg.connect(self.server.url) as database:
            row = database.execute(query).fetchone()
            return None if row is None else row[0]
        return None

    def orders(self) -> list[int]:
        """Return the numbers of the orders in the files."""
        found = []
        for each in (self.folder / "out").rglob("*.jsonl"):
            found += [json.loads(line)["order_id"] for line in each.read_text().splitlines()]
        return found

    def generated(self) -> int | None:
        """Return how many orders the source has generated by its offset; None while nobody can say."""
        with suppress(OSError, KeyError, ValueError, IndexError):
            found = call(self.worker.url, "GET", "/connectors/orders/offsets").body["offsets"]
            return int(found[0]["offset"]["count"])
        return None

    def in_topic(self) -> list[int]:
        """Return the numbers of the orders that the topic has."""
        found = []
        with Consumer(
            self.broker.address, isolation_level="read_committed", enable_auto_commit=False
        ) as consumer:
            numbers = [each.index for each in consumer.partitions_for_topic("orders")]
            places = [TopicPartition("orders", each) for each in numbers]
            consumer.assign(places)
            ends = consumer.end_offsets(places)
            consumer.seek_to_beginning(*places)
            while any(consumer.position(each) < ends[each] for each in places):
                polled = consumer.poll(1_000).values()
                found += [json.loads(each.value or b"")["order_id"] for records in polled for each in records]
        return found

    def is_same(self) -> bool:
        """Return whether the mirror has the same rows."""
        with suppress(psycopg.Error), psycopg.connect(self.server.url) as database:
            one, two = (database.execute(DIGEST.format(each)).fetchone() for each in ("items", "mirrored"))
            return bool(one == two)
        return False


def until(condition: Any, what: str) -> None:
    """Wait for a condition, or end with what is missing."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > WITHIN_S:
            print(f"NOT REACHED within {WITHIN_S:.0f} s: {what}", flush=True)
            return
        time.sleep(1)


def check(run: Run, source: Input) -> bool:
    """Wait until everything has arrived, and say what is missing and what is there twice."""
    call(run.worker.url, "PUT", "/connectors/orders/stop")
    until(lambda: (run.count("SELECT count(*) FROM lines") or 0) >= source.written, "lines in PostgreSQL")
    until(run.is_same, "the mirror")
    until(lambda: call(run.worker.url, "GET", "/connectors/orders/status").body["tasks"] == [], "the stop")
    until(lambda: run.generated() is not None, "the offset of the orders")
    generated = run.generated() or 0
    until(lambda: len(set(run.orders())) >= generated, "orders in files")
    time.sleep(15)  # what would come twice comes now
    lines = run.count("SELECT count(*) FROM lines")
    distinct = run.count("SELECT count(DISTINCT n) FROM lines")
    orders, in_topic = run.orders(), run.in_topic()
    whole = set(range(generated))
    print(f"kills: {dict(run.kills)}")
    print(f"lines: {source.written} written, {lines} rows, {distinct} different")
    print(f"orders: {generated} generated, {len(in_topic)} in the topic, {len(set(in_topic))} different")
    print(f"orders: {len(orders)} in files, {len(set(orders))} different, {len(whole - set(orders))} missing")
    print(f"mirror: {'the same' if run.is_same() else 'NOT the same'}", flush=True)
    return (
        lines == distinct == source.written
        and sorted(orders) == sorted(in_topic) == sorted(whole)
        and run.is_same()
    )


def main() -> None:
    """Run, kill and count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=20.0, help="seconds between two kills, at most")
    chosen = parser.parse_args()
    random.seed(chosen.seed)
    folder = Path(tempfile.mkdtemp(prefix="ottla-kills-"))
    print(f"data and logs: {folder}", flush=True)
    with (
        postgres_server() as server,
        BrokerProcess(folder / "broker") as broker,
        WorkerProcess(broker.address, folder) as worker,
    ):
        with psycopg.connect(server.url, autocommit=True) as database:
            database.execute("CREATE TABLE items (id int PRIMARY KEY, name text, price numeric(12,3))")
            database.execute("INSERT INTO items SELECT g, 'n' || g, g / 7.0 FROM generate_series(1, 5000) g")
            database.execute("CREATE TABLE lines (n int)")
        source = Input(server.url, folder / "lines.jsonl")
        run = Run(server, broker, worker, folder)
        source.start()
        run.create()
        until(lambda: run.count("SELECT count(*) FROM lines"), "the first lines")
        began = time.monotonic()
        while time.monotonic() - began < chosen.minutes * 60:
            time.sleep(random.uniform(0, chosen.pause))
            what = random.choice(["worker", "engine", "JVM", "Python worker", "broker", "PostgreSQL"])
            print(
                f"{time.monotonic() - began:6.1f} s: {what}{'' if run.kill(what) else ': none'}", flush=True
            )
        source.stopped.set()
        source.join()
        is_right = check(run, source)
        worker.stop()
    raise SystemExit(0 if is_right else 1)


if __name__ == "__main__":
    main()
