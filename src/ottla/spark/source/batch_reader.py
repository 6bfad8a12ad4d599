"""Read topics as a table: the records that exist when the query is planned.

In a join of a stream with a table Spark plans the table once and reads it in every batch. Then, if it ends at
`latest`, each task reads up to the current end of its partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.common.ids import TopicPartition
from ottla.spark.cluster_session import cluster_session
from ottla.spark.source.deserializing import Deserializer
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.planning import OffsetRange, plan_tasks
from ottla.spark.source.reading import read_ranges, until_now
from ottla.spark.source.topic_watch import TopicWatch
from ottla.spark.worker import task_info


class RangesToRead(InputPartition):
    """The ranges of one task."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        super().__init__(None)
        self.ranges = list(ranges)


class BatchReader(DataSourceReader):
    """Plans and reads a batch."""

    def __init__(
        self, options: SourceOptions, columns: Sequence[str], deserializer: Deserializer | None
    ) -> None:
        self._options = options
        self._columns = list(columns)
        self._deserializer = deserializer

    def partitions(self) -> list[InputPartition]:
        """Return the ranges of each task."""
        session = cluster_session(self._options.consumer)
        ranges = session.run(_plan(TopicWatch(session.cluster, self._options), self._options))
        options = self._options
        tasks = plan_tasks(ranges, options.min_tasks, options.max_records_per_task)
        return [RangesToRead(each) for each in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of one task."""
        ranges = partition.ranges if isinstance(partition, RangesToRead) else []
        if task_info().query_id is None:
            ranges = [replace(each, is_live=False) for each in ranges]
        return read_ranges(until_now(ranges, self._options), self._columns, self._options, self._deserializer)


async def _plan(watch: TopicWatch, options: SourceOptions) -> list[OffsetRange]:
    await watch.refresh()
    watch.check_all_there()
    partitions = watch.partitions
    starts = await watch.at(options.starting, partitions)
    ends = await watch.at(options.ending, partitions)
    return [_range(each, starts, ends, watch, options) for each in partitions]


def _range(
    at: TopicPartition,
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    watch: TopicWatch,
    options: SourceOptions,
) -> OffsetRange:
    topic_id = watch.topic_ids.get(at.topic)
    return OffsetRange(
        at.topic, topic_id, at.partition, starts[at], ends[at], is_live=options.ending.is_latest
    )
