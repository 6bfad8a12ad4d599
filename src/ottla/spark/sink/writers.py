"""The writers that Spark calls: of a stream, or of a batch (perhaps of a stream, in foreachBatch).

Spark creates these objects in a process of their own, only to pickle them: so modules are imported where they
are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.common.ids import new_uuid
from ottla.spark.errors import SparkError, WrongOption
from ottla.spark.sink.decisions import MAIN, SinkKey
from ottla.spark.sink.rows import Layout, layout_of
from ottla.spark.sink.writing import SinkOptions, Target, read_sink_options
from ottla.spark.worker import TaskInfo, task_info

if TYPE_CHECKING:
    from ottla.spark.sink.writing import TaskCommitMessage

Messages = Sequence[WriterCommitMessage | None]


class Writer:
    """The common part of both writers."""

    def __init__(self, options: SinkOptions, layout: Layout) -> None:
        self._options = options
        self._layout = layout
        self._writer_id = new_uuid().hex

    def write(self, iterator: Iterator[Any]) -> TaskCommitMessage:
        """Write the rows of one task."""
        from ottla.spark.sink.writing import write_at_least_once, write_exactly_once

        place = task_info()
        if not self._options.is_exactly_once:
            return write_at_least_once(iterator, self._layout, self._options)
        target = self._target(place)
        return write_exactly_once(iterator, target, self._layout, self._options, place)

    def _target(self, place: TaskInfo) -> Target:
        raise SparkError("a task without a target")  # each of the two writers overrides it


class StreamWriter(Writer, DataSourceStreamArrowWriter):
    """Writes the batches of a stream."""

    def _target(self, place: TaskInfo) -> Target:
        if place.query_id is None or place.batch_id is None:
            raise SparkError("Spark does not provide the query and the batch of this task")
        key = SinkKey(place.query_id, self._options.sink or MAIN)
        # The writer is another object on the driver: within a stream, one batch is written once.
        return Target(key, place.batch_id, _run(place), "stream")

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        """Commit a batch."""
        from ottla.spark.sink.committing import commit_batch

        commit_batch(cast("Sequence[TaskCommitMessage | None]", messages), self._options)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        """Give a batch up."""
        from ottla.spark.sink.committing import abort_batch

        abort_batch(cast("Sequence[TaskCommitMessage | None]", messages), self._options)


class BatchWriter(Writer, DataSourceArrowWriter):
    """Writes a table; inside foreachBatch, a batch of a stream."""

    def _target(self, place: TaskInfo) -> Target:
        if place.query_id is not None and place.batch_id is not None:
            key = SinkKey(place.query_id, self._options.sink or self._layout.topic or "topics")
            writer = f"{place.execution}/{self._writer_id}"
            return Target(key, place.batch_id, _run(place), writer, place.batch_plan)
        if place.is_of_stream:
            raise SparkError(
                "this write of foreachBatch runs in a thread that does not know its query and batch, so it "
                "could be repeated after a restart. Start the thread with pyspark.InheritableThread, or set "
                "deliveryGuarantee to at-least-once"
            )
        return Target(self._key, 0, self._writer_id, self._writer_id)

    @property
    def _key(self) -> SinkKey:
        """The sink of a write outside of a query."""
        return SinkKey(f"batch-{self._writer_id}")

    def commit(self, messages: Messages) -> None:
        """Commit the write, atomically."""
        from ottla.spark.sink.committing import commit_batch

        commit_batch(cast("Sequence[TaskCommitMessage | None]", messages), self._options)

    def abort(self, messages: Messages) -> None:
        """Abort the write."""
        from ottla.spark.sink.committing import abort_batch

        if self._options.is_exactly_once:
            abort_batch(cast("Sequence[TaskCommitMessage | None]", messages), self._options, self._key)


def _run(place: TaskInfo) -> str:
    if not place.run_id:
        raise SparkError("Spark does not provide the run of this task's query")
    return place.run_id


def stream_writer(options: Mapping[str, str], schema: Any) -> StreamWriter:
    """Return the writer of a stream."""
    return StreamWriter(*_read(options, schema))


def batch_writer(options: Mapping[str, str], schema: Any, overwrite: bool) -> BatchWriter:
    """Return the writer of a table."""
    if overwrite:
        raise WrongOption("mode", "a topic cannot be overwritten: write with mode append")
    return BatchWriter(*_read(options, schema))


def _read(options: Mapping[str, str], schema: Any) -> tuple[SinkOptions, Layout]:
    found = read_sink_options(options)
    layout = layout_of(
        schema,
        found.topic,
        with_headers=found.with_headers,
        with_timestamp=found.with_timestamp,
        is_serialized=found.serialize is not None,
    )
    return found, layout
