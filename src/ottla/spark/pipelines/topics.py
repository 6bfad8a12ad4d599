"""Topics as DataFrames, in one call."""

from __future__ import annotations

from typing import Any

from ottla.spark.pipelines.records import latest_per_key, strict_json


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
    With it, values are JSON and the columns are those of the schema, and of the record those that `keep`
    names; a value that does not fit makes the query fail: to tell good from bad, use `parse_json`.
    `options` are those of the format `ottla`.
    """
    from pyspark.sql import SparkSession

    spark = spark or SparkSession.active()
    reader = spark.readStream if is_stream else spark.read
    given = {"startingOffsets": "earliest", **options}
    records = reader.format("ottla").option("subscribe", topic).options(**given).load()
    return records if schema is None else strict_json(records, schema, keep=keep)


def read_changelog(topic: str, *, schema: Any = None, spark: Any = None, **options: Any) -> Any:
    """Read a topic as a table: the last value of each key, without the deleted ones (null values).

    Joined to a stream, it is what it was when the batch was planned.
    """
    return latest_per_key(read_topic(topic, is_stream=False, spark=spark, **options), schema)
