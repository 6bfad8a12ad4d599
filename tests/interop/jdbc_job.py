"""Reads a table of PostgreSQL with Spark, which was given the JDBC driver; prints what it has found."""

from __future__ import annotations

import json
import sys

from tests.spark.topics import SHORT_LIVED

from ottla.spark import session
from ottla.spark.pipelines import read_postgres


def main(dsn: str, jar: str) -> None:
    """Read the table `prices`, in four ranges."""
    conf = {**SHORT_LIVED, "spark.jars": jar}
    spark = session("jdbc", master="local[2]", conf=conf, log_level="OFF")
    read = read_postgres("prices", dsn=dsn, partition_column="id", partitions=4, spark=spark)
    rows = read.collect()
    found = {
        "plan": read._jdf.queryExecution().toString(),
        "types": [kind for _, kind in read.dtypes],
        "partitions": read.rdd.getNumPartitions(),
        "ids": sorted(row["id"] for row in rows),
        "tenth": next(str(row["price"]) for row in rows if row["id"] == 10),
    }
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
