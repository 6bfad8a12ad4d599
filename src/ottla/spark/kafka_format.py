"""Let jobs that say `format("kafka")` run on the format `ottla`, unchanged.

    spark = session("orders", conf={"spark.ottla.kafka": "true"})      # or, in any session:
    from ottla.spark import use_for_kafka; use_for_kafka()

Spark reserves the name `kafka` for its own connector, so the name is replaced where a job gives it: in the
readers and writers of this process, also those of Spark Connect. What the connector does and a Python sink
does not is made up for: a table is appended to without `mode`, and update mode goes through foreachBatch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from ottla.spark.batch_plans import identify_batches
from ottla.spark.runtime.active_session import write_from_threads

KAFKA, OTTLA = "kafka", "ottla"
SETTING = "spark.ottla.kafka"
UPDATE = "update"


def use_for_kafka() -> None:
    """Replace the format `kafka` by `ottla` in all readers and writers of this process."""
    from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

    kinds: list[Any] = [DataFrameReader, DataFrameWriter, DataStreamReader, DataStreamWriter]
    kinds += _connect_kinds()
    for kind in kinds:
        if hasattr(kind, "_ottla_for_kafka"):
            continue
        kind._ottla_for_kafka = True
        is_table_writer = "StreamWriter" not in kind.__name__ and "Writer" in kind.__name__
        kind.format = _replacing(kind.format, is_table_writer=is_table_writer)
        for method in ("load", "save", "start", "toTable"):
            if hasattr(kind, method):
                setattr(kind, method, _with_format(getattr(kind, method)))
        if "StreamWriter" in kind.__name__:
            _offer_update_mode(kind)
    write_from_threads()
    identify_batches()


def _connect_kinds() -> list[Any]:
    try:
        from pyspark.sql.connect import readwriter
        from pyspark.sql.connect.streaming import readwriter as streaming
    except ImportError:  # Spark Connect needs packages of its own
        return []
    return [
        readwriter.DataFrameReader,
        readwriter.DataFrameWriter,
        streaming.DataStreamReader,
        streaming.DataStreamWriter,
    ]


def _replacing(method: Callable[..., Any], *, is_table_writer: bool) -> Callable[..., Any]:
    @wraps(method)
    def format(self: Any, source: str) -> Any:
        if source.lower() != KAFKA:
            self._ottla_is_kafka = False
            return method(self, source)
        self._ottla_is_kafka = True
        found = method(self, OTTLA)
        return found.mode("append") if is_table_writer else found

    return format


def _with_format(method: Callable[..., Any]) -> Callable[..., Any]:
    """Replace the format where it is an argument: `load(format="kafka")`."""
    parameters = signature(method).parameters

    @wraps(method)
    def run(self: Any, *args: Any, **options: Any) -> Any:
        if "format" in parameters:
            at = list(parameters).index("format") - 1
            given = options.pop("format", None) or (args[at] if len(args) > at else None)
            if given is not None:
                args = (*args[:at], None, *args[at + 1 :]) if len(args) > at else args
                self.format(given)
        return method(self, *args, **options)

    return run


def _offer_update_mode(kind: Any) -> None:
    """Let a query in update mode write each batch through foreachBatch: exactly once all the same."""
    kind.option = _keeping(kind.option, lambda given: {given["key"]: given["value"]})
    kind.options = _keeping(kind.options, lambda given: given.get("options", {}))
    set_mode, start = kind.outputMode, kind.start

    @wraps(set_mode)
    def output_mode(self: Any, outputMode: str) -> Any:  # noqa: N803
        self._ottla_mode = outputMode
        return set_mode(self, outputMode)

    @wraps(start)
    def start_query(self: Any, *args: Any, **options: Any) -> Any:
        is_update = str(getattr(self, "_ottla_mode", "")).lower() == UPDATE
        if not (is_update and getattr(self, "_ottla_is_kafka", False)):
            return start(self, *args, **options)
        given = {**getattr(self, "_ottla_options", {}), **options}
        return start(self.foreachBatch(_writer_of_batches(given)), *args, **options)

    kind.outputMode, kind.start = output_mode, start_query


def _keeping(method: Callable[..., Any], read: Callable[[Any], Any]) -> Callable[..., Any]:
    parameters = signature(method)

    @wraps(method)
    def keep(self: Any, *args: Any, **named: Any) -> Any:
        given = read(parameters.bind(self, *args, **named).arguments)
        self._ottla_options = {**getattr(self, "_ottla_options", {}), **given}
        return method(self, *args, **named)

    return keep


OF_THE_QUERY = ("checkpointlocation", "queryname", "outputmode", "path")


def _writer_of_batches(options: dict[str, Any]) -> Callable[[Any, int], None]:
    mine = {key: value for key, value in options.items() if key.lower() not in OF_THE_QUERY}

    def write(batch: Any, batch_id: int) -> None:
        batch.write.format(OTTLA).options(**mine).mode("append").save()

    return write
