"""Queries that each copy a topic in batches; a test kills their driver when each is at a named point."""

from __future__ import annotations

import json
import sys

from tests.spark.topics import SHORT_LIVED

from ottla.spark import session


def main(address: str, queries: str) -> None:
    """Copy until nothing is left; `queries` is JSON of (into, out, checkpoint) each."""
    found = json.loads(queries)
    # Each query that waits at its point keeps a task.
    spark = session("crash", master=f"local[{2 * len(found)}]", conf=SHORT_LIVED, log_level="OFF")
    for into, out, checkpoint in found:
        source = spark.readStream.format("ottla").option("kafka.bootstrap.servers", address)
        source = source.option("subscribe", into).option("startingOffsets", "earliest")
        rows = source.option("maxOffsetsPerTrigger", "100").option("minPartitions", "2").load()
        sink = rows.select("key", "value").writeStream.format("ottla").option("topic", out)
        sink = sink.option("kafka.bootstrap.servers", address).option("checkpointLocation", checkpoint)
        sink.trigger(availableNow=True).start()
    for query in spark.streams.active:
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
