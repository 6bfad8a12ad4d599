"""The batches of a sink: records of topics, through converters and transforms, to a SinkWriter.

One Spark job writes a batch to the target and yields what is left over: messages of the writer for its
commit, and records for the dead-letter topic, which are written exactly once with the batch's number.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ottla.connect.data.record import RawRecord, Record
from ottla.connect.engine.pipeline import PUT_STAGE, BadRecord, Pipeline
from ottla.connect.engine.source_stream import SCHEMA, arrow_batches, arrow_schema, is_json
from ottla.connect.engine.spec import TaskSpec
from ottla.connect.engine.topic_ranges import read_topics
from ottla.connect.errors import DataError
from ottla.connect.sdk import Batch, Refused, SinkWriter

OUTCOME_SCHEMA = SCHEMA + ", message string"


class BatchWriter:
    """Writes batches; `foreachBatch` calls it on the driver."""

    def __init__(self, spec: TaskSpec, writer: SinkWriter, query_name: str, plugin_path: list[str]) -> None:
        self._spec = spec
        self._writer = writer
        self._query = query_name
        self._plugin_path = plugin_path
        self.dead_letters = 0
        self.records = 0
        """Read from topics, as far as batches were written."""

    def __call__(self, rows: Any, number: int) -> None:
        """Write one batch."""
        batch = Batch(self._query, number, self._spec.connector, self._spec.task)
        if not self._writer.prepare(batch):
            return
        work = PartWriter(self._spec.to_json(), self._writer, batch)
        outcome = rows.mapInArrow(work, OUTCOME_SCHEMA)
        topic = self._spec.config.get("errors.deadletterqueue.topic.name", "").strip()
        found = outcome.collect()
        messages = [json.loads(each["message"]) for each in found if each["message"] is not None]
        letters = [each for each in found if each["message"] is None]
        if letters and topic:
            self._write_letters(rows.sparkSession, letters)
        self.records += sum(each["records"] for each in messages)
        self._writer.commit(batch, [each["result"] for each in messages if each["result"] is not None])

    def _write_letters(self, spark: Any, letters: list[Any]) -> None:
        columns = ["topic", "partition", "key", "value", "headers", "timestamp"]
        frame = spark.createDataFrame([tuple(each[name] for name in columns) for each in letters], SCHEMA)
        client = self._spec.producer or self._spec.client
        options = {**client, "includeHeaders": "true", "sinkName": "dead-letters"}
        frame.coalesce(1).write.format("ottla").mode("append").options(**options).save()
        self.dead_letters += len(letters)


class PartWriter:
    """Writes the records of one Spark partition, in a worker."""

    def __init__(self, spec: str, writer: SinkWriter, batch: Batch) -> None:
        self._spec = spec
        self._writer = writer
        self._batch = batch

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Write the records of some ranges, and yield what is left over."""
        return self.write(read_topics(batches))

    def write(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Write records, and yield what is left over."""
        pipeline = Pipeline.of(TaskSpec.from_json(self._spec))
        letters: list[RawRecord] = []
        kept: dict[tuple[str, int | None, int], RawRecord] = {}
        keep = pipeline.tolerates
        refused: list[Refused] = [] if keep else FailOnRefused(type(self._writer).__qualname__)
        if self._writer.by_partition:
            rows = list(in_order(batches))
            if (written := self._written_in_columns(pipeline, rows)) is not None:
                yield from _outcome([], written)
                return
            batches = iter(rows)
        records = _records(pipeline, batches, letters, kept if keep else None)
        with without_collector():
            result = self._writer.write(records, self._batch, refused)
            for _ in records:  # what the writer has left unread
                pass
        for each in refused:
            bad = BadRecord(PUT_STAGE, type(self._writer).__qualname__, DataError(each.reason))
            raw = kept.get((each.record.origin, each.record.partition, each.record.offset))
            pipeline.note(bad, raw)
            letter = None if raw is None else pipeline.dead_letter(raw, bad)
            if letter is not None:
                letters.append(letter)
        yield from _outcome(letters, {"result": result, "records": pipeline.counts.records})

    def _written_in_columns(self, pipeline: Pipeline, rows: list[Any]) -> dict[str, Any] | None:
        """Return the message of a writer that has written all rows at once; None if it has not."""
        if not rows or not is_json(pipeline):
            return None
        result = self._writer.write_json(rows, self._batch, pipeline.key, pipeline.value)
        return None if result is None else {"result": result, "records": sum(each.num_rows for each in rows)}


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep Python's collector of cycles from looking at the records of a batch again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class FailOnRefused(list[Refused]):
    """Fails at the first refused record: before the writer commits what would count as written."""

    def __init__(self, writer: str) -> None:
        super().__init__()
        self._writer = writer

    def append(self, refused: Refused) -> None:
        """Raise the reason."""
        raise BadRecord(PUT_STAGE, self._writer, DataError(refused.reason))


def _outcome(letters: list[RawRecord], message: Any) -> Iterator[Any]:
    import pyarrow as pa

    schema = arrow_schema().append(pa.field("message", pa.string()))
    for batch in arrow_batches(iter(letters)):
        nothing = pa.nulls(batch.num_rows, pa.string())
        yield pa.RecordBatch.from_arrays([*batch.columns, nothing], schema=schema)
    last = [pa.nulls(1, each.type) for each in schema]
    last[-1] = pa.array([json.dumps(message)], pa.string())
    yield pa.RecordBatch.from_arrays(last, schema=schema)


def _records(
    pipeline: Pipeline,
    batches: Iterator[Any],
    letters: list[RawRecord],
    kept: dict[tuple[str, int | None, int], RawRecord] | None,
) -> Iterator[Record]:
    for raw in raw_records(batches):
        pipeline.counts.records += 1
        try:
            record = pipeline.incoming(raw)
        except BadRecord as bad:
            pipeline.note(bad, raw)
            letter = pipeline.dead_letter(raw, bad)
            if letter is not None:
                letters.append(letter)
            continue
        if record is not None:
            if kept is not None:
                kept[record.origin, record.partition, record.offset] = raw
            yield record


def in_order(batches: Iterator[Any]) -> Iterator[Any]:
    """Return the rows of a Spark partition by topic, partition and offset.

    The source reads a topic's partition in one Spark partition, in the order of offsets, but may read several
    in turns.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    found = list(batches)
    if not found:
        return iter(())
    table = pa.Table.from_batches(found)
    if any(pc.count_distinct(table.column(name)).as_py() > 1 for name in ("topic", "partition")):
        table = table.sort_by([(name, "ascending") for name in ("topic", "partition", "offset")])
    return iter(table.to_batches())


def raw_records(batches: Iterator[Any]) -> Iterator[RawRecord]:
    """Return the rows of the source `ottla` as records."""
    for batch in batches:
        columns = {name: batch.column(name) for name in batch.schema.names}
        times = columns["timestamp"].cast("int64").to_pylist()
        headers = columns["headers"].to_pylist() if "headers" in columns else [None] * batch.num_rows
        for key, value, topic, partition, offset, time_us, more in zip(
            columns["key"].to_pylist(),
            columns["value"].to_pylist(),
            columns["topic"].to_pylist(),
            columns["partition"].to_pylist(),
            columns["offset"].to_pylist(),
            times,
            headers,
            strict=True,
        ):
            named = tuple((each["key"], each["value"]) for each in more) if more else ()
            yield RawRecord(
                topic, partition, offset, None if time_us is None else time_us // 1000, key, value, named
            )
