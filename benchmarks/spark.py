"""Spark on topics: our format beside Spark's own connector, on the same topics, with the same jobs.

    python -m benchmarks.spark                              # all of it
    python -m benchmarks.spark --only source                # one part: source, ottla or kafka
    python -m benchmarks.spark --parts read,copy --rounds 3 # some jobs, in turns, with ranges

The jobs: read a topic as a table; copy a topic; parse JSON, filter, count by window and write back; small
batches of 1,000 rows and of one, and Spark's own floor for them (spark_floor.py). CPU seconds are those of
the JVM, of all Python processes around it, and of what they start; the broker's are apart. `kafka` needs the
jars of `make interop`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.console import Console
from rich.table import Table
from tests.interop.fetch_jars import CONNECTOR_JARS

from benchmarks.measure import machine
from benchmarks.spark_job import PARTS, SINGLE_ROWS, SMALL_BATCHES
from ottla.testing.broker_process import BrokerProcess

PARTITIONS = 4
LARGE, SMALL, TINY = 1_000_000, 200_000, 1_000
RECORD_BYTES = 200
BEGAN_MS = 1_700_000_000_000
SETTINGS = {"transaction.two.phase.commit.enable": "true", "log.retention.ms": "-1"}
JOB_WITHIN_S = 600

console = Console(width=110)

ROWS = (
    ("read_cpu_s_per_million", "read: CPU s per million rows", "{:.2f}"),
    ("read_rows_per_s", "read: rows/s", "{:,.0f}"),
    ("copy_rows_per_cpu_s", "copy: rows per CPU s", "{:,.0f}"),
    ("copy_rows_per_s", "copy: rows/s", "{:,.0f}"),
    ("copy_jvm_cpu_s_per_million", "copy: JVM, CPU s per million rows", "{:.2f}"),
    ("copy_python_cpu_s_per_million", "copy: Python, CPU s per million rows", "{:.2f}"),
    ("copy_plain_rows_per_cpu_s", "copy at least once: rows per CPU s", "{:,.0f}"),
    ("copy_plain_rows_per_s", "copy at least once: rows/s", "{:,.0f}"),
    ("whole_rows_per_s", "windowed count: rows/s", "{:,.0f}"),
    ("whole_jvm_cpu_s_per_million", "windowed count: JVM, CPU s per million rows", "{:.2f}"),
    ("whole_python_cpu_s_per_million", "windowed count: Python, CPU s per million rows", "{:.2f}"),
    ("micro_batch_ms", "1,000 rows source to sink: batch, ms", "{:.0f}"),
    ("micro_round_ms", "the same from sending to reported, ms", "{:.0f}"),
    ("single_batch_ms", "1 row source to sink: batch, ms", "{:.0f}"),
    ("single_round_ms", "the same from sending to reported, ms", "{:.0f}"),
    ("single_cpu_ms", "the same: CPU ms", "{:.0f}"),
    ("floor_python_ms", "Spark's floor: Python source and sink that do nothing, 1 row, ms", "{:.0f}"),
    ("floor_jvm_ms", "Spark's floor: no Python, 1 row, ms", "{:.0f}"),
    ("broker_cpu_s", "broker, CPU s in all", "{:.2f}"),
    ("session_s", "start to a session, s", "{:.1f}"),
    ("first_batch_s", "start to first committed batch, s", "{:.1f}"),
    ("first_batch_cpu_s", "the same: CPU s", "{:.1f}"),
)
Run = dict[str, Any]


def main() -> None:
    """Run what was asked for, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--only", choices=("source", "ottla", "kafka"))
    parser.add_argument("--records", type=int, default=LARGE)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--parts", default=",".join(PARTS), help="which jobs")
    parser.add_argument("--only-latency", action="store_true", help="small batches and start-up only")
    options = parser.parse_args()
    parts = f"{SMALL_BATCHES},{SINGLE_ROWS}" if options.only_latency else options.parts
    console.print(f"machine: {machine()}")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
        root = Path(folder)
        with BrokerProcess(root / "data", settings=SETTINGS) as broker:
            fill(broker.address, options.records, options.rounds)
            if options.only in (None, "source"):
                source_table(broker.address, options.records)
            connectors = [options.only] if options.only in ("ottla", "kafka") else ["ottla", "kafka"]
            if options.only == "source":
                return
            seen: dict[str, list[Run]] = {each: [] for each in connectors if has(each)}
            for number in range(options.rounds):
                for connector in seen:
                    seen[connector].append(run_connector(connector, broker, root, parts, number))
            connectors_table(seen)


