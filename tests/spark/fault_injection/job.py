"""The pipeline of the fault-injection run: two queries that run until SIGTERM, or until they are killed.

python -m tests.spark.fault_injection.job --bootstrap 127.0.0.1:9092 --format ottla --checkpoints DIR
"""

from __future__ import annotations

import argparse
import signal
import threading
from typing import Any

from tests.spark.fault_injection.numbers import (
    COPY_TOPICS,
    GROUPS,
    INPUT_TOPIC,
    KEYS,
    SCHEMA,
    TOTALS_TOPIC,
    WINDOW_MS,
    WINDOW_TOPIC,
)
from tests.spark.fault_injection.sessions import MASTER, session_for

COPIES, WINDOWS, TOTALS = "copies", "windows", "totals"


def queries_of(connector: str) -> tuple[str, ...]:
    """Return the queries of the pipeline; the table of totals is upserted, which only `ottla` does."""
    return (COPIES, WINDOWS, TOTALS) if connector == "ottla" else (COPIES, WINDOWS)


def main() -> None:
    """Run the queries; a query that fails ends the program with its error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--format", required=True, choices=("ottla", "kafka"))
    parser.add_argument("--checkpoints", required=True)
    parser.add_argument("--master", default=MASTER)
    parser.add_argument("--per-trigger", type=int, default=20_000)
    options = parser.parse_args()
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    spark = session_for(options.format, options.master)
    queries = [start(spark, options, COPIES, copies), start(spark, options, WINDOWS, windows)]
    if TOTALS in queries_of(options.format):
        queries.append(start_totals(spark, options))
    while not stopping.wait(0.1):
        for query in queries:
            if not query.isActive:
                raise SystemExit(f"{query.name} has ended: {query.exception()}")
    for query in queries:
        query.stop()
    spark.stop()


def start(spark: Any, options: argparse.Namespace, name: str, transform: Any) -> Any:
    """Start one query on the input topic."""
    return (
        transform(source_of(spark, options), options.per_trigger)
        .writeStream.queryName(name)
        .format(options.format)
        .option("kafka.bootstrap.servers", options.bootstrap)
        .option("checkpointLocation", f"{options.checkpoints}/{name}")
        .start()
    )


def source_of(spark: Any, options: argparse.Namespace) -> Any:
    """Return the input topic as a stream."""
    return (
        spark.readStream.format(options.format)
        .option("kafka.bootstrap.servers", options.bootstrap)
        .option("subscribe", INPUT_TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.per_trigger)
        .load()
    )


def start_totals(spark: Any, options: argparse.Namespace) -> Any:
    """Start the query whose state grows without end: a table of counts and sums, upserted by key."""
    from pyspark.sql import functions as f

    from ottla.spark import upsert

    totals = (
        source_of(spark, options)
        .select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("record"))
        .where("record.n >= 0")
        .groupBy((f.col("record.n") % KEYS).alias("id"))
        .agg(f.count("*").alias("count"), f.sum("record.amount").alias("amount"))
    )
    to = {"kafka.bootstrap.servers": options.bootstrap}
    return upsert(
        totals, topic=TOTALS_TOPIC, key="id", name=TOTALS, checkpoint=f"{options.checkpoints}/{TOTALS}", **to
    )


def copies(source: Any, per_trigger: int) -> Any:
    """Every record as it is, odd and even numbers to topics of their own."""
    even, odd = COPY_TOPICS
    is_even = "CAST(CAST(key AS STRING) AS BIGINT) % 2 = 0"
    return source.selectExpr("key", "value", f"CASE WHEN {is_even} THEN '{even}' ELSE '{odd}' END AS topic")


def windows(source: Any, per_trigger: int) -> Any:
    """Counts and sums by window and group, written once a window is closed."""
    from pyspark.sql import functions as f

    # Partitions are read side by side: none is ever further behind than a few batches.
    patience = f"{3 * per_trigger} milliseconds"
    return (
        source.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("record"))
        .select("record.n", "record.amount", f.timestamp_millis("record.at").alias("at"))
        .withWatermark("at", patience)
        .groupBy(f.window("at", f"{WINDOW_MS} milliseconds"), (f.col("n") % GROUPS).alias("part"))
        .agg(f.count("*").alias("count"), f.sum("amount").alias("amount"))
        .select(
            f.lit(WINDOW_TOPIC).alias("topic"),
            f.concat_ws("/", f.unix_millis("window.start"), "part").cast("binary").alias("key"),
            f.to_json(f.struct("count", "amount")).cast("binary").alias("value"),
        )
    )


if __name__ == "__main__":
    main()
