"""Declarative pipelines: PySpark functions with decorators, SQL files, and their runner.

    from ottla.spark import pipelines as dp

    @dp.table(format="ottla", options={"topic": "revenue", "key": "item"})
    def revenue():
        orders = dp.read_topic("orders", schema="item STRING, price DOUBLE, at TIMESTAMP")
        return orders.groupBy("item")...

Reading order:

    language, sql/              what users write: decorators and SQL files
    elements, registry          datasets, flows and their graph: pure code
    project, spec, loading      from a path to a registry
    resolving, reader_patches   from a flow's function to its DataFrame, by names
    run/                        the driver: queries, restarts, state, errors
    records, files, postgres/   JSON, dead letters, changelogs; files; PostgreSQL tables
    copying, explaining, scaffold, testing/     the other `ottla pipeline` commands
    problems                    errors with the user's file and line

`ottla pipeline` is the command; docs/pipelines.md the tutorial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.common.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ottla.spark.pipelines.files import partition_by_time as partition_by_time
    from ottla.spark.pipelines.files import read_changelog as read_changelog
    from ottla.spark.pipelines.files import read_files as read_files
    from ottla.spark.pipelines.files import read_topic as read_topic
    from ottla.spark.pipelines.language import append_flow as append_flow
    from ottla.spark.pipelines.language import create_sink as create_sink
    from ottla.spark.pipelines.language import create_streaming_table as create_streaming_table
    from ottla.spark.pipelines.language import materialized_view as materialized_view
    from ottla.spark.pipelines.language import table as table
    from ottla.spark.pipelines.language import temporary_view as temporary_view
    from ottla.spark.pipelines.postgres.read import read_postgres as read_postgres
    from ottla.spark.pipelines.records import Parsed as Parsed
    from ottla.spark.pipelines.records import as_changelog as as_changelog
    from ottla.spark.pipelines.records import as_records as as_records
    from ottla.spark.pipelines.records import dead_letters as dead_letters
    from ottla.spark.pipelines.records import latest_per_key as latest_per_key
    from ottla.spark.pipelines.records import parse_json as parse_json

_HOMES = {
    "Parsed": "ottla.spark.pipelines.records",
    "append_flow": "ottla.spark.pipelines.language",
    "as_changelog": "ottla.spark.pipelines.records",
    "as_records": "ottla.spark.pipelines.records",
    "create_sink": "ottla.spark.pipelines.language",
    "create_streaming_table": "ottla.spark.pipelines.language",
    "dead_letters": "ottla.spark.pipelines.records",
    "latest_per_key": "ottla.spark.pipelines.records",
    "materialized_view": "ottla.spark.pipelines.language",
    "parse_json": "ottla.spark.pipelines.records",
    "partition_by_time": "ottla.spark.pipelines.files",
    "read_changelog": "ottla.spark.pipelines.files",
    "read_files": "ottla.spark.pipelines.files",
    "read_postgres": "ottla.spark.pipelines.postgres.read",
    "read_topic": "ottla.spark.pipelines.files",
    "table": "ottla.spark.pipelines.language",
    "temporary_view": "ottla.spark.pipelines.language",
}
"""Where each public name lives; it is imported when it is first used."""

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
