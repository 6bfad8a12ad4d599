"""The datasets and flows that the files of a pipeline declare, by name. Pure code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from ottla.common.near_names import did_you_mean
from ottla.spark.pipelines.elements import COMPLETE, OUTPUT_MODES, TOPIC, UPSERT, Dataset, Flow, Kind
from ottla.spark.pipelines.problems import PipelineProblem, Place

# The dependency graph of datasets: their order, and cycles.


class Graph:
    """Datasets, and for each the datasets that its flows read."""

    def __init__(self, reads: Mapping[str, Iterable[str]], places: Mapping[str, Place] | None = None) -> None:
        self.reads = {name: tuple(dict.fromkeys(inputs)) for name, inputs in reads.items()}
        self._places = places or {}

    def order(self) -> list[str]:
        """Return the names in topological order; raise PipelineProblem for a cycle."""
        done: dict[str, None] = {}
        for name in self.reads:
            self._visit(name, (), done)
        return list(done)

    def upstream_of(self, name: str) -> set[str]:
        """Return everything that `name` reads, directly or indirectly."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            for each in self.reads.get(waiting.pop(), ()):
                if each not in found:
                    found.add(each)
                    waiting.append(each)
        return found

    def _visit(self, name: str, path: tuple[str, ...], done: dict[str, None]) -> None:
        if name in path:
            circle = [*path[path.index(name) :], name]
            raise PipelineProblem(
                f"{name!r} reads itself: {' <- '.join(circle)}",
                "a pipeline must not have cycles; to feed a result back, write it to a topic and "
                "read that topic",
                place=self._places.get(name),
            )
        if name in done:
            return
        for each in self.reads.get(name, ()):
            self._visit(each, (*path, name), done)
        done[name] = None


class Registry:
    """The datasets and flows of a pipeline, in the order in which they were declared."""

    def __init__(self) -> None:
        self.datasets: dict[str, Dataset] = {}
        self.flows: dict[str, Flow] = {}

    def add_dataset(self, dataset: Dataset) -> None:
        """Add a dataset; raise PipelineProblem if the name is taken."""
        _check_name(dataset.name, dataset.place)
        if (other := self.datasets.get(dataset.name)) is not None:
            raise PipelineProblem(
                f"{dataset.name!r} is declared twice", f"first: {other.place}", place=dataset.place
            )
        self.datasets[dataset.name] = dataset

    def add_flow(self, flow: Flow) -> None:
        """Add a flow; its name must be unused, its target may be declared later."""
        _check_name(flow.name, flow.place)
        if (other := self.flows.get(flow.name)) is not None:
            raise PipelineProblem(
                f"there are two flows named {flow.name!r}",
                f"first: {other.place}",
                "give one of them another name: append_flow(target=..., name=...)",
                place=flow.place,
            )
        if flow.output_mode not in OUTPUT_MODES:
            raise PipelineProblem(
                f"{flow.output_mode!r} is not an output mode",
                f"use one of {', '.join(OUTPUT_MODES)}",
                place=flow.place,
            )
        self.flows[flow.name] = flow

    def flows_into(self, name: str) -> list[Flow]:
        """Return the flows whose target is `name`."""
        return [flow for flow in self.flows.values() if flow.target == name]

    def check(self) -> None:
        """Raise PipelineProblem for a pipeline that cannot run: no flows, unknown targets, views with two
        flows.
        """
        if not self.flows:
            raise PipelineProblem(
                "the pipeline declares no flow",
                "decorate a function that returns a DataFrame with @dp.table or @dp.materialized_view",
            )
        for flow in self.flows.values():
            self._check_flow(flow)
        for dataset in self.datasets.values():
            self._check_dataset(dataset)

    def _check_flow(self, flow: Flow) -> None:
        target = self.datasets.get(flow.target)
        if target is None:
            hints = [*did_you_mean(flow.target, self.datasets)]
            hints.append(f"declare it: dp.create_streaming_table({flow.target!r}), or dp.create_sink")
            raise PipelineProblem(
                f"the target {flow.target!r} of flow {flow.name!r} is not declared",
                *hints,
                place=flow.place,
            )
        if flow.output_mode == COMPLETE and target.kind == Kind.STREAMING_TABLE and target.format != "ottla":
            raise PipelineProblem(
                f"{target.name!r} is stored in files, which are append-only: no complete mode",
                'write to a topic with format="ottla", or use @dp.materialized_view over the stream\'s table',
                place=flow.place,
            )

    def _check_dataset(self, dataset: Dataset) -> None:
        flows = self.flows_into(dataset.name)
        if dataset.kind == Kind.SINK and "path" in dataset.options and len(flows) > 1:
            raise PipelineProblem(
                f"{flows[0].name!r} and {flows[1].name!r} cannot share the files of sink {dataset.name!r}",
                "give each flow a sink with a path of its own, or unite them in one function",
                place=flows[1].place,
            )
        if dataset.kind == Kind.MATERIALIZED_VIEW and dataset.format == "ottla":
            raise PipelineProblem(
                f"the materialized view {dataset.name!r} is recomputed each time: it cannot be a topic",
                'store it in files, or write changes to the topic: @dp.table with output_mode="update"',
                place=dataset.place,
            )
        mode = dataset.options.get("mode", UPSERT).lower()
        if dataset.format == TOPIC and mode != UPSERT:
            raise PipelineProblem(
                f"{mode!r} is not a mode of a topic",
                "use upsert (a table: the newest row of each key), or leave it out",
                place=dataset.place,
            )
        if not flows:
            raise PipelineProblem(
                f"no flow writes to the {dataset.kind} {dataset.name!r}",
                f"add a function: @dp.append_flow(target={dataset.name!r})",
                place=dataset.place,
            )
        if dataset.kind in (Kind.MATERIALIZED_VIEW, Kind.TEMPORARY_VIEW) and len(flows) > 1:
            raise PipelineProblem(
                f"the {dataset.kind} {dataset.name!r} is one query, but flow {flows[1].name!r} writes "
                "to it too",
                "several flows can share a streaming table: dp.create_streaming_table",
                place=flows[1].place,
            )


_current: ContextVar[Registry | None] = ContextVar("ottla_pipeline_registry", default=None)


@contextmanager
def declaring(registry: Registry) -> Iterator[Registry]:
    """Make the decorators declare into `registry` within the block."""
    token = _current.set(registry)
    try:
        yield registry
    finally:
        _current.reset(token)


def current_registry(place: Place) -> Registry:
    """Return the registry of the pipeline that is being loaded."""
    registry = _current.get()
    if registry is None:
        raise PipelineProblem(
            "this file declares a pipeline: run it with ottla, not with python",
            f"ottla pipeline run {place.file}",
            place=place,
        )
    return registry


def _check_name(name: str, place: Place) -> None:
    if not name or not all(part.replace("_", "").replace("-", "").isalnum() for part in name.split(".")):
        raise PipelineProblem(
            f"{name!r} is not a valid name: use letters, digits, underscores, dashes and dots", place=place
        )
