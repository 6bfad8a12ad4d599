"""Rows of a topic to PostgreSQL, by Debezium's JDBC sink in Kafka Connect and by ours, in turns.

    python -m benchmarks.connect_tables --rows 500000 --rounds 2

Both upsert JSON with schemas by the record's key. CPU seconds are those of the worker's processes (JVM,
engine, Python workers) from the creation of the connector until all rows are in the table; those of the
broker and of PostgreSQL are not counted. The first round starts Spark, later ones do not. Needs Kafka's and
Debezium's jars (make interop), and PostgreSQL's packages.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psycopg
from tests.integration.connect_stage import call
from tests.interop.connect_worker import WorkerProcess
from tests.interop.fetch_jars import DEBEZIUM_JARS
from tests.interop.kafka_connect import kafka_connect
from tests.postgres_server import postgres_server

from benchmarks.connect_cdc import SCHEMAS, cpu_seconds
from ottla.client import Producer
from ottla.testing.broker_process import BrokerProcess

WITHIN_S = 600.0
TOPIC = "rows"
FIELDS = {"id": "int32", "name": "string", "price": "double", "at": "int64", "ok": "boolean"}
DIGEST = "SELECT count(*), md5(string_agg(concat_ws(',', id, name, price, at, ok), ';' ORDER BY id)) FROM {}"


def schema(*names: str) -> dict[str, object]:
    """Return the schema of some fields."""
    fields = [{"field": name, "type": FIELDS[name], "optional": False} for name in names]
    return {"type": "struct", "fields": fields, "optional": False}


def fill(bootstrap: str, rows: int) -> None:
    """Write the rows."""
    keys, values = json.dumps(schema("id")), json.dumps(schema(*FIELDS))
    with Producer(bootstrap) as producer:
        for number in range(rows):
            row = {"id": number, "name": f"n{number}", "price": number / 8, "at": number * 7, "ok": True}
            producer.send(
                TOPIC,
                f'{{"schema":{values},"payload":{json.dumps(row)}}}'.encode(),
                key=f'{{"schema":{keys},"payload":{{"id":{number}}}}}'.encode(),
                partition=0,
            )


def measure(what: str, worker: tuple[str, int], database: str, config: dict[str, str], rows: int) -> float:
    """Copy the topic to a new table; return the CPU seconds."""
    url, pid = worker
    began, cpu = time.monotonic(), cpu_seconds(pid)
    answer = call(url, "PUT", f"/connectors/{what}/config", {**config, **SCHEMAS, "topics": TOPIC})
    if answer.status != 201:
        raise SystemExit(f"{what}: {answer}")
    found = 0
    while found < rows:
        tasks = call(url, "GET", f"/connectors/{what}/status").body.get("tasks", ())
        failed = [each["trace"] for each in tasks if each["state"] == "FAILED"]
        if failed or time.monotonic() - began > WITHIN_S:
            raise SystemExit(f"{what}: {found} rows; {failed}")
        time.sleep(0.2)
        with suppress(psycopg.Error), psycopg.connect(database) as connection:
            row = connection.execute(f"SELECT count(*) FROM {what}").fetchone()
            found = row[0] if row is not None else 0
    took, used = time.monotonic() - began, cpu_seconds(pid) - cpu
    call(url, "DELETE", f"/connectors/{what}")
    print(
        f"{what}: {rows:,} rows in {took:.1f} s, {used:.1f} CPU s: {rows / used:,.0f} rows per CPU second",
        flush=True,
    )
    return used


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=2)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-tables-") as name, postgres_server() as server:
        folder = Path(name)
        (folder / "plugins" / "debezium").mkdir(parents=True)
        for each in DEBEZIUM_JARS.glob("*.jar"):
            if not each.name.startswith("jackson-"):  # Kafka's own find modules that do not fit these
                (folder / "plugins" / "debezium" / each.name).symlink_to(each)
        with (
            BrokerProcess(folder / "broker") as broker,
            kafka_connect(broker.address, folder, f"plugin.path={folder}/plugins", java=()) as java,
            WorkerProcess(broker.address, folder) as worker,
        ):
            assert worker.process is not None
            fill(broker.address, chosen.rows)
            for number in range(chosen.rounds):
                theirs = {
                    "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
                    "connection.url": f"jdbc:postgresql://127.0.0.1:{server.port}/postgres",
                    "connection.username": "tester",
                    "connection.password": "none",
                    "insert.mode": "upsert",
                    "primary.key.mode": "record_key",
                    "schema.evolution": "basic",
                    "collection.name.format": f"theirs_{number}",
                }
                ours = {
                    "connector.class": "PostgresSink",
                    "connection.url": server.url,
                    "table.name.format": f"ours_{number}",
                    "auto.create": "true",
                }
                their_cpu = measure(f"theirs_{number}", java, server.url, theirs, chosen.rows)
                here = (worker.url, worker.process.pid)
                our_cpu = measure(f"ours_{number}", here, server.url, ours, chosen.rows)
                with psycopg.connect(server.url) as database:
                    one, two = (
                        database.execute(DIGEST.format(f"{each}_{number}")).fetchone()
                        for each in ("theirs", "ours")
                    )
                print(f"{'the same rows' if one == two else f'NOT the same rows: {one} {two}'}", flush=True)
                print(f"rows per CPU second beside Debezium's sink: {their_cpu / our_cpu:.2f}", flush=True)
            worker.stop()


if __name__ == "__main__":
    main()
