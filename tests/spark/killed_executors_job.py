"""A stream on a cluster whose executors are killed: copied exactly once; restarted if the query fails."""

from __future__ import annotations

import sys

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

MAX_RUNS = 6


def main(bootstrap: str, checkpoint: str) -> None:
    """Copy a topic in many small batches, and print how often the query was started."""
    spark = SparkSession.builder.getOrCreate()
    options = {"kafka.bootstrap.servers": bootstrap}
    for run in range(1, MAX_RUNS + 1):
        rows = (
            spark.readStream.format("ottla")
            .options(**options, subscribe="killed-in", startingOffsets="earliest", maxOffsetsPerTrigger="50")
            .load()
        )
        writer = rows.select("key", "value").writeStream.format("ottla")
        writer = writer.options(**options, topic="killed-out", checkpointLocation=checkpoint)
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            print(f"run {run} failed: {str(error)[:300]}", flush=True)
            continue
        print(f"done in run {run}", flush=True)
        break
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
