"""The Spark data source of sinks: ranges of topics' offsets flow through Spark, and not their records.

What writes to the target reads the records itself, in the same Python worker: they do not pass the JVM twice
(decision 270, for sinks).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ottla.spark.data_source import OttlaSource
from ottla.spark.source.batch_reader import RangesToRead
from ottla.spark.source.options import read_source_options
from ottla.spark.source.reading import read_ranges
from ottla.spark.source.stream_reader import StreamReader

FORMAT = "ottla-connect-topics"
RANGES_SCHEMA = "ranges binary"


class TopicRanges(OttlaSource):
    """The source `ottla`, with ranges for records."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the column."""
        return RANGES_SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader."""
        return RangeStream(read_source_options(self.options, is_stream=True), *self._columns())


class RangeStream(StreamReader):
    """Plans as the stream `ottla` does."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield what to read, and how."""
        ranges = partition.ranges if isinstance(partition, RangesToRead) else []
        yield (pickle.dumps((ranges, self._columns, self._options)),)


def read_topics(batches: Iterator[Any]) -> Iterator[Any]:
    """Return the records of ranges that have come through Spark, as Arrow batches."""
    for batch in batches:
        for data in batch.column(0).to_pylist():
            yield from read_ranges(*pickle.loads(data))  # noqa: S301 - our own bytes
