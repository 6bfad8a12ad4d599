"""The elements of a pipeline: datasets, sinks and flows. Plain data, no Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ottla.spark.pipelines.problems import Place

QueryFunction = Callable[[], Any]
"""A user's function: no arguments, returns a DataFrame."""


class Kind(StrEnum):
    """The kind of a dataset."""

    STREAMING_TABLE = "streaming table"
    MATERIALIZED_VIEW = "materialized view"
    TEMPORARY_VIEW = "temporary view"
    SINK = "sink"


APPEND, UPDATE, COMPLETE = OUTPUT_MODES = ("append", "update", "complete")

PARQUET, TOPIC, POSTGRES = "parquet", "ottla", "postgres"
"""Formats that the runner knows: files in its storage, a topic, a PostgreSQL table."""

UPSERT = "upsert"
"""The option `mode` of a topic: it is a table, with the newest row of each key."""
TABLE_OPTIONS = ("key", "mode", "deleted", "sequence_by")
"""Options of a topic that are not for the sink."""


@dataclass(frozen=True)
class Dataset:
    """A named target of flows, which (except for sinks) can be read."""

    name: str
    kind: Kind
    place: Place
    format: str = PARQUET
    options: Mapping[str, str] = field(default_factory=dict)
    partition_cols: tuple[str, ...] = ()
    schema: Any = None
    comment: str = ""

    @property
    def topic(self) -> str | None:
        """The topic it is stored in, if it is one topic."""
        return self.options.get("topic", self.name if self.kind != Kind.SINK else None)

    @property
    def is_upsert(self) -> bool:
        """Whether it is a topic with the newest row of each key."""
        return self.format == TOPIC and self.options.get("mode", "").lower() == UPSERT


@dataclass(frozen=True)
class Flow:
    """A query whose result goes into a dataset or sink."""

    name: str
    target: str
    function: QueryFunction
    place: Place
    output_mode: str = APPEND
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    trigger: str = ""
    """The trigger interval, e.g. "10 seconds"; empty: as soon as there is data."""
