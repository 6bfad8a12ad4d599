"""What runs on the cluster: batch and stream, both ways. It knows nothing of this repository."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main(bootstrap: str, checkpoint: str, more: str = "{}") -> None:
    """Copy a topic as a stream, exactly once, and count it as a batch; print where the work was done."""
    spark = SparkSession.builder.getOrCreate()
    with_address = {"kafka.bootstrap.servers": bootstrap, **json.loads(more)}
    stream = (
        spark.readStream.format("ottla")
        .options(**with_address, subscribe="numbers", startingOffsets="earliest", maxOffsetsPerTrigger="400")
        .load()
    )
    query = (
        stream.select("key", "value")
        .writeStream.format("ottla")
        .options(**with_address, topic="copies", checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batch = spark.read.format("ottla").options(**with_address, subscribe="copies").load()
    numbers = batch.selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS n")
    row = numbers.selectExpr("count(*) AS rows", "count(DISTINCT n) AS distinct", "sum(n) AS sum").collect()[
        0
    ]
    print(f"rows={row['rows']} distinct={row['distinct']} sum={row['sum']}")
    places = spark.sparkContext.parallelize(range(8), 8).map(where).distinct().collect()
    print("\n".join(sorted(places)))
    spark.stop()


def where(_: int) -> str:
    """Return from which file an executor has imported Ottla."""
    import os

    import ottla

    folder = os.path.basename(os.getcwd())
    return f"executor {folder}: {ottla.__file__}"


if __name__ == "__main__":
    main(*sys.argv[1:])
