"""One connector, measured from inside a driver: `python -m benchmarks.spark_job --connector ottla ...`.

Prints one line of JSON. Both connectors run this same program on the same topics; only the format differs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil  # type: ignore[import-untyped]
from confluent_kafka import Producer
from tests.spark.fault_injection.checkpoint import Checkpoint
from tests.spark.fault_injection.sessions import session_for

from benchmarks.spark_floor import floors

MICRO_BATCHES = 100
MICRO_ROWS = 1_000
PARTITIONS = 4
PER_TRIGGER = 250_000
DEADLINE_S = 150.0
COPIES_TO_WARM_UP = 2
"""Java still compiles in the second copy: 1 CPU second per million rows less in the third."""
SCHEMA = "n BIGINT, at BIGINT, kind BIGINT"
PARTS = READ, COPY, WHOLE, SMALL_BATCHES, SINGLE_ROWS, FLOOR = (
    "read",
    "copy",
    "whole",
    "small",
    "single",
    "floor",
)


@dataclass(frozen=True)
class Variant:
    """What is to be different from the road as it is; for benchmarks.spark_measures."""

    conf: dict[str, str] = field(default_factory=dict)
    """Of the session."""
    source: dict[str, str] = field(default_factory=dict)
    """Options of the source of small batches."""
    batches: int = MICRO_BATCHES
    rows: int = MICRO_ROWS
    """Rows of a small batch."""
    is_spread: bool = False
    """Whether the rows of a small batch come from all partitions, not from one."""
    idle_s: float = 0.0
    """How long to watch the query while nothing is sent."""


def main() -> None:
    """Measure one connector and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connector", required=True, choices=("ottla", "kafka"))
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--began", type=float, required=True, help="time.time() when this was started")
    parser.add_argument("--only-latency", action="store_true", help="without the whole job")
    parser.add_argument("--parts", default=",".join(PARTS), help="what to measure after the first batch")
    parser.add_argument("--round", type=int, default=0, help="the topics of small batches are its own")
    parser.add_argument("--variant", type=json.loads, default={}, help=argparse.SUPPRESS)
    options = parser.parse_args()
    variant = Variant(**options.variant)
    spark = session_for(options.connector, master="local[2]", **variant.conf)
    session_s = time.time() - options.began
    connector = ConnectorRun(spark, options.connector, options.bootstrap, options.checkpoints, options.round)
    seen: dict[str, Any] = {"session_s": session_s, "first_batch_s": connector.first_batch() - options.began}
    spent = cpu_by_kind()
    seen |= {"first_batch_cpu_s": sum(spent.values()), "first_batch_python_cpu_s": spent["python"]}
    parts = {SMALL_BATCHES} if options.only_latency else set(options.parts.split(","))
    if READ in parts:
        connector.read_all("bench-large")
        seen |= named("read", connector.read_all("bench-large"))
    if COPY in parts:
        for number in range(COPIES_TO_WARM_UP):
            connector.copy_all(f"copy-warm-up-{number}", "bench-large")
        seen |= named("copy", connector.copy_all("copy", "bench-large"))
        if options.connector == "ottla":  # what exactly-once costs; Spark's connector does not have it
            plain = connector.copy_all("copy-plain", "bench-large", deliveryGuarantee="at-least-once")
            seen |= named("copy_plain", plain)
    if WHOLE in parts:
        connector.whole_job("warm-up", "bench-small")
        seen |= named("whole", connector.whole_job("whole", "bench-large"))
    if SMALL_BATCHES in parts:
        seen |= named("micro", connector.micro_batches(variant))
    if SINGLE_ROWS in parts:
        seen |= named("single", connector.micro_batches(replace(variant, rows=1), "single"))
    if FLOOR in parts:
        seen |= floors(spark, options.checkpoints)
    print(json.dumps(seen), flush=True)
    spark.stop()


