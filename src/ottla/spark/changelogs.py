"""Topics as tables: rows by key into a changelog, and a changelog into the rows of a table.

A changelog is a keyed topic with cleanup.policy=compact: the last value of a key is its row, null deletes it.

    upsert(counts, topic="counts", key="word", checkpoint="/var/lib/counts", **broker)     # upserting.py
    table("counts", key="word", schema="word STRING, n BIGINT", **broker)                  # its rows now
    changelog("counts", key="word", schema="word STRING, n BIGINT", **broker)              # its changes

A key of one column is its text, of several columns a JSON object; values are JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.spark.errors import WrongOption
from ottla.spark.pipelines.files import read_topic
from ottla.spark.pipelines.records import json_rows, key_of, struct_of

DELETED = "deleted"
_SEQUENCE, _NEWEST, _CONFLICT = "__ottla_sequence", "__ottla_newest", "__ottla_conflict"


def names_of(key: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of key columns: `"a"`, `"a, b"` or a list."""
    parts = key.split(",") if isinstance(key, str) else key
    return tuple(part.strip() for part in parts if part.strip())


# From rows to records.


@dataclass(frozen=True)
class Upserts:
    """How the rows of a batch become the records of a changelog."""

    key: tuple[str, ...]
    value: str = ""
    """The column with the value; empty: the row as JSON."""
    deleted: Any = None
    """A condition (SQL or a column): where it holds, the record is a tombstone."""
    sequence_by: str = ""
    """Of several rows of a key in one batch, the one with the highest value of this column is written."""
    as_struct: bool = False
    """Whether values are written as structs, for a registry's serializer."""

    def check(self, columns: Sequence[str]) -> None:
        """Raise WrongOption for a column that the rows do not have."""
        if not self.key:
            raise WrongOption("key", "must name the columns that identify a row")
        for option, names in (
            ("key", self.key),
            ("value", (self.value,)),
            ("sequence_by", (self.sequence_by,)),
        ):
            for name in names:
                if name and name not in columns:
                    raise WrongOption(option, f"there is no column {name}; there are {', '.join(columns)}")

    def records(self, rows: Any) -> Any:
        """Return one record for each key: its newest row, or null if that is deleted."""
        from pyspark.sql import functions as sql

        order = sql.col(self.sequence_by) if self.sequence_by else sql.lit(0)
        keyed = rows.select(
            key_of(self.key).alias("key"),
            sql.struct(self._value(rows.columns).alias("value")).alias(_NEWEST),
            sql.struct(order.alias("at")).alias(_SEQUENCE),  # a struct: null comes before all values
        )
        newest = keyed.groupBy("key").agg(
            sql.max_by(_NEWEST, _SEQUENCE).alias(_NEWEST), self._conflict().alias(_CONFLICT)
        )
        value = sql.when(sql.col("key").isNull(), sql.raise_error(sql.lit(self._no_key())))
        if not self.sequence_by:
            several = sql.concat(
                sql.lit("several rows of one batch have the key "),
                sql.col("key").cast("string"),
                sql.lit(
                    ". Name the column that says which is the newest (sequence_by), or add columns to key"
                ),
            )
            value = value.when(sql.col(_CONFLICT), sql.raise_error(several))
        return newest.select("key", value.otherwise(sql.col(f"{_NEWEST}.value")).alias("value"))

    def _value(self, columns: Sequence[str]) -> Any:
        from pyspark.sql import functions as sql

        if self.value:
            value = sql.col(self.value)
        else:
            flag = self.deleted if isinstance(self.deleted, str) else None
            kept = [sql.col(f"`{name}`") for name in columns if name != flag]
            value = sql.struct(*kept) if self.as_struct else sql.to_json(sql.struct(*kept))
        if self.deleted is None:
            return value
        condition = sql.expr(self.deleted) if isinstance(self.deleted, str) else self.deleted
        return sql.when(~sql.coalesce(condition, sql.lit(False)), value)

    def _conflict(self) -> Any:
        """Whether the rows of a key differ; structs may have columns without an order, so they only count."""
        from pyspark.sql import functions as sql

        if self.as_struct:
            return sql.count("*") > 1
        return sql.min(_NEWEST) != sql.max(_NEWEST)

    def _no_key(self) -> str:
        return f"a row has no key: {', '.join(self.key)} is null. Filter such rows before the upsert"


# From records to rows.


