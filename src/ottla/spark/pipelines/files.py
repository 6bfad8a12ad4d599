"""Read topics and files in pipelines; partition files by event time."""

from __future__ import annotations

from typing import Any

from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.records import latest_per_key, strict_json

# Topics as DataFrames.


def read_topic(
    topic: str,
    *,
    schema: Any = None,
    keep: tuple[str, ...] = (),
    is_stream: bool = True,
    spark: Any = None,
    **options: Any,
) -> Any:
    """Read a topic from its beginning, as a stream (or with is_stream=False as a batch).

    Without `schema`, the columns are those of the record: key, value, topic, partition, offset, timestamp.
    With it, values are JSON and the columns are those of the schema, and those columns of the record that
    `keep` names; an invalid value fails the query: to separate valid from invalid records, use `parse_json`.
    `options` are those of the format `ottla`.
    """
    from pyspark.sql import SparkSession

    spark = spark or SparkSession.active()
    reader = spark.readStream if is_stream else spark.read
    given = {"startingOffsets": "earliest", **options}
    records = reader.format("ottla").option("subscribe", topic).options(**given).load()
    return records if schema is None else strict_json(records, schema, keep=keep)


def read_changelog(topic: str, *, schema: Any = None, spark: Any = None, **options: Any) -> Any:
    """Read a topic as a table: the last value of each key, without deleted keys (null values).

    Joined to a stream, its contents are those at the time when the batch was planned.
    """
    return latest_per_key(read_topic(topic, is_stream=False, spark=spark, **options), schema)


UNITS = {
    "year": "yyyy",
    "month": "yyyy-MM",
    "day": "yyyy-MM-dd",
    "hour": "yyyy-MM-dd-HH",
}
"""The folder names of each unit; they sort by time."""


def read_files(
    path: str, format: str = "parquet", *, schema: Any = None, spark: Any = None, **options: str
) -> Any:
    """Read a folder of files as a stream: each file once, and new files as they arrive.

    Without `schema`, the schema is inferred from the existing files.
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
    """Add the column `unit` (year, month, day, hour) of the event time, to partition files by."""
    from pyspark.sql import functions as sql

    if unit not in UNITS:
        raise PipelineProblem(f"{unit!r} is not a unit of time", f"use one of {', '.join(UNITS)}")
    return rows.withColumn(unit, sql.date_format(sql.col(column), UNITS[unit]))
