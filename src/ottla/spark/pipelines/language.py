"""The decorators, with the names and arguments of Spark's Declarative Pipelines.

A decorated function is returned unchanged, so that a test can call it. Beyond Spark's own arguments:
`output_mode` (append, update, complete) and `trigger` ("10 seconds") of a flow, `format` and `options` of a
table (`format="ottla"` stores it in a topic).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

from ottla.spark.pipelines.elements import APPEND, PARQUET, Dataset, Flow, Kind, QueryFunction
from ottla.spark.pipelines.problems import PipelineProblem, Place
from ottla.spark.pipelines.registry import current_registry

Function = TypeVar("Function", bound=QueryFunction)


@overload
def table(query_function: Function) -> Function: ...
@overload
def table(
    *,
    name: str | None = None,
    comment: str = "",
    spark_conf: Mapping[str, str] | None = None,
    table_properties: Mapping[str, str] | None = None,
    partition_cols: Sequence[str] | None = None,
    cluster_by: Sequence[str] | None = None,
    schema: Any = None,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    output_mode: str = APPEND,
    trigger: str = "",
) -> Callable[[Function], Function]: ...
def table(query_function: Any = None, *, output_mode: str = APPEND, trigger: str = "", **stored: Any) -> Any:
    """Declare a streaming table and the query that fills it."""
    return _stored(Kind.STREAMING_TABLE, _caller(), query_function, stored, output_mode, trigger)


@overload
def materialized_view(query_function: Function) -> Function: ...
@overload
def materialized_view(
    *,
    name: str | None = None,
    comment: str = "",
    spark_conf: Mapping[str, str] | None = None,
    table_properties: Mapping[str, str] | None = None,
    partition_cols: Sequence[str] | None = None,
    cluster_by: Sequence[str] | None = None,
    schema: Any = None,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Callable[[Function], Function]: ...
def materialized_view(query_function: Any = None, **stored: Any) -> Any:
    """Declare a table that a batch query recomputes, and the query."""
    return _stored(Kind.MATERIALIZED_VIEW, _caller(), query_function, stored, APPEND, "")


@overload
def temporary_view(query_function: Function) -> Function: ...
@overload
def temporary_view(
    *, name: str | None = None, comment: str = "", spark_conf: Mapping[str, str] | None = None
) -> Callable[[Function], Function]: ...
def temporary_view(query_function: Any = None, **stored: Any) -> Any:
    """Name a query, so that other queries of the pipeline can read it; nothing is stored."""
    return _stored(Kind.TEMPORARY_VIEW, _caller(), query_function, stored, APPEND, "")


def append_flow(
    *,
    target: str,
    name: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    output_mode: str = APPEND,
    trigger: str = "",
) -> Callable[[Function], Function]:
    """Declare a query that writes to a streaming table or sink which is declared elsewhere."""
    place = _caller()

    def declare(function: Function) -> Function:
        flow = Flow(
            name or function.__name__,
            target,
            function,
            place,
            output_mode=output_mode,
            spark_conf=dict(spark_conf or {}),
            trigger=trigger,
        )
        current_registry(place).add_flow(flow)
        return function

    return declare


def create_streaming_table(
    name: str,
    *,
    comment: str = "",
    table_properties: Mapping[str, str] | None = None,
    partition_cols: Sequence[str] | None = None,
    cluster_by: Sequence[str] | None = None,
    schema: Any = None,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
) -> None:
    """Declare a streaming table that flows declared elsewhere fill."""
    place = _caller()
    stored = {
        "comment": comment,
        "table_properties": table_properties,
        "partition_cols": partition_cols,
        "cluster_by": cluster_by,
        "schema": schema,
        "format": format,
        "options": options,
    }
    current_registry(place).add_dataset(_dataset(Kind.STREAMING_TABLE, name, place, stored))


def create_sink(name: str, format: str, options: Mapping[str, str] | None = None) -> None:
    """Declare a target outside the pipeline: a topic, files, PostgreSQL, ...

    dp.create_sink("revenue", "ottla", {"topic": "revenue"})
    dp.create_sink("archive", "parquet", {"path": "/data/orders"})
    dp.create_sink("stock", "postgres", {"table": "stock", "key": "item"})
    """
    place = _caller()
    sink = Dataset(name, Kind.SINK, place, format=format, options=_texts(options))
    current_registry(place).add_dataset(sink)


def _stored(
    kind: Kind,
    place: Place,
    function: QueryFunction | None,
    stored: dict[str, Any],
    output_mode: str,
    trigger: str,
) -> Any:
    spark_conf = stored.pop("spark_conf", None) or {}
    given_name = stored.pop("name", None)

    def declare(function: Function) -> Function:
        if not callable(function):
            raise PipelineProblem(
                "the decorator is not applied to a function",
                'with arguments write @dp.table(name="..."), without them @dp.table',
                place=place,
            )
        name = given_name or function.__name__
        registry = current_registry(place)
        registry.add_dataset(_dataset(kind, name, place, stored))
        registry.add_flow(
            Flow(name, name, function, place, output_mode, spark_conf=dict(spark_conf), trigger=trigger)
        )
        return function

    return declare if function is None else declare(function)


def _dataset(kind: Kind, name: str, place: Place, stored: dict[str, Any]) -> Dataset:
    given = dict(stored)
    options = _texts(given.pop("table_properties", None)) | _texts(given.pop("options", None))
    # Clustering is a hint for stores that support it; Parquet files do not.
    given.pop("cluster_by", None)
    known = {"comment", "partition_cols", "schema", "format"}
    if unknown := sorted(set(given) - known):
        raise PipelineProblem(f"unknown argument {unknown[0]!r}", place=place)
    return Dataset(
        name,
        kind,
        place,
        format=given.get("format") or PARQUET,
        options=options,
        partition_cols=tuple(given.get("partition_cols") or ()),
        schema=given.get("schema"),
        comment=given.get("comment") or "",
    )


def _texts(options: Mapping[str, Any] | None) -> dict[str, str]:
    return {key: str(value) for key, value in (options or {}).items()}


def _caller() -> Place:
    """Return the line in the user's file that called the caller of this function."""
    frame = sys._getframe(2)
    return Place(frame.f_code.co_filename, frame.f_lineno)
