"""Patch Spark's readers to resolve the names of a pipeline while its functions run.

PySpark has no extension point for this: a temporary view must exist before it is read, and does not report
its readers. So four methods look up a name in the pipeline first, and the format `ottla` gets the
pipeline's broker by default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import RLock, get_ident
from typing import Any, Protocol


class Lookup(Protocol):
    """What the patched readers call."""

    @property
    def topic_options(self) -> Mapping[str, str]:
        """Options of every read of a topic."""
        ...

    def read(self, name: str, *, is_stream: bool) -> Any:
        """Return the dataset of that name, or None."""
        ...

    def read_in_sql(self, text: str) -> list[str]:
        """Create views of the datasets that a query reads; return their names."""
        ...


_depth = 0
_one_at_a_time = RLock()
"""Pipelines of one driver resolve their flows one after another: the patches are of the whole process."""


@contextmanager
def reading_through(lookup: Lookup) -> Iterator[None]:
    """Patch the readers within the block, for this thread; nested calls share the outermost patch."""
    with _one_at_a_time:
        if _depth:
            yield
        else:
            with _patched(ThreadLocalLookup(lookup)):
                yield


class ThreadLocalLookup:
    """A lookup for the thread that has made it; other threads find nothing."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._thread = get_ident()

    @property
    def topic_options(self) -> Mapping[str, str]:
        """Options of every read of a topic."""
        return self._lookup.topic_options if get_ident() == self._thread else {}

    def read(self, name: str, *, is_stream: bool) -> Any:
        """Return the dataset of that name, or None."""
        return self._lookup.read(name, is_stream=is_stream) if get_ident() == self._thread else None

    def read_in_sql(self, text: str) -> list[str]:
        """Create views of the datasets that a query reads; return their names."""
        return self._lookup.read_in_sql(text) if get_ident() == self._thread else []


@contextmanager
def _patched(lookup: Lookup) -> Iterator[None]:
    global _depth
    from pyspark.sql import DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

    views: dict[str, Any] = {}
    patches = [
        (SparkSession, "table", _table(SparkSession.table, lookup, is_stream=False)),
        (SparkSession, "sql", _sql(SparkSession.sql, lookup, views)),
        (DataFrameReader, "table", _table(DataFrameReader.table, lookup, is_stream=False)),
        (DataFrameReader, "format", _format(DataFrameReader.format, lookup)),
        (DataStreamReader, "table", _table(DataStreamReader.table, lookup, is_stream=True)),
        (DataStreamReader, "format", _format(DataStreamReader.format, lookup)),
    ]
    before = [(owner, name, owner.__dict__[name]) for owner, name, _ in patches]
    _depth += 1
    try:
        for owner, name, patched in patches:
            setattr(owner, name, patched)
        yield
    finally:
        _depth -= 1
        for owner, name, original in before:
            setattr(owner, name, original)
        for name, spark in views.items():
            spark.catalog.dropTempView(name)


def _table(original: Any, lookup: Lookup, *, is_stream: bool) -> Any:
    def table(self: Any, tableName: str, *args: Any, **more: Any) -> Any:  # noqa: N803 (Spark's name)
        found = lookup.read(tableName, is_stream=is_stream)
        return original(self, tableName, *args, **more) if found is None else found

    return table


def _sql(original: Any, lookup: Lookup, views: dict[str, Any]) -> Any:
    def sql(self: Any, sqlQuery: str, *args: Any, **more: Any) -> Any:  # noqa: N803 (Spark's name)
        views.update(dict.fromkeys(lookup.read_in_sql(sqlQuery), self))
        return original(self, sqlQuery, *args, **more)

    return sql


def _format(original: Any, lookup: Lookup) -> Any:
    def format(self: Any, source: str) -> Any:
        reader = original(self, source)
        return (
            reader.options(**lookup.topic_options) if source == "ottla" and lookup.topic_options else reader
        )

    return format