class ConnectorRun:
    """A format, and what it is asked to do."""

    def __init__(self, spark: Any, connector: str, bootstrap: str, checkpoints: Path, number: int) -> None:
        self.spark = spark
        self.connector = connector
        self.bootstrap = bootstrap
        self.checkpoints = checkpoints
        self.number = number

    def first_batch(self) -> float:
        """Return when the first batch of a copying query was committed."""
        name = "first"
        query = self._write(
            self._stream("bench-tiny").select("key", "value"), name, f"out-{self.connector}"
        ).start()
        self._wait(lambda: (self.checkpoints / name / "commits" / "0").exists(), query)
        committed = time.time()
        query.stop()
        return committed

    def read_all(self, topic: str) -> dict[str, float]:
        """Read a topic as a table, and look at every key and value."""
        made = self.spark.read.format(self.connector).option("kafka.bootstrap.servers", self.bootstrap)
        before, began = cpu_by_kind(), time.perf_counter()
        (found,) = (
            made.option("subscribe", topic)
            .load()
            .selectExpr("count(*) AS n", "sum(length(key) + length(value)) AS size", "max(offset)")
            .collect()
        )
        return spent_since(before, began, found.n)

    def copy_all(self, name: str, topic: str, **options: str) -> dict[str, float]:
        """Copy keys and values of a topic to another one."""
        rows = self._stream(topic, maxOffsetsPerTrigger=PER_TRIGGER).select("key", "value")
        return self._all(rows, name, **options)

    def whole_job(self, name: str, topic: str) -> dict[str, float]:
        """Parse, filter, count by window, write back: all that a topic holds."""
        return self._all(counted_by_window(self._stream(topic, maxOffsetsPerTrigger=PER_TRIGGER)), name)

    def _all(self, rows: Any, name: str, **options: str) -> dict[str, float]:
        """Run a query to the current end of its topic."""
        before, began = cpu_by_kind(), time.perf_counter()
        writing = self._write(rows, name, f"out-{self.connector}").options(**options)
        query = writing.trigger(availableNow=True).start()
        if not query.awaitTermination(DEADLINE_S):
            raise SystemExit(f"{self.connector}: {name} has not ended within {DEADLINE_S:g} s")
        return spent_since(before, began, sum(each.numInputRows for each in query.recentProgress))

    def micro_batches(self, variant: Variant, name: str = "micro") -> dict[str, Any]:
        """Copy 1,000 rows (or one) at a time, each batch sent when the one before is committed."""
        topic, size = f"{name}-{self.connector}-{self.number}", variant.rows
        warm = variant.batches // 3
        # All rows in one batch of one partition: Spark sees all of them, or none.
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 1_000, "batch.num.messages": size}
        )
        value = b"x" * 200
        rows = self._stream(topic, **variant.source).select("key", "value")
        query = self._write(rows, name, f"out-{self.connector}").start()
        checkpoint = Checkpoint(self.checkpoints / name)
        took_ms: list[float] = []
        before: dict[str, float] = {}
        for number in range(variant.batches):
            if number == warm:
                before = cpu_by_kind()
            for row in range(size):
                producer.produce(topic, value, partition=(row if variant.is_spread else number) % PARTITIONS)
            began = time.perf_counter()
            producer.flush(DEADLINE_S)
            self._wait(partial(has_committed, checkpoint, topic, (number + 1) * size), query)
            took_ms.append((time.perf_counter() - began) * 1000)
        spent = {kind: cpu_s - before[kind] for kind, cpu_s in cpu_by_kind().items()}
        progress = [each for each in query.recentProgress if each.numInputRows == size]
        durations = [each.durationMs for each in progress][len(progress) // 3 :]
        phases = {phase: median(each.get(phase, 0) for each in durations) for phase in durations[0]}
        idle_ms = idle_cpu_ms(variant.idle_s)
        query.stop()
        return {
            "batch_ms": phases["triggerExecution"],
            "phases_ms": phases,
            "round_ms": median(took_ms[warm:]),
            **{f"{kind}_cpu_ms": s / (variant.batches - warm) * 1000 for kind, s in spent.items()},
            "idle_cpu_ms_per_s": idle_ms,
            "batches": len(durations),
        }

    def _stream(self, topic: str, **options: Any) -> Any:
        made = self.spark.readStream.format(self.connector).option("kafka.bootstrap.servers", self.bootstrap)
        made = made.option("subscribe", topic).option("startingOffsets", "earliest")
        return made.options(**options).load()

    def _write(self, rows: Any, name: str, topic: str) -> Any:
        made = rows.writeStream.format(self.connector).option("kafka.bootstrap.servers", self.bootstrap)
        return made.option("topic", topic).option("checkpointLocation", str(self.checkpoints / name))

    def _wait(self, condition: Callable[[], bool], query: Any) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            if not query.isActive or time.monotonic() > deadline:
                raise SystemExit(f"{self.connector}: no end within {DEADLINE_S:g} s: {query.exception()}")
            time.sleep(0.005)


def counted_by_window(source: Any) -> Any:
    """Return counts by ten seconds of event time and kind, of one record in ten fewer."""
    from pyspark.sql import functions as f

    return (
        source.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("record"))
        .where("record.kind > 0")
        .select("record.kind", f.timestamp_millis("record.at").alias("at"))
        .withWatermark("at", "1 minute")
        .groupBy(f.window("at", "10 seconds"), "kind")
        .count()
        .select(
            f.concat_ws("/", f.unix_millis("window.start"), "kind").cast("binary").alias("key"),
            f.col("count").cast("string").cast("binary").alias("value"),
        )
    )


def has_committed(checkpoint: Checkpoint, topic: str, rows: int) -> bool:
    """Return whether the batches that have ended have read so many rows."""
    return sum(checkpoint.committed_offsets().get(topic, {}).values()) >= rows


def cpu_by_kind() -> dict[str, float]:
    """Return the CPU seconds of this driver's JVM (and of programs it ran), and of all Python around it."""
    own = psutil.Process()
    spent = {"jvm": 0.0, "python": 0.0}
    for each in [own, *own.children(recursive=True)]:
        try:
            times = each.cpu_times()
            kind = "jvm" if each.name() == "java" else "python"
        except psutil.NoSuchProcess:
            continue
        spent[kind] += times.user + times.system
        if each != own:  # the workers that a daemon has already buried, and every `chmod` of the JVM
            spent[kind] += times.children_user + times.children_system
    return spent


def spent_since(before: dict[str, float], began: float, rows: int) -> dict[str, float]:
    """Return rows, rows per second, and CPU seconds for a million rows."""
    wall_s = time.perf_counter() - began
    spent = {kind: cpu_s - before.get(kind, 0.0) for kind, cpu_s in cpu_by_kind().items()}
    per_million = {f"{kind}_cpu_s_per_million": cpu_s / rows * 1e6 for kind, cpu_s in spent.items()}
    return {
        "rows": rows,
        "rows_per_s": rows / wall_s,
        "rows_per_cpu_s": rows / sum(spent.values()),
        **per_million,
    }


def named(part: str, figures: dict[str, Any]) -> dict[str, Any]:
    """Return figures with the name of what was measured."""
    return {f"{part}_{name}": value for name, value in figures.items()}


def idle_cpu_ms(seconds: float) -> float:
    """Return what a second costs in which nothing happens, in ms of CPU; 0 if there is none to watch."""
    if not seconds:
        return 0.0
    before = sum(cpu_by_kind().values())
    time.sleep(seconds)
    return (sum(cpu_by_kind().values()) - before) / seconds * 1000


if __name__ == "__main__":
    main()
