"""Files in bulk: read as streams that remember which files they have seen; partitioned by event time."""

from __future__ import annotations

from typing import Any

from ottla.spark.pipelines.problems import PipelineProblem

UNITS = {
    "year": "yyyy",
    "month": "yyyy-MM",
    "day": "yyyy-MM-dd",
    "hour": "yyyy-MM-dd-HH",
}
"""How the folders of each unit are named; they sort by time."""


def read_files(
    path: str, format: str = "parquet", *, schema: Any = None, spark: Any = None, **options: str
) -> Any:
    """Read a folder of files as a stream: each file once, new ones as they come.

    Without `schema` it is that of the files that are there now.
    """
    from pyspark.sql import SparkSession

    spark = spark or SparkSession.active()
    if schema is None:
        if format == "csv":
            options = {"header": "true", "inferSchema": "true", **options}
        schema = spark.read.format(format).options(**options).load(path).schema
    elif format == "csv":
        options = {"header": "true", **options}
    return spark.readStream.format(format).schema(schema).options(**options).load(path)


def partition_by_time(rows: Any, column: str = "timestamp", unit: str = "day") -> Any:
    """Add the column `unit` (year, month, day, hour), the event time's, by which files can be partitioned."""
    from pyspark.sql import functions as sql

    if unit not in UNITS:
        raise PipelineProblem(f"{unit!r} is no unit of time", f"it is one of {', '.join(UNITS)}")
    return rows.withColumn(unit, sql.date_format(sql.col(column), UNITS[unit]))
