"""One road into Spark, measured from inside a driver: `python -m benchmarks.spark_job --road ottla ...`.

Prints one line of JSON. Both roads run this same program on the same topics; only the format differs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil  # type: ignore[import-untyped]
from confluent_kafka import Producer
from tests.spark.fault_injection.checkpoint import Checkpoint
from tests.spark.fault_injection.sessions import session_for

MICRO_BATCHES = 100
MICRO_ROWS = 1_000
PARTITIONS = 4
PER_TRIGGER = 250_000
DEADLINE_S = 150.0
SCHEMA = "n BIGINT, at BIGINT, kind BIGINT"


@dataclass(frozen=True)
class Variant:
    """What is to be different from the road as it is; for benchmarks.spark_measures."""

    conf: dict[str, str] = field(default_factory=dict)
    """Of the session."""
    source: dict[str, str] = field(default_factory=dict)
    """Options of the source of small batches."""
    batches: int = MICRO_BATCHES
    is_spread: bool = False
    """Whether the rows of a small batch come from all partitions, not from one."""
    idle_s: float = 0.0
    """How long to watch the query while nothing is sent."""


def main() -> None:
    """Measure one road and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--road", required=True, choices=("ottla", "kafka"))
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--began", type=float, required=True, help="time.time() when this was started")
    parser.add_argument("--only-latency", action="store_true", help="without the whole job")
    parser.add_argument("--variant", type=json.loads, default={}, help=argparse.SUPPRESS)
    options = parser.parse_args()
    variant = Variant(**options.variant)
    spark = session_for(options.connector, master="local[2]", **variant.conf)
    session_s = time.time() - options.began
    connector = ConnectorRun(spark, options.connector, options.bootstrap, options.checkpoints)
    seen: dict[str, Any] = {"session_s": session_s, "first_batch_s": connector.first_batch() - options.began}
    seen["first_batch_cpu_s"] = sum(cpu_by_kind().values())
    if not options.only_latency:
        connector.whole_job("warm-up", "bench-small")
        seen |= connector.whole_job("whole", "bench-large")
    seen |= connector.micro_batches(variant)
    print(json.dumps(seen), flush=True)
    spark.stop()


class ConnectorRun:
    """A format, and what it is asked to do."""

    def __init__(self, spark: Any, connector: str, bootstrap: str, checkpoints: Path) -> None:
        self.spark = spark
        self.connector = connector
        self.bootstrap = bootstrap
        self.checkpoints = checkpoints

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

    def whole_job(self, name: str, topic: str) -> dict[str, float]:
        """Parse, filter, count by window, write back: all that a topic holds."""
        before = cpu_by_kind()
        began = time.perf_counter()
        counted = counted_by_window(self._stream(topic, maxOffsetsPerTrigger=PER_TRIGGER))
        query = self._write(counted, name, f"out-{self.connector}").trigger(availableNow=True).start()
        if not query.awaitTermination(DEADLINE_S):
            raise SystemExit(f"{self.connector}: {name} has not ended within {DEADLINE_S:g} s")
        wall_s = time.perf_counter() - began
        rows = sum(each.numInputRows for each in query.recentProgress)
        spent = {kind: cpu_s - before.get(kind, 0.0) for kind, cpu_s in cpu_by_kind().items()}
        per_million = {f"{kind}_cpu_s_per_million": cpu_s / rows * 1e6 for kind, cpu_s in spent.items()}
        return {"rows": rows, "rows_per_s": rows / wall_s, **per_million}

    def micro_batches(self, variant: Variant) -> dict[str, Any]:
        """Copy 1,000 rows at a time, each batch sent when the one before is committed."""
        name, topic = "micro", f"micro-{self.connector}"
        warm = variant.batches // 3
        # All rows in one batch of one partition: Spark sees all of them, or none.
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 1_000, "batch.num.messages": MICRO_ROWS}
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
            for row in range(MICRO_ROWS):
                producer.produce(topic, value, partition=(row if variant.is_spread else number) % PARTITIONS)
            began = time.perf_counter()
            producer.flush(DEADLINE_S)
            self._wait(partial(has_committed, checkpoint, topic, (number + 1) * MICRO_ROWS), query)
            took_ms.append((time.perf_counter() - began) * 1000)
        spent = {kind: cpu_s - before[kind] for kind, cpu_s in cpu_by_kind().items()}
        progress = [each for each in query.recentProgress if each.numInputRows == MICRO_ROWS]
        durations = [each.durationMs for each in progress][len(progress) // 3 :]
        phases = {phase: median(each.get(phase, 0) for each in durations) for phase in durations[0]}
        idle_ms = idle_cpu_ms(variant.idle_s)
        query.stop()
        return {
            "micro_batch_ms": phases["triggerExecution"],
            "micro_phases_ms": phases,
            "micro_round_ms": median(took_ms[warm:]),
            **{f"micro_{kind}_cpu_ms": s / (variant.batches - warm) * 1000 for kind, s in spent.items()},
            "idle_cpu_ms_per_s": idle_ms,
            "micro_batches": len(durations),
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


def idle_cpu_ms(seconds: float) -> float:
    """Return what a second costs in which nothing happens, in ms of CPU; 0 if there is none to watch."""
    if not seconds:
        return 0.0
    before = sum(cpu_by_kind().values())
    time.sleep(seconds)
    return (sum(cpu_by_kind().values()) - before) / seconds * 1000


if __name__ == "__main__":
    main()
