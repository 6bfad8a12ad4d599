"""Files that say `from pyspark import pipelines as dp`: Spark's decorators, our registry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ottla.spark.pipelines.elements import PARQUET, Dataset, Flow, Kind
from ottla.spark.pipelines.problems import PipelineProblem, Place
from ottla.spark.pipelines.registry import Registry

KINDS = {
    "StreamingTable": Kind.STREAMING_TABLE,
    "MaterializedView": Kind.MATERIALIZED_VIEW,
    "TemporaryView": Kind.TEMPORARY_VIEW,
    "Sink": Kind.SINK,
}


@contextmanager
def declaring_from_spark(registry: Registry) -> Iterator[None]:
    """Let the decorators of `pyspark.pipelines` that run meanwhile declare into `registry`."""
    from pyspark.pipelines.graph_element_registry import (
        GraphElementRegistry,
        graph_element_registration_context,
    )

    class Adapter(GraphElementRegistry):
        """Spark's registry, in front of ours."""

        def register_output(self, output: Any) -> None:
            registry.add_dataset(_dataset(output))

        def register_flow(self, flow: Any) -> None:
            place = _place(flow.source_code_location)
            registry.add_flow(
                Flow(flow.name, flow.target, flow.func, place, spark_conf=dict(flow.spark_conf))
            )

        def register_auto_cdc_flow(self, flow: Any) -> None:
            raise PipelineProblem(
                "Spark's create_auto_cdc_flow needs Spark Connect",
                "use ours: from ottla.spark import pipelines as dp; dp.as_changelog(...)",
                place=_place(flow.source_code_location),
            )

        def register_sql(self, sql_text: str, file_path: Path) -> None:
            raise PipelineProblem("SQL files are read by the runner itself", place=Place(str(file_path)))

    with graph_element_registration_context(Adapter()):
        yield


def _dataset(output: Any) -> Dataset:
    options = getattr(output, "options", None) or getattr(output, "table_properties", None) or {}
    return Dataset(
        output.name,
        KINDS[type(output).__name__],
        _place(output.source_code_location),
        format=getattr(output, "format", None) or PARQUET,
        options={key: str(value) for key, value in options.items()},
        partition_cols=tuple(getattr(output, "partition_cols", None) or ()),
        schema=getattr(output, "schema", None),
        comment=output.comment or "",
    )


def _place(location: Any) -> Place:
    return Place(location.filename, location.line_number or 0)
