"""Read PostgreSQL tables as DataFrames: with Spark's JDBC reader if it has the driver, else with psycopg."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any

from ottla.spark.pipelines.postgres.write import _names, _table, connect, full_dsn
from ottla.spark.pipelines.problems import PipelineProblem

ROWS_AT_ONCE = 10_000
JDBC_DRIVER = "org.postgresql.Driver"

SPARK_TYPES = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "float4": "float",
    "float8": "double",
    "bytea": "binary",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
}
"""By PostgreSQL's type name; all other types (text, uuid, jsonb, ...) are read as text."""


def read_postgres(
    table: str,
    *,
    dsn: str = "",
    partition_column: str = "",
    partitions: int = 1,
    spark: Any = None,
) -> Any:
    """Read a table. With `partition_column` (a number), `partitions` tasks read a range of it each.

    It uses JDBC if Spark has the driver's jar; else psycopg, which pip installs.
    """
    from pyspark.sql import SparkSession

    spark = spark or SparkSession.active()
    if partitions > 1 and not partition_column:
        raise PipelineProblem("to read in several partitions, name a numeric partition_column")
    dsn = full_dsn(dsn)
    ranges = _ranges(table, dsn, partition_column, partitions)
    if has_jdbc(spark):
        return _read_jdbc(spark, table, dsn, partition_column, ranges)
    columns = _columns(table, dsn)
    schema = ", ".join(f"`{name}` {kind}" for name, kind, _ in columns)
    conditions = spark.createDataFrame([(condition,) for condition in ranges], "condition string")
    one_each = conditions.repartitionByRange(len(ranges), "condition") if len(ranges) > 1 else conditions
    reader = _RangeReader(table, dsn, columns)

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        return reader.read(batches)

    return one_each.mapInArrow(read, schema)


def has_jdbc(spark: Any) -> bool:
    """Return whether Spark was given PostgreSQL's JDBC driver (spark.jars)."""
    try:
        loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader.loadClass(JDBC_DRIVER)
    except Exception:  # a Java exception of py4j: the class is missing
        return False
    return True


def split_range(lowest: int, highest: int, parts: int) -> list[tuple[int, int]]:
    """Divide lowest..highest (both included) into at most `parts` ranges without gaps."""
    size = highest - lowest + 1
    parts = max(1, min(parts, size))
    edges = [lowest + size * index // parts for index in range(parts + 1)]
    return [(start, end - 1) for start, end in pairwise(edges)]


def _ranges(table: str, dsn: str, column: str, partitions: int) -> list[str]:
    """Return conditions that divide the table; null is in the first range."""
    if partitions <= 1:
        return ["true"]
    name = _names([column])
    with connect(dsn) as connection:
        lowest, highest = connection.execute(
            f"SELECT min({name}), max({name}) FROM {_table(table)}"
        ).fetchone()
    if lowest is None:
        return ["true"]
    if not isinstance(lowest, int | Decimal | float):
        raise PipelineProblem(f"the partition column {column} of {table} is not a number")
    parts = split_range(int(lowest // 1), int(highest // 1), partitions)
    conditions = [f"{name} >= {start} AND {name} < {end + 1}" for start, end in parts]
    conditions[0] = f"({conditions[0]} OR {name} IS NULL)"
    return conditions


def _columns(table: str, dsn: str) -> list[tuple[str, str, bool]]:
    """Return name, Spark's type, and whether it is read as text, of each column."""
    import psycopg

    with connect(dsn) as connection:
        try:
            description = connection.execute(f"SELECT * FROM {_table(table)} LIMIT 0").description
        except psycopg.Error as error:
            raise PipelineProblem(f"{table}: {str(error).splitlines()[0]}") from None
    found = []
    for column in description:
        kind = psycopg.adapters.types.get(column.type_code)
        name = kind.name if kind is not None and column.type_code == kind.oid else ""
        if name == "numeric":
            found.append(
                (
                    column.name,
                    f"decimal({column.precision or 38},{column.scale or 0})"
                    if column.precision
                    else "decimal(38,18)",
                    False,
                )
            )
        else:
            found.append((column.name, SPARK_TYPES.get(name, "string"), name not in SPARK_TYPES))
    return found


def _read_jdbc(spark: Any, table: str, dsn: str, column: str, ranges: list[str]) -> Any:
    options = jdbc_options(dsn)
    url = options.pop("url")
    properties = {"driver": JDBC_DRIVER, **options}
    return spark.read.jdbc(url, table, predicates=ranges, properties=properties)


def jdbc_options(dsn: str) -> dict[str, str]:
    """Return url, user and password for Spark's JDBC reader, from a DSN of libpq."""
    from psycopg.conninfo import conninfo_to_dict

    given = {key: str(value) for key, value in conninfo_to_dict(dsn).items() if value is not None}
    host, port = given.get("host", "localhost"), given.get("port", "5432")
    url = f"jdbc:postgresql://{host}:{port}/{given.get('dbname', given.get('user', 'postgres'))}"
    return {"url": url} | {key: given[key] for key in ("user", "password") if key in given}


class _RangeReader:
    """Reads the rows that match the given conditions; runs in Spark's Python workers."""

    def __init__(self, table: str, dsn: str, columns: list[tuple[str, str, bool]]) -> None:
        self._table = table
        self._dsn = dsn
        self._columns = columns

    def read(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the rows as record batches."""
        import pyarrow as pa

        chosen = ", ".join(
            f"{_names([name])}::text" if as_text else _names([name]) for name, _, as_text in self._columns
        )
        kinds = [_arrow_type(kind) for _, kind, _ in self._columns]
        names = [name for name, _, _ in self._columns]
        for batch in batches:
            for condition in batch.column(0).to_pylist():
                with connect(self._dsn) as connection, connection.cursor(name="ottla_read") as cursor:
                    cursor.itersize = ROWS_AT_ONCE
                    cursor.execute(f"SELECT {chosen} FROM {_table(self._table)} WHERE {condition}")
                    while rows := cursor.fetchmany(ROWS_AT_ONCE):
                        arrays = [
                            pa.array(values, kind)
                            for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)
                        ]
                        yield pa.RecordBatch.from_arrays(arrays, names)


def _arrow_type(kind: str) -> Any:
    import pyarrow as pa

    if kind.startswith("decimal("):
        precision, scale = kind[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return {
        "boolean": pa.bool_(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp_ntz": pa.timestamp("us"),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }.get(kind, pa.string())
