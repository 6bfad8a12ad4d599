"""Memory of a query with a million keys of state, over minutes: its JVM, its Python workers, and the broker.

    python -m benchmarks.spark_memory --minutes 20

Every key is counted forever, in RocksDB; each batch writes the counts that it has changed, exactly once.
First all keys come once; then records of random keys at a steady rate, while memory is sampled.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

import psutil  # type: ignore[import-untyped]
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.console import Console
from rich.table import Table
from tests.spark.fault_injection.checkpoint import Checkpoint
from tests.spark.fault_injection.sessions import session_for

from ottla.testing.broker_process import BrokerProcess

KEYS = 1_000_000
PARTITIONS = 4
SAMPLE_EVERY_S = 5.0
SETTINGS = {"transaction.two.phase.commit.enable": "true", "log.retention.bytes": "200000000"}
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
BEGUN_WITHIN_S = 900.0
HEAP = "heap"
"""The file in which the job says how many MB of its heap are in use."""
Sample = tuple[float, float, float, float, float, int]  # seconds, MB of heap, JVM, Python, broker, batches

console = Console(width=110)


def main() -> None:
    """Run the query, or (with --job) be it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_memory", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--per-second", type=int, default=2_000)
    parser.add_argument("--job", nargs=2, metavar=("BOOTSTRAP", "CHECKPOINT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        count_for_ever(*options.job)
    else:
        samples = measure(options.minutes * 60, options.per_second)
        show(samples)


def count_for_ever(bootstrap: str, checkpoint: str) -> None:
    """Count every key until somebody ends this."""
    settings = {
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        # The whole heap is there from the beginning: what grows then is not heap.
        "spark.driver.extraJavaOptions": "-Xms1g -XX:+AlwaysPreTouch",
    }
    spark = session_for("ottla", master="local[2]", **settings)
    source = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    source = source.option("subscribe", "keys").option("startingOffsets", "earliest")
    counts = source.option("maxOffsetsPerTrigger", 100_000).load().groupBy("key").count()

    def write(changed: Any, _: int) -> None:
        rows = changed.selectExpr("key", "CAST(count AS STRING) AS value")
        rows.write.format("ottla").option("kafka.bootstrap.servers", bootstrap).option(
            "topic", "counts"
        ).mode("append").save()

    query = counts.writeStream.outputMode("update").foreachBatch(write)
    started = query.option("checkpointLocation", checkpoint).start()
    runtime = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()
    while not started.awaitTermination(SAMPLE_EVERY_S):
        used = (runtime.totalMemory() - runtime.freeMemory()) / 1e6
        Path(checkpoint).with_name(HEAP).write_text(f"{used:.0f}")


def measure(seconds: float, per_second: int) -> list[Sample]:
    """Feed the query and sample memory, from the moment at which it knows all keys."""
    with (
        tempfile.TemporaryDirectory(prefix="ottla-memory-") as folder,
        BrokerProcess(Path(folder) / "data", settings=SETTINGS) as broker,
    ):
        producer = prepare(broker.address)
        checkpoint = Checkpoint(Path(folder) / "checkpoint")
        command = [sys.executable, "-m", "benchmarks.spark_memory"]
        command += ["--job", broker.address, str(checkpoint.folder)]
        with open(Path(folder) / "job.log", "wb") as log:
            job = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ)
        try:
            wait_for_all_keys(checkpoint, job, Path(folder) / "job.log")
            return sample(seconds, per_second, producer, broker, job, checkpoint)
        finally:
            family = psutil.Process(job.pid).children(recursive=True) if job.poll() is None else []
            job.kill()
            job.wait()
            for each in family:
                if each.is_running():
                    each.kill()


def prepare(bootstrap: str) -> Producer:
    """Create the topics, and send every key once."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics(
        [NewTopic(name, PARTITIONS, 1) for name in ("keys", "counts")]
    ).values():
        created.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 1_000_000})
    for number in range(KEYS):
        producer.produce("keys", b"", b"key-%07d" % number)
        producer.poll(0)
    producer.flush(120)
    return producer


def wait_for_all_keys(checkpoint: Checkpoint, job: subprocess.Popen[bytes], log: Path) -> None:
    """Return when every key is in the state."""
    deadline = time.monotonic() + BEGUN_WITHIN_S
    while sum(checkpoint.committed_offsets().get("keys", {}).values()) < KEYS:
        if job.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"the query did not read {KEYS:,} keys:\n{log.read_text()[-5000:]}")
        time.sleep(0.2)


def sample(
    seconds: float,
    per_second: int,
    producer: Producer,
    broker: BrokerProcess,
    job: subprocess.Popen[bytes],
    checkpoint: Checkpoint,
) -> list[Sample]:
    """Send records of random keys at a steady rate, and look at memory now and then."""
    chance = random.Random(1)
    samples: list[Sample] = []
    began = time.monotonic()
    sent = 0
    while (passed := time.monotonic() - began) < seconds:
        while sent < passed * per_second:
            producer.produce("keys", b"", b"key-%07d" % chance.randrange(KEYS))
            sent += 1
        producer.poll(0)
        if not samples or passed - samples[-1][0] >= SAMPLE_EVERY_S:
            jvm, python = resident_mb(job.pid)
            heap = float(checkpoint.folder.with_name(HEAP).read_text() or "0")
            samples.append((passed, heap, jvm, python, broker.rss_bytes() / 1e6, checkpoint.committed()))
        time.sleep(0.1)
    return samples


def resident_mb(pid: int) -> tuple[float, float]:
    """Return the resident memory of a driver's JVM, and of all its Python processes."""
    driver = psutil.Process(pid)
    jvm = python = 0.0
    for each in [driver, *driver.children(recursive=True)]:
        try:
            size = each.memory_info().rss / 1e6
            is_jvm = each.name() == "java"
        except psutil.NoSuchProcess:
            continue
        jvm, python = (jvm + size, python) if is_jvm else (jvm, python + size)
    return jvm, python


def show(samples: list[Sample], parts: int = 6) -> None:
    """Print the mean of each part of the run, one row each."""
    table = Table("minutes", title=f"{KEYS:,} keys of state: resident MB, and batches so far")
    for head in ("heap in use", "JVM", "Python", "broker", "batches"):
        table.add_column(head, justify="right")
    size = max(1, len(samples) // parts)
    for start in range(0, len(samples), size):
        part = samples[start : start + size]
        means = (f"{mean(each[column] for each in part):,.0f}" for column in (1, 2, 3, 4))
        table.add_row(f"{part[0][0] / 60:.1f} to {part[-1][0] / 60:.1f}", *means, str(part[-1][5]))
    console.print(table)


if __name__ == "__main__":
    main()
