"""Explain a pipeline: its datasets in order, what each reads, and Spark's plans. Nothing is run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ottla.spark.pipelines.elements import TOPIC, Dataset, Flow, Kind
from ottla.spark.pipelines.registry import Registry
from ottla.spark.pipelines.resolving import Resolver, resolving
from ottla.spark.pipelines.run.driver import Job, resolver_of


@dataclass(frozen=True)
class Explained:
    """One flow."""

    flow: str
    target: str
    kind: str
    stored: str
    reads: list[str]
    output_mode: str
    is_stream: bool
    place: str
    plan: str

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)

    def as_text(self, *, with_plan: bool) -> str:
        """Return it as text."""
        flow = "" if self.flow == self.target else f" by {self.flow}"
        how = f"{'stream' if self.is_stream else 'batch'}, {self.output_mode}"
        lines = [f"{self.target}{flow}: {self.kind}{self.stored} ({how})", f"  declared  {self.place}"]
        if self.reads:
            lines.append(f"  reads     {', '.join(self.reads)}")
        if with_plan:
            lines += [f"    {line}" for line in self.plan.strip().splitlines()]
        return "\n".join(lines)


def explain_pipeline(job: Job, spark: Any, registry: Registry) -> list[Explained]:
    """Return every flow, each after those whose results it reads."""
    resolver = resolver_of(job, spark, registry, is_dry=True)
    with resolving(resolver):
        graph = resolver.resolve_all()
        return [
            _explained(flow, registry.datasets[name], [*graph.reads[name]], resolver)
            for name in graph.order()
            for flow in registry.flows_into(name)
        ]


def _explained(flow: Flow, target: Dataset, reads: list[str], resolver: Resolver) -> Explained:
    # A new DataFrame, because Spark resolves the views of SQL again when it explains a stream.
    rows = resolver.again(flow)
    return Explained(
        flow.name,
        target.name,
        target.kind.value,
        _stored(target),
        reads,
        flow.output_mode,
        rows.isStreaming,
        str(flow.place),
        plan_of(resolver.spark, rows),
    )


def plan_of(spark: Any, rows: Any) -> str:
    """Return Spark's plan of a DataFrame as text."""
    utils = spark._jvm.org.apache.spark.sql.api.python.PythonSQLUtils
    return str(utils.explainString(rows._jdf.queryExecution(), "simple"))


def _stored(dataset: Dataset) -> str:
    if dataset.kind == Kind.TEMPORARY_VIEW:
        return ""
    if dataset.format == TOPIC:
        return f" in topic {dataset.topic}" if dataset.topic else " in the topics that its rows name"
    where = dataset.options.get("path") or dataset.options.get("table")
    return f" in {dataset.format}{f' {where}' if where else ''}"
