"""Resolve a flow's function to its DataFrame; datasets of the pipeline are found by name.

While a function runs, `spark.table`, `spark.read.table`, `spark.readStream.table` and `spark.sql` resolve the
names that the pipeline declares, and the format `ottla` uses the pipeline's broker. The names that a function
reads are recorded: they are the edges of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import Any, Protocol

from ottla.spark.changelogs import rows_of_upserts
from ottla.spark.options import BOOTSTRAP, KAFKA
from ottla.spark.pipelines.elements import TOPIC, Dataset, Flow, Kind
from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.reader_patches import reading_through
from ottla.spark.pipelines.records import columns_of_topic_table, noting_dead_letters
from ottla.spark.pipelines.registry import Graph, Registry
from ottla.spark.pipelines.run.storage import Storage
from ottla.spark.pipelines.run.user_errors import Context, explain_error
from ottla.spark.pipelines.sql.text import relations

GROUP = f"{KAFKA}group.id"


class Samples(Protocol):
    """Rows that replace datasets in a test."""

    def read(self, spark: Any, dataset: Dataset, schema: Any, *, is_stream: bool) -> Any:
        """Return a DataFrame of the rows given for `dataset`, or None if none are given."""
        ...


class Resolver:
    """Builds the DataFrames of a pipeline's flows, once each."""

    def __init__(
        self,
        spark: Any,
        registry: Registry,
        storage: Storage,
        context: Context,
        *,
        bootstrap: str = "",
        client: Mapping[str, str] | None = None,
        name: str = "pipeline",
        samples: Samples | None = None,
        is_dry: bool = False,
    ) -> None:
        self.spark = spark
        self.registry = registry
        self.storage = storage
        self.context = context
        self._connecting = {BOOTSTRAP: bootstrap} if bootstrap else {}
        if bootstrap:
            self._connecting.update({f"{KAFKA}{key}": value for key, value in (client or {}).items()})
        self._name = name
        self._samples = samples
        self._is_dry = is_dry
        self._reads: dict[str, dict[str, None]] = {}
        self._made: dict[str, Any] = {}
        self._running: list[Flow] = []
        self.dead_letters: dict[str, None] = {}
        """The topics that flows write dead letters to."""

    @property
    def topic_options(self) -> Mapping[str, str]:
        """Options of every read of a topic: the broker, and a group named after the reader."""
        if not self._connecting:
            return {}
        group = {GROUP: f"{self._name}.{self._running[0].name}"} if self._running else {}
        return {**self._connecting, **group}

    def resolve_all(self) -> Graph:
        """Build the DataFrame of every flow; return the graph."""
        with reading_through(self):
            for flow in self.registry.flows.values():
                self.dataframe(flow)
        return self.graph()

    def graph(self) -> Graph:
        """Return the graph so far."""
        places = {name: dataset.place for name, dataset in self.registry.datasets.items()}
        reads = {name: self._reads.get(name, {}) for name in self.registry.datasets}
        return Graph(reads, places)

    def again(self, flow: Flow) -> Any:
        """Rebuild a flow's DataFrame: after a failure, or because files have changed."""
        self._made.pop(flow.name, None)
        for name in self.graph().upstream_of(flow.target):
            for view in self.registry.flows_into(name):
                self._made.pop(view.name, None)
        with reading_through(self):
            return self.dataframe(flow)

    def dataframe(self, flow: Flow) -> Any:
        """Return the DataFrame of a flow; call the user's function if it was not called yet."""
        if flow.name in self._made:
            return self._made[flow.name]
        if flow in self._running:
            self.graph().order()  # raises, naming the cycle
        self._running.append(flow)
        try:
            with noting_dead_letters() as topics:
                made = flow.function()
        except Exception as error:
            raise explain_error(error, self.context, flow.place) from None
        finally:
            self._running.pop()
        if not hasattr(made, "isStreaming"):
            raise PipelineProblem(
                f"{flow.name}() returned {type(made).__name__}, not a DataFrame",
                "end the function with: return df",
                place=flow.place,
            )
        target = self.registry.datasets.get(flow.target)
        found = (each or (target.topic if target is not None else None) for each in topics)
        self.dead_letters |= {topic: None for topic in found if topic}
        self._made[flow.name] = made
        return made

    def read_in_sql(self, text: str) -> list[str]:
        """Create temporary views of the pipeline's datasets that a query reads; return their names."""
        made = []
        for relation in relations(text):
            found = self.read(relation.name, is_stream=relation.is_stream)
            if found is not None:
                found.createOrReplaceTempView(relation.name)
                made.append(relation.name)
        return made

    def read(self, name: str, *, is_stream: bool) -> Any:
        """Return the dataset `name` as a DataFrame, or None if the pipeline does not declare it."""
        dataset = self.registry.datasets.get(name)
        if dataset is None:
            return None
        if dataset.kind == Kind.SINK:
            raise PipelineProblem(
                f"{name!r} is a sink, which cannot be read",
                "read the topic or the files that it writes to",
            )
        if self._running:
            self._reads.setdefault(self._running[-1].target, {})[name] = None
        flows = self.registry.flows_into(name)
        if self._samples is not None:
            given = self._samples.read(
                self.spark, dataset, lambda: self._schema(dataset), is_stream=is_stream
            )
            if given is not None:
                return given
        if dataset.kind == Kind.TEMPORARY_VIEW:
            return self._view(dataset, flows[0], is_stream)
        if dataset.kind == Kind.MATERIALIZED_VIEW:
            return self._materialized(dataset, flows[0], is_stream)
        if dataset.format == TOPIC:
            return self._topic_table(dataset, is_stream)
        return self._file_table(dataset, flows, is_stream)

    def _view(self, dataset: Dataset, flow: Flow, is_stream: bool) -> Any:
        found = self.dataframe(flow)
        if is_stream and not found.isStreaming:
            raise PipelineProblem(
                f"{dataset.name!r} is not a stream", f"read it with spark.read.table({dataset.name!r})"
            )
        return found

    def _materialized(self, dataset: Dataset, flow: Flow, is_stream: bool) -> Any:
        if is_stream:
            raise PipelineProblem(
                f"{dataset.name!r} is a materialized view, which is recomputed each time: it is not a stream",
                f"read it with spark.read.table({dataset.name!r})",
            )
        current = self.storage.current_view(dataset.name)
        if current is None or self._is_dry:
            return self.spark.createDataFrame([], self.dataframe(flow).schema)
        return self.spark.read.format(dataset.format).load(str(current))

    def _file_table(self, dataset: Dataset, flows: list[Flow], is_stream: bool) -> Any:
        schema = self._schema(dataset)
        parts = []
        for flow in flows:
            folder = self.storage.table(dataset.name, flow.name)
            folder.mkdir(parents=True, exist_ok=True)
            if is_stream or (folder / "_spark_metadata").exists():
                reader = self.spark.readStream if is_stream else self.spark.read
                parts.append(reader.format(dataset.format).schema(schema).load(str(folder)))
        if not parts:
            return self.spark.createDataFrame([], schema)
        return reduce(lambda one, other: one.unionByName(other), parts)

    def _topic_table(self, dataset: Dataset, is_stream: bool) -> Any:
        reader = self.spark.readStream if is_stream else self.spark.read
        options = {"subscribe": dataset.topic or "", "startingOffsets": "earliest"}
        records, schema = reader.format(TOPIC).options(**options).load(), self._schema(dataset)
        if dataset.is_upsert and "value" not in schema.fieldNames():
            return rows_of_upserts(records, schema, dataset.options, is_stream=is_stream)
        return columns_of_topic_table(records, schema)

    def _schema(self, dataset: Dataset) -> Any:
        """Return the schema of a table: declared, or that of the first flow into it."""
        from pyspark.sql.types import StructType

        if isinstance(dataset.schema, StructType):
            return dataset.schema
        if dataset.schema:
            return StructType.fromDDL(dataset.schema)
        return self.dataframe(self.registry.flows_into(dataset.name)[0]).schema


@contextmanager
def resolving(resolver: Resolver) -> Iterator[Resolver]:
    """Make readers resolve the names of a pipeline within the block."""
    with reading_through(resolver):
        yield resolver
