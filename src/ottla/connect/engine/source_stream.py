"""The Spark data source around a SourceReader: a stream of parts to read, and the writer of their records.

Spark keeps the offsets in the query's checkpoint. An offset is a JSON object: source partition to offset.
What flows through Spark is what to read (`part`): the task that writes to the topics reads it, converts it,
and hands it to the exactly-once sink, so that records do not pass the JVM (decision 270).
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, MutableMapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

from ottla.connect.converters.plain import JsonConverter
from ottla.connect.data.record import RawRecord, Record
from ottla.connect.engine.spec import TaskSpec
from ottla.connect.sdk import Offsets, SourceReader

FORMAT = "ottla-connect"
PART_SCHEMA = "part binary"
COUNT_FILE = "ottla-records.json"
"""In the checkpoint of a source: how many records were written, and with which batch."""
SCHEMA = (
    "topic string, partition int, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>, timestamp timestamp"
)
ROWS_AT_ONCE = 10_000


class ConnectSource(DataSource):
    """The records of a source task."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = dict(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the column."""
        return PART_SCHEMA

    def _task(self) -> SourceTask:
        return SourceTask(self.options["spec"], json.loads(self.options.get("pluginpath", "[]")))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader."""
        return SourceStream(self._task())

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Return the writer."""
        from ottla.spark.sink.writers import stream_writer

        options = {key: value for key, value in self.options.items() if key not in OWN_OPTIONS}
        return TopicWriter(self._task(), stream_writer(options, spark_schema()), self.options["countfile"])


OWN_OPTIONS = ("spec", "pluginpath", "countfile", "checkpointlocation", "path")


class SourceTask:
    """A task of a connector, wherever Spark has it run."""

    def __init__(self, spec: str, plugin_path: list[str]) -> None:
        self._spec_text = spec
        self._plugin_path = plugin_path
        self._reader: SourceReader | None = None

    @property
    def spec(self) -> TaskSpec:
        """What the worker says about it."""
        return TaskSpec.from_json(self._spec_text)

    def reader(self) -> SourceReader:
        """Return its reader, which lives as long as this process."""
        if self._reader is None:
            from ottla.connect.plugins import Plugins

            spec = self.spec
            kind: Any = Plugins.load(self._plugin_path).connector(spec.class_name)
            self._reader = kind(spec.connector, spec.config).reader(spec.config)
        assert self._reader is not None
        return self._reader

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None}


class Part(InputPartition):
    """A part of a batch."""

    def __init__(self, data: bytes) -> None:
        super().__init__(None)
        self.data = data


class SourceStream(DataSourceStreamReader):
    """Serves Spark's calls from a SourceReader."""

    def __init__(self, task: SourceTask) -> None:
        self._task = task

    def initialOffset(self) -> Offsets:  # noqa: N802
        """Return where to start: where the connector was, or its beginning."""
        stored = {key: dict(value) for key, value in self._task.spec.offsets.items()}
        return self._task.reader().initial(stored)

    def latestOffset(self, start: Offsets, limit: Any = None) -> Offsets:  # noqa: N802
        """Return the end of the next batch."""
        return self._task.reader().latest(start)

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Return the parts of a batch."""
        if start == end:
            return []
        return [Part(pickle.dumps(each)) for each in self._task.reader().plan(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield what to read."""
        yield (partition.data,)  # type: ignore[attr-defined]

    def commit(self, end: Offsets) -> None:
        """Release what is written."""
        self._task.reader().commit(end)


