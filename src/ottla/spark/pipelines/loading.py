"""Run the files of a project, so that they declare their datasets and flows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ottla.spark.pipelines.elements import PARQUET, Dataset, Flow, Kind
from ottla.spark.pipelines.problems import PipelineProblem, Place
from ottla.spark.pipelines.project import Project
from ottla.spark.pipelines.registry import Registry, declaring
from ottla.spark.pipelines.run.user_errors import Context, explain_error, place_in_sql
from ottla.spark.pipelines.sql.files import declare_sql

# Support for `from pyspark import pipelines as dp`: Spark's decorators, our registry.

KINDS = {
    "StreamingTable": Kind.STREAMING_TABLE,
    "MaterializedView": Kind.MATERIALIZED_VIEW,
    "TemporaryView": Kind.TEMPORARY_VIEW,
    "Sink": Kind.SINK,
}


@contextmanager
def declaring_from_spark(registry: Registry) -> Iterator[None]:
    """Make the decorators of `pyspark.pipelines` declare into `registry` within the block."""
    from pyspark.pipelines.graph_element_registry import (
        GraphElementRegistry,
        graph_element_registration_context,
    )

    class Adapter(GraphElementRegistry):
        """An adapter from Spark's registry to ours."""

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
            raise PipelineProblem("SQL files are read by the runner", place=Place(str(file_path)))

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


def compile_project(project: Project) -> dict[Path, CodeType]:
    """Compile the Python files: syntax errors are found before Spark starts."""
    compiled = {}
    for file in project.files:
        if file.suffix == ".py":
            try:
                compiled[file] = compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
            except (SyntaxError, ValueError) as error:
                raise explain_error(error, Context(project.files), Place(str(file))) from None
    return compiled


def load_project(project: Project, spark: Any, compiled: Mapping[Path, CodeType] | None = None) -> Registry:
    """Run the files of a project, with `spark` as a global; return their registry."""
    registry = Registry()
    compiled = compile_project(project) if compiled is None else compiled
    context = Context(project.files)
    with declaring(registry), declaring_from_spark(registry), _importable(project.folder):
        for file in project.files:
            try:
                if file.suffix == ".py":
                    _run(file, compiled[file], spark)
                else:
                    text = file.read_text(encoding="utf-8")
                    declare_sql(text, str(file), registry, _query(spark, context), _loader(spark))
            except Exception as error:
                raise explain_error(error, context, Place(str(file))) from None
    registry.check()
    return registry


def _run(file: Path, code: CodeType, spark: Any) -> None:
    # The module is not in sys.modules: so Spark pickles its functions by value, and workers need no file.
    module = ModuleType(file.stem)
    module.__file__ = str(file)
    module.__dict__["spark"] = spark
    exec(code, module.__dict__)


def _query(spark: Any, context: Context) -> Callable[[str, Place], Any]:
    def query(text: str, place: Place) -> Any:
        try:
            return spark.sql(text)
        except PipelineProblem:
            raise
        except Exception as error:
            problem = explain_error(error, context, place)
            raise PipelineProblem(
                problem.what, *problem.hints, place=place_in_sql(error, place, text)
            ) from error

    return query


def _loader(spark: Any) -> Callable[[str, dict[str, str], Place], Any]:
    def load(format: str, options: dict[str, str], place: Place) -> Any:
        # A topic is a stream by default; files and tables are batches, unless their reader is a stream
        # reader.
        is_stream = options.get("stream", "true" if format == "ottla" else "false").lower() == "true"
        given = {key: value for key, value in options.items() if key != "stream"}
        reader = spark.readStream if is_stream else spark.read
        return reader.format(format).options(**given).load()

    return load


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Make the neighbours of the files importable."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