def has(connector: str) -> bool:
    """Return whether a connector is there; say so if not."""
    if connector == "kafka" and not CONNECTOR_JARS.is_dir():
        console.print("no kafka: Spark's connector comes with `make interop`")
        return False
    return True


def fill(bootstrap: str, records: int, rounds: int = 1) -> None:
    """Create the topics and their records."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    sizes = {"bench-large": records, "bench-small": min(SMALL, records), "bench-tiny": TINY}
    names = [*sizes, "out-ottla", "out-kafka"]
    for connector in ("ottla", "kafka"):
        names += [f"{size}-{connector}-{number}" for size in ("micro", "single") for number in range(rounds)]
    for created in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        created.result(30)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 2_000_000}
    )
    for topic, count in sizes.items():
        for number in range(count):
            producer.produce(topic, value_of(number), str(number), number % PARTITIONS)
            producer.poll(0)
        assert producer.flush(120) == 0


def value_of(number: int) -> bytes:
    """Return JSON of 200 bytes; event time advances by a millisecond."""
    start = b'{"n":%d,"at":%d,"kind":%d,"text":"' % (number, BEGAN_MS + number, number % 10)
    return start.ljust(RECORD_BYTES - 2, b"x") + b'"}'


def run_connector(connector: str, broker: BrokerProcess, root: Path, parts: str, number: int) -> Run:
    """Measure one connector in a driver of its own."""
    checkpoints = root / f"checkpoints-{connector}-{number}"
    began, cpu = time.time(), broker.cpu_seconds()
    command = [sys.executable, "-m", "benchmarks.spark_job", "--connector", connector]
    command += ["--bootstrap", broker.address, "--parts", parts, "--round", str(number)]
    command += ["--checkpoints", str(checkpoints), "--began", str(began)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=JOB_WITHIN_S, env=os.environ)
    if done.returncode:
        raise SystemExit(f"{connector} failed:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
    seen: Run = json.loads(done.stdout.splitlines()[-1])
    console.print(f"{connector}: {json.dumps(seen)}", soft_wrap=True)
    return seen | {"broker_cpu_s": broker.cpu_seconds() - cpu, **sums(seen)}


def sums(seen: Run) -> Run:
    """Return CPU time of the JVM and of Python together."""
    found = {}
    for part, unit in (("read", "cpu_s_per_million"), ("single", "cpu_ms"), ("micro", "cpu_ms")):
        if f"{part}_jvm_{unit}" in seen:
            found[f"{part}_{unit}"] = seen[f"{part}_jvm_{unit}"] + seen[f"{part}_python_{unit}"]
    return found


def connectors_table(seen: dict[str, list[Run]]) -> None:
    """Print one column for each connector: the median, and the range of several rounds."""
    table = Table("what", title=f"{RECORD_BYTES}-byte records, {PARTITIONS} partitions")
    for connector in seen:
        table.add_column({"ottla": "ottla", "kafka": "Spark's connector"}[connector], justify="right")
    for key, what, form in ROWS:
        if any(key in run for runs in seen.values() for run in runs):
            table.add_row(
                what, *(cell([run[key] for run in runs if key in run], form) for runs in seen.values())
            )
    console.print(table)


def cell(figures: list[float], form: str) -> str:
    """Return the median and the range."""
    if not figures:
        return ""
    middle = form.format(median(figures))
    if len(figures) == 1:
        return middle
    return f"{middle} ({form.format(min(figures))} to {form.format(max(figures))})"


def source_table(bootstrap: str, records: int) -> None:
    """The source alone, without a JVM: from the socket to Arrow record batches, in one process."""
    table = Table("columns", title=f"source to Arrow, {RECORD_BYTES}-byte records, one process, no JVM")
    for head in ("rows", "rows/s", "rows/s per core"):
        table.add_column(head, justify="right")
    for columns in ("", "key,value", "value"):
        rows, wall_s, cpu_s = read_source(bootstrap, columns)
        assert rows == records
        table.add_row(columns or "all", f"{rows:,}", f"{rows / wall_s:,.0f}", f"{rows / cpu_s:,.0f}")
    console.print(table)


def read_source(bootstrap: str, columns: str) -> tuple[int, float, float]:
    """Return the rows, and the wall and CPU seconds that it took to read them."""
    from ottla.spark.data_source import OttlaSource

    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "bench-large"}
    if columns:
        options["columns"] = columns
    reader: Any = OttlaSource(options).reader(None)
    tasks = reader.partitions()
    next(iter(reader.read(tasks[0])))  # connected and imported
    wall, cpu = time.perf_counter(), time.process_time()
    rows = sum(batch.num_rows for task in tasks for batch in reader.read(task))
    return rows, time.perf_counter() - wall, time.process_time() - cpu


if __name__ == "__main__":
    main()
