"""`ottla pipeline copy`: a pipeline of one flow, between a topic, files and PostgreSQL."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.common.near_names import did_you_mean
from ottla.spark.pipelines.elements import Dataset, Flow, Kind
from ottla.spark.pipelines.files import UNITS, partition_by_time, read_files, read_topic
from ottla.spark.pipelines.postgres.read import read_postgres
from ottla.spark.pipelines.problems import PipelineProblem, Place
from ottla.spark.pipelines.registry import Registry

TOPIC, POSTGRES = "topic", "postgres"
FILES = ("parquet", "json", "csv")
KINDS = (TOPIC, *FILES, POSTGRES)


@dataclass(frozen=True)
class Endpoint:
    """One end of a copy: `topic:orders`, `parquet:/data/orders`, `postgres:public.orders`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True)
class Copy:
    """What to copy, and how."""

    source: Endpoint
    target: Endpoint
    key: str = ""
    schema: str = ""
    partition_by: str = ""
    event_time: str = ""
    dsn: str = ""
    partition_column: str = ""
    partitions: int = 1

    @property
    def name(self) -> str:
        """The name of the pipeline: repeating a copy resumes it."""
        text = f"{self.source} {self.target}"
        ending = hashlib.sha256(text.encode()).hexdigest()[:8]
        last = [Path(each.name).name or each.kind for each in (self.source, self.target)]
        return "copy-" + "-".join([*last, ending])


def parse_endpoint(text: str) -> Endpoint:
    """Parse `kind:name`; raise PipelineProblem with a similar kind for an unknown one."""
    kind, colon, name = text.partition(":")
    if not colon or kind not in KINDS or not name:
        raise PipelineProblem(
            f"{text!r} is not a source or target",
            *did_you_mean(kind, KINDS),
            "write topic:NAME, parquet:PATH, json:PATH, csv:PATH or postgres:TABLE",
        )
    return Endpoint(kind, str(Path(name).absolute()) if kind in FILES else name)


def check_copy(copy: Copy) -> None:
    """Raise PipelineProblem for contradicting options."""
    if copy.schema and copy.source.kind != TOPIC and copy.source.kind not in FILES:
        raise PipelineProblem("--schema is for topics and files; PostgreSQL tables have their columns")
    if copy.partition_by and copy.target.kind not in FILES:
        raise PipelineProblem("--partition-by is for files")
    if copy.key and copy.target.kind in FILES:
        raise PipelineProblem("--key is for topics and for PostgreSQL")
    if copy.source.kind == TOPIC and copy.target.kind == POSTGRES and not copy.schema:
        raise PipelineProblem(
            "copying from a topic to PostgreSQL needs columns",
            "name them: --schema 'id INT, name STRING'",
        )


def declare_copy(copy: Copy, spark: Any) -> Registry:
    """Return the registry of the pipeline."""
    check_copy(copy)
    registry = Registry()
    here = Place(f"{copy.source} -> {copy.target}")
    registry.add_dataset(_target(copy, here))
    registry.add_flow(Flow("copy", "target", lambda: _rows(copy, spark), here))
    return registry


def _target(copy: Copy, here: Place) -> Dataset:
    def sink(format: str, **options: str) -> Dataset:
        given = {key: value for key, value in options.items() if value}
        return Dataset("target", Kind.SINK, here, format=format, options=given)

    if copy.target.kind == TOPIC:
        return sink("ottla", topic=copy.target.name, key=copy.key)
    if copy.target.kind == POSTGRES:
        return sink("postgres", table=copy.target.name, key=copy.key, dsn=copy.dsn)
    header = "true" if copy.target.kind == "csv" else ""
    return sink(copy.target.kind, path=copy.target.name, partition_by=copy.partition_by, header=header)


def _rows(copy: Copy, spark: Any) -> Any:
    read: dict[str, Callable[[], Any]] = {
        TOPIC: lambda: _from_topic(copy, spark),
        POSTGRES: lambda: read_postgres(
            copy.source.name,
            dsn=copy.dsn,
            partition_column=copy.partition_column,
            partitions=copy.partitions,
            spark=spark,
        ),
    }
    files = lambda: read_files(copy.source.name, copy.source.kind, schema=copy.schema or None, spark=spark)  # noqa: E731
    rows = read.get(copy.source.kind, files)()
    if copy.partition_by in UNITS and copy.partition_by not in rows.columns:
        rows = partition_by_time(rows, copy.event_time or "timestamp", copy.partition_by)
    if copy.source.kind == TOPIC and copy.schema and not copy.event_time and copy.partition_by in UNITS:
        rows = rows.drop("timestamp")
    return rows


def _from_topic(copy: Copy, spark: Any) -> Any:
    if copy.schema:
        keep = ("timestamp",) if copy.partition_by in UNITS and not copy.event_time else ()
        return read_topic(copy.source.name, schema=copy.schema, keep=keep, spark=spark)
    records = read_topic(copy.source.name, spark=spark, includeHeaders="true")
    if copy.target.kind == TOPIC:
        return records.select("key", "value", "headers")
    if copy.target.kind == "parquet":
        return records.drop("timestampType")
    # JSON and CSV files contain text.
    columns = [
        "CAST(key AS STRING) AS key",
        "CAST(value AS STRING) AS value",
        "partition",
        "offset",
        "timestamp",
    ]
    return records.selectExpr(*columns)
