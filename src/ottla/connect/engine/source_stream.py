"""The Spark data source around a SourceReader: a stream of records for topics.

Spark keeps the offsets in the query's checkpoint. An offset is a JSON object: source partition to offset.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from ottla.connect.data.record import RawRecord
from ottla.connect.engine.spec import TaskSpec
from ottla.connect.sdk import Offsets, SourceReader

FORMAT = "ottla-connect"
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
        """Return the columns: those that the sink `ottla` takes."""
        return SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader."""
        return SourceStream(self.options["spec"], json.loads(self.options.get("pluginpath", "[]")))


class Part(InputPartition):
    """A part of a batch."""

    def __init__(self, data: bytes) -> None:
        super().__init__(None)
        self.data = data


class SourceStream(DataSourceStreamReader):
    """Serves Spark's calls from a SourceReader."""

    def __init__(self, spec: str, plugin_path: list[str]) -> None:
        self._spec_text = spec
        self._plugin_path = plugin_path
        self._reader: SourceReader | None = None

    @property
    def _spec(self) -> TaskSpec:
        return TaskSpec.from_json(self._spec_text)

    def _open(self) -> SourceReader:
        if self._reader is None:
            from ottla.connect.plugins import Plugins

            spec = self._spec
            kind: Any = Plugins.load(self._plugin_path).connector(spec.class_name)
            self._reader = kind(spec.connector, spec.config).reader(spec.config)
        assert self._reader is not None
        return self._reader

    def initialOffset(self) -> Offsets:  # noqa: N802
        """Return where to start: where the connector was, or its beginning."""
        return self._open().initial({key: dict(value) for key, value in self._spec.offsets.items()})

    def latestOffset(self, start: Offsets, limit: Any = None) -> Offsets:  # noqa: N802
        """Return the end of the next batch."""
        return self._open().latest(start)

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """Return the parts of a batch."""
        return [] if start == end else [Part(pickle.dumps(each)) for each in self._open().plan(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of a part, as Arrow batches."""
        from ottla.connect.engine.pipeline import Pipeline

        part = pickle.loads(partition.data)  # type: ignore[attr-defined] # noqa: S301 - our own bytes
        yield from source_batches(Pipeline.of(self._spec), self._open(), part)

    def commit(self, end: Offsets) -> None:
        """Release what is written."""
        self._open().commit(end)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None}


def source_batches(pipeline: Any, reader: SourceReader, part: Any) -> Iterator[Any]:
    """Return the records of a part, converted, as Arrow batches."""
    direct = reader.read_arrow(part) if is_direct(pipeline) else None
    return direct if direct is not None else arrow_batches(pipeline.all_outgoing(reader.read(part)))


def is_direct(pipeline: Any) -> bool:
    """Tell whether values are texts or bytes that no transform looks at."""
    plain = ("StringConverter", "ByteArrayConverter")
    return not pipeline.steps and pipeline.value.name.endswith(plain) and pipeline.key.name.endswith(plain)


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
