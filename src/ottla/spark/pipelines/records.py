"""Convert between rows and records: JSON values, dead letters, changelogs.

A record is a row with `key`, `value` and optionally `headers`, `topic`, `timestamp`: the columns of the
format `ottla`. All functions here are plain functions from DataFrame to DataFrame, usable in any PySpark
program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

RECORD_COLUMNS = ("key", "value", "headers", "topic", "partition", "timestamp")

REASON, SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET = (
    "ottla.error",
    "ottla.source.topic",
    "ottla.source.partition",
    "ottla.source.offset",
)
"""Headers of a dead letter."""

NOT_JSON = "not JSON of"
"""In the message about an invalid value."""
_CORRUPT = "__ottla_corrupt"
_PARSED = "__ottla_parsed"


_dead_letter_topics: ContextVar[list[str | None] | None] = ContextVar("ottla_dead_letters", default=None)


@contextmanager
def noting_dead_letters() -> Iterator[list[str | None]]:
    """Note the topics of the dead letters that are declared in the block; None is the topic of the sink."""
    noted: list[str | None] = []
    token = _dead_letter_topics.set(noted)
    try:
        yield noted
    finally:
        _dead_letter_topics.reset(token)


class Parsed(NamedTuple):
    """Rows of the records that could be parsed, and the records that could not."""

    good: Any
    bad: Any


def parse_json(records: Any, schema: Any, *, keep: Sequence[str] = ()) -> Parsed:
    """Split records into rows (the columns of `schema`, parsed from JSON values) and invalid records.

    `keep` names columns of the record that valid rows carry too, e.g. timestamp. `bad` has the columns of the
    record and `error`, the reason; `dead_letters` converts it to records. Null values (tombstones) are in
    neither.
    """
    from pyspark.sql import functions as sql

    fields = struct_of(schema)
    text = sql.col("value").cast("string")
    with_corrupt = struct_of(schema).add(_CORRUPT, "string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = records.where(sql.col("value").isNotNull()).withColumn(
        _PARSED, sql.from_json(text, with_corrupt, options)
    )
    is_bad = sql.col(_PARSED).isNull() | sql.col(f"{_PARSED}.{_CORRUPT}").isNotNull()
    columns = [sql.col(f"{_PARSED}.`{field.name}`").alias(field.name) for field in fields.fields]
    good = parsed.where(~is_bad).select(*columns, *keep)
    reason = sql.concat(
        sql.lit(f"the value is {NOT_JSON} {fields.simpleString()[7:-1]}: "), sql.substring(text, 1, 200)
    )
    bad = parsed.where(is_bad).withColumn("error", reason).drop(_PARSED)
    return Parsed(good, bad)


def dead_letters(bad: Any, topic: str | None = None) -> Any:
    """Convert invalid rows to records: original key and value, with the reason and origin as headers.

    `bad` has `error`, and columns of the record. With `topic`, the records name it: for a sink that takes the
    topic from a column, so that valid rows and dead letters share one exactly-once query.
    """
    from pyspark.sql import functions as sql

    if (noted := _dead_letter_topics.get()) is not None:
        noted.append(topic)

    def header(name: str, column: Any) -> Any:
        return sql.struct(sql.lit(name).alias("key"), column.cast("string").cast("binary").alias("value"))

    origin = {SOURCE_TOPIC: "topic", SOURCE_PARTITION: "partition", SOURCE_OFFSET: "offset"}
    headers = sql.array(
        header(REASON, sql.col("error")),
        *(header(name, sql.col(column)) for name, column in origin.items() if column in bad.columns),
    )
    key = sql.col("key").cast("binary") if "key" in bad.columns else sql.lit(None).cast("binary")
    columns = [key.alias("key"), sql.col("value").cast("binary").alias("value"), headers.alias("headers")]
    return bad.select(*columns, *([sql.lit(topic).alias("topic")] if topic else []))


def as_records(rows: Any, *, key: str | Sequence[str] | None = None, topic: str | None = None) -> Any:
    """Convert rows to records: the value is the row as JSON; the key is the named columns (one: its text).

    With `topic`, the records name it; and there is a column `headers`, empty, so that they can be united with
    `dead_letters(..., topic)`.
    """
    from pyspark.sql import functions as sql

    columns = [key_of(key).alias("key"), sql.to_json(sql.struct("*")).cast("binary").alias("value")]
    if topic:
        no_headers = sql.array().cast("array<struct<key:string,value:binary>>")
        columns += [no_headers.alias("headers"), sql.lit(topic).alias("topic")]
    return rows.select(*columns)


def as_changelog(
    rows: Any, *, key: str | Sequence[str], deleted: Any = None, topic: str | None = None
) -> Any:
    """Convert rows to a changelog: keyed, the row as JSON, null where `deleted` (a condition) holds.

    Write it to a topic with cleanup.policy=compact; `latest_per_key` reads it as a table.
    """
    from pyspark.sql import functions as sql

    value = sql.to_json(sql.struct(*(sql.col(name) for name in rows.columns))).cast("binary")
    if deleted is not None:
        condition = sql.expr(deleted) if isinstance(deleted, str) else deleted
        value = sql.when(~sql.coalesce(condition, sql.lit(False)), value)
    columns = [key_of(key).alias("key"), value.alias("value")]
    return rows.select(*columns, *([sql.lit(topic).alias("topic")] if topic else []))


def strict_json(records: Any, schema: Any, *, keep: Sequence[str] = ()) -> Any:
    """Parse JSON values into rows; an invalid value fails the query, with its topic, partition and offset."""
    from pyspark.sql import functions as sql

    return json_rows(records.where(sql.col("value").isNotNull()), schema, keep=keep)


def json_rows(records: Any, schema: Any, *, keep: Sequence[Any] = ()) -> Any:
    """Parse JSON values into rows, as `strict_json`; a null value becomes a row of nulls."""
    from pyspark.sql import functions as sql

    fields = struct_of(schema)
    text = sql.col("value").cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = sql.from_json(text, struct_of(schema).add(_CORRUPT, "string"), options)
    place = [sql.lit("a value")]
    if {"topic", "partition", "offset"} <= set(records.columns):
        place = [sql.lit("the value of "), sql.col("topic"), sql.lit("-"), sql.col("partition")]
        place += [sql.lit(" at offset "), sql.col("offset")]
    wanted = sql.lit(f" is {NOT_JSON} {fields.simpleString()[7:-1]}: ")
    reason = sql.concat(*place, wanted, sql.substring(text, 1, 200))
    is_bad = sql.col(_PARSED).isNull() | sql.col(f"{_PARSED}.{_CORRUPT}").isNotNull()
    is_bad = is_bad & sql.col("value").isNotNull()
    checked = sql.when(is_bad, sql.raise_error(reason)).otherwise(sql.col(_PARSED))
    columns = [sql.col(f"{_PARSED}.`{field.name}`").alias(field.name) for field in fields.fields]
    return records.withColumn(_PARSED, parsed).withColumn(_PARSED, checked).select(*columns, *keep)


def latest_per_key(records: Any, schema: Any = None) -> Any:
    """Read a changelog (a batch of records) as a table: the last value of each key, without deleted keys.

    With `schema`, values are JSON and become columns, beside `key`; else the columns are `key` and `value`.
    The last value is that with the highest offset: all records of a key are in one partition.
    """
    from pyspark.sql import functions as sql

    place = sql.struct("offset", "value").alias("place")
    last = (
        records.where(sql.col("key").isNotNull())
        .select("key", place)
        .groupBy("key")
        .agg(sql.max_by("place", "place.offset").alias("last"))
    )
    living = last.where(sql.col("last.value").isNotNull()).select("key", sql.col("last.value").alias("value"))
    return living if schema is None else _parsed_columns(living, schema, "key")


def columns_of_topic_table(records: Any, schema: Any) -> Any:
    """Read a table that is stored in a topic: as records if its rows were records, else as columns of
    JSON.
    """
    if "value" in schema.fieldNames():
        return records
    return _parsed_columns(records, schema)


def for_topic(rows: Any, *, key: str | None = None) -> Any:
    """Return rows for the sink of topics: records unchanged, other rows as JSON."""
    if "value" in rows.columns:
        unknown = [name for name in rows.columns if name not in (*RECORD_COLUMNS, "offset", "timestampType")]
        return rows.drop("offset", "timestampType") if not unknown else rows
    return as_records(rows, key=[part.strip() for part in key.split(",")] if key else None)


def _parsed_columns(records: Any, schema: Any, *keep: str) -> Any:
    from pyspark.sql import functions as sql

    parsed = sql.from_json(sql.col("value").cast("string"), struct_of(schema)).alias(_PARSED)
    return records.select(*keep, parsed).select(*keep, f"{_PARSED}.*")


def key_of(key: str | Sequence[str] | None) -> Any:
    """Return the key of rows: null without columns, the text of one column, JSON of several."""
    from pyspark.sql import functions as sql

    names = [key] if isinstance(key, str) else list(key or ())
    if not names:
        return sql.lit(None).cast("binary")
    if len(names) == 1:
        return sql.col(names[0]).cast("string").cast("binary")
    return sql.to_json(sql.struct(*names)).cast("binary")


def struct_of(schema: Any) -> Any:
    """Return a schema, given as DDL or as a struct, as a struct of its own."""
    from pyspark.sql.types import StructType

    return StructType.fromDDL(schema) if isinstance(schema, str) else StructType(list(schema.fields))