def table(
    topic: str, *, key: str | Sequence[str] = (), schema: Any = None, spark: Any = None, **options: Any
) -> Any:
    """Read a changelog as a table: the last value of each key, without deleted keys.

    `schema` (DDL or a StructType) are the columns of the JSON values; the columns that `key` names come from
    the record's key. Without `key`, the record's key is the column `key`; without `schema`, the value is the
    column `value`. `options` are those of the format `ottla`. Joined to a stream, each batch reads it anew.
    """
    return table_of(read_topic(topic, is_stream=False, spark=spark, **options), key=key, schema=schema)


def changelog(
    topic: str,
    *,
    key: str | Sequence[str] = (),
    schema: Any = None,
    deleted: str = DELETED,
    keep: Sequence[str] = ("offset",),
    spark: Any = None,
    **options: Any,
) -> Any:
    """Read a changelog as a stream of changes: the columns of `table`, `deleted` and the columns `keep`.

    A tombstone is a row with its key, true in `deleted`, and nulls. A change carries the new row only: Spark
    has no retractions.
    """
    records = read_topic(topic, spark=spark, **options)
    return changes_of(records, key=key, schema=schema, deleted=deleted, keep=keep)


def table_of(records: Any, *, key: str | Sequence[str] = (), schema: Any = None) -> Any:
    """Return the table that a batch of records comes to."""
    from pyspark.sql import functions as sql

    places = ("topic", "partition", "offset", "value")
    last = (
        records.where(sql.col("key").isNotNull())
        .select("key", sql.struct(*places).alias(_NEWEST))
        .groupBy("key")
        .agg(sql.max_by(_NEWEST, f"{_NEWEST}.offset").alias(_NEWEST))
        .where(sql.col(f"{_NEWEST}.value").isNotNull())
    )
    return _rows(last.select("key", f"{_NEWEST}.*"), key, schema)


def changes_of(
    records: Any,
    *,
    key: str | Sequence[str] = (),
    schema: Any = None,
    deleted: str = DELETED,
    keep: Sequence[str] = (),
) -> Any:
    """Return the changes of a stream of records; without `deleted`, those that delete nothing."""
    from pyspark.sql import functions as sql

    records = records.where(sql.col("key").isNotNull())
    if not deleted:
        return _rows(records.where(sql.col("value").isNotNull()), key, schema, keep)
    return _rows(records, key, schema, (sql.col("value").isNull().alias(deleted), *keep))


def rows_of_upserts(records: Any, schema: Any, options: Mapping[str, str], *, is_stream: bool) -> Any:
    """Return the rows that upserts with these options have written: of the table, or of its changes.

    `schema` is that of the rows that were written; their flag for deletions, if they have one, is restored.
    """
    key, deleted = options.get("key", ""), options.get("deleted", "")
    flag = deleted if deleted in schema.fieldNames() else ""
    kept = type(schema)([field for field in schema.fields if field.name != flag])
    if is_stream:
        found = changes_of(records, key=key, schema=kept, deleted=flag)
    else:
        found = table_of(records, key=key, schema=kept)
        found = found.selectExpr("*", f"false AS `{flag}`") if flag else found
    return found.select(*schema.fieldNames())


def _rows(records: Any, key: str | Sequence[str], schema: Any, keep: Sequence[Any] = ()) -> Any:
    from pyspark.sql import functions as sql

    if schema is None:
        if key:
            raise WrongOption("key", "names columns of the schema: write also schema")
        return records.select("key", "value", *keep)
    names, fields = names_of(key), struct_of(schema)
    for name in names:
        if name not in fields.fieldNames():
            raise WrongOption("key", f"there is no column {name}; there are {', '.join(fields.fieldNames())}")
    if not names:
        return json_rows(records, schema, keep=("key", *keep))
    kept = [_from_key(name, names, fields).alias(name) for name in names]
    rest = type(fields)([field for field in fields.fields if field.name not in names])
    rows = json_rows(records, rest, keep=(*kept, *keep))
    extra = [name for name in rows.columns if name not in fields.fieldNames()]
    return rows.select(*(sql.col(f"`{name}`") for name in (*fields.fieldNames(), *extra)))


def _from_key(name: str, names: Sequence[str], fields: Any) -> Any:
    """Return a key column, of its type, out of the record's key: what `key_of` has written."""
    from pyspark.sql import functions as sql

    text = sql.col("key").cast("string")
    if len(names) == 1:
        kind = fields[name].dataType
        return sql.col("key") if kind.simpleString() == "binary" else text.cast(kind)
    wanted = type(fields)([fields[each] for each in names])
    return sql.from_json(text, wanted)[name]
