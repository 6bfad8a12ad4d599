"""A query that copies a topic in batches; a test kills its driver at a named point."""

from __future__ import annotations

import sys

from tests.spark.topics import SHORT_LIVED

from ottla.spark import session


def main(address: str, into: str, out: str, checkpoint: str) -> None:
    """Copy until nothing is left."""
    spark = session("crash", master="local[1]", conf=SHORT_LIVED, log_level="OFF")
    source = spark.readStream.format("ottla").option("kafka.bootstrap.servers", address)
    source = source.option("subscribe", into).option("startingOffsets", "earliest")
    rows = source.option("maxOffsetsPerTrigger", "100").option("minPartitions", "2").load()
    sink = rows.select("key", "value").writeStream.format("ottla").option("topic", out)
    sink = sink.option("kafka.bootstrap.servers", address).option("checkpointLocation", checkpoint)
    sink.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