class TopicWriter(DataSourceStreamArrowWriter):
    """Reads the parts of a batch, and writes their records to topics, exactly once."""

    def __init__(self, task: SourceTask, writer: DataSourceStreamArrowWriter, count_file: str) -> None:
        self._task, self._writer, self._count_file = task, writer, count_file

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the records of the parts of one Spark task."""
        return self._writer.write(self._records(iterator))

    def _records(self, parts: Iterator[Any]) -> Iterator[Any]:
        from ottla.connect.engine.pipeline import Pipeline

        pipeline, reader = Pipeline.of(self._task.spec), self._task.reader()
        for batch in parts:
            for data in batch.column(0).to_pylist():
                yield from source_batches(pipeline, reader, pickle.loads(data))  # noqa: S301 - our own bytes

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit a batch, and count its records."""
        self._writer.commit(messages, batchId)
        written: list[Any] = [each for each in messages if each is not None]
        count_records(Path(self._count_file), batchId, sum(each.rows for each in written))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Give a batch up."""
        self._writer.abort(messages, batchId)


def count_records(file: Path, batch: int, records: int) -> None:
    """Add to the number of records that were written, for the task's metrics; once for each batch."""
    total, last = counted_records(file)
    if batch <= last:
        return
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps({"records": total + records, "batch": batch}))
    temporary.rename(file)


def counted_records(file: Path) -> tuple[int, int]:
    """Return how many records were written, and the last batch."""
    try:
        found = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return 0, -1
    return int(found["records"]), int(found["batch"])


def source_batches(pipeline: Any, reader: SourceReader, part: Any) -> Iterator[Any]:
    """Return the records of a part, converted, as Arrow batches."""
    direct = None
    if is_direct(pipeline):
        direct = reader.read_arrow(part)
    elif is_json(pipeline):
        direct = reader.read_json(part, pipeline.key, pipeline.value)
        direct = None if direct is None else _encoded(pipeline, direct)
    return direct if direct is not None else arrow_batches(pipeline.all_outgoing(reader.read(part)))


def _encoded(pipeline: Any, found: Iterator[Any]) -> Iterator[Any]:
    """Return Arrow batches of what comes as such or as records, in that order."""
    for is_record, group in groupby(found, lambda each: isinstance(each, Record)):
        if is_record:
            yield from arrow_batches(pipeline.all_outgoing(group))
        else:
            yield from group


def is_json(pipeline: Any) -> bool:
    """Return whether keys and values are JSON that no transform looks at."""
    return not pipeline.steps and all(type(each) is JsonConverter for each in (pipeline.key, pipeline.value))


def is_direct(pipeline: Any) -> bool:
    """Return whether values are texts or bytes that no transform looks at."""
    plain = ("StringConverter", "ByteArrayConverter")
    return not pipeline.steps and pipeline.value.name.endswith(plain) and pipeline.key.name.endswith(plain)


def spark_schema() -> Any:
    """Return SCHEMA in Spark's types; in a worker, which has no session to parse it."""
    from pyspark.sql import types as t

    header = t.StructType().add("key", t.StringType()).add("value", t.BinaryType())
    return (
        t.StructType()
        .add("topic", t.StringType())
        .add("partition", t.IntegerType())
        .add("key", t.BinaryType())
        .add("value", t.BinaryType())
        .add("headers", t.ArrayType(header))
        .add("timestamp", t.TimestampType())
    )


def arrow_schema() -> Any:
    """Return SCHEMA in Arrow."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(header)),
            ("timestamp", pa.timestamp("us", tz="UTC")),
        ]
    )


def arrow_batches(records: Iterator[RawRecord]) -> Iterator[Any]:
    """Return records as Arrow batches."""
    import pyarrow as pa

    schema = arrow_schema()
    columns: tuple[list[Any], ...] = ([], [], [], [], [], [])

    def batch() -> Any:
        made = pa.RecordBatch.from_arrays(
            [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)],
            schema=schema,
        )
        for each in columns:
            each.clear()
        return made

    topics, partitions, keys, values, headers, timestamps = columns
    for each in records:
        topics.append(each.topic)
        partitions.append(each.partition)
        keys.append(each.key)
        values.append(each.value)
        headers.append([{"key": name, "value": value} for name, value in each.headers])
        timestamps.append(None if each.timestamp_ms is None else each.timestamp_ms * 1000)
        if len(topics) >= ROWS_AT_ONCE:
            yield batch()
    if topics:
        yield batch()
