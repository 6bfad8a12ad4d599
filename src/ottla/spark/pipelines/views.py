"""Materialized views: computed at the start, and anew when what they read has changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ottla.common.clock import Clock
from ottla.spark.pipelines.elements import Dataset, Kind
from ottla.spark.pipelines.graph import Graph
from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.progress import WAITING, FlowProgress
from ottla.spark.pipelines.resolving import Resolver
from ottla.spark.pipelines.user_errors import explain_error


class ViewKeeper:
    """Computes the materialized views of a pipeline."""

    def __init__(self, resolver: Resolver, clock: Clock, refresh_ms: int) -> None:
        self._resolver = resolver
        self._clock = clock
        self._refresh_ms = refresh_ms
        self._computed_ms: dict[str, int] = {}
        self._changed: dict[str, None] = {}
        self._progress: dict[str, FlowProgress] = {}

    def changed(self, name: str, graph: Graph) -> None:
        """Note that a dataset has new rows: the views that read it are out of date."""
        for view in self._computed_ms:
            if name in graph.upstream_of(view):
                self._changed[view] = None

    def refresh_due(self, busy: set[str]) -> None:
        """Compute the views that are out of date: not too often, but at once when nothing runs any more."""
        now_ms = self._clock.mono_ms()
        for name in list(self._changed):
            if not busy or now_ms - self._computed_ms[name] >= self._refresh_ms:
                self.compute(self._resolver.registry.datasets[name])

    def compute(self, dataset: Dataset) -> None:
        """Compute a view, and make the result the current one in one step."""
        assert dataset.kind == Kind.MATERIALIZED_VIEW
        flow = self._resolver.registry.flows_into(dataset.name)[0]
        before = self._progress.get(dataset.name, FlowProgress(flow.name, dataset.name))
        started_ms = self._clock.mono_ms()
        rows = self._resolver.again(flow)
        if rows.isStreaming:
            raise PipelineProblem(
                f"{dataset.name!r} is a stream, and a materialized view is computed from what is there",
                "read with spark.read, or declare it with @dp.table",
                place=flow.place,
            )
        version = str(self._clock.wall_ms())
        try:
            self._write(dataset, rows, version)
        except Exception as error:
            raise explain_error(error, self._resolver.context, flow.place) from None
        self._resolver.storage.publish_view(dataset.name, version)
        now_ms = self._clock.mono_ms()
        self._computed_ms[dataset.name] = now_ms
        self._changed.pop(dataset.name, None)
        self._progress[dataset.name] = replace(
            before,
            state=WAITING,
            batch=(-1 if before.batch is None else before.batch) + 1,
            batch_ms=now_ms - started_ms,
        )

    def progress(self) -> list[FlowProgress]:
        """Return how far the views are."""
        return list(self._progress.values())

    def _write(self, dataset: Dataset, rows: Any, version: str) -> None:
        writer = rows.write.format(dataset.format).options(**dataset.options).mode("overwrite")
        if dataset.partition_cols:
            writer = writer.partitionBy(*dataset.partition_cols)
        writer.save(str(self._resolver.storage.view(dataset.name) / version))
