"""Read topics as a table: the records that exist when the query is planned.

In a join of a stream with a table Spark plans the table once and reads it in every batch. Then, if it ends at
`latest`, each task reads up to the current end of its partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ottla.client.offsets import EARLIEST
from ottla.common.ids import TopicPartition
from ottla.spark.cluster_session import cluster_session
from ottla.spark.errors import DataLoss, WrongOption
from ottla.spark.source.deserializing import Deserializer
from ottla.spark.source.options import Bound, SourceOptions
from ottla.spark.source.planning import OffsetRange, plan_tasks
from ottla.spark.source.reading import read_ranges, until_now
from ottla.spark.source.record_filter import RecordFilter
from ottla.spark.source.topic_watch import TopicWatch
from ottla.spark.worker import task_info

log = logging.getLogger(__name__)


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
    starts = await watch.offsets_at(options.starting, partitions)
    ends = await watch.offsets_at(options.ending, partitions)
    logs = ends if options.ending.is_latest else await watch.ends(partitions)
    ranges = [
        OffsetRange(
            each.topic,
            watch.topic_ids.get(each.topic),
            each.partition,
            starts[each],
            ends[each],
            is_live=options.ending.is_latest,
        )
        for each in partitions
        if _is_in_log(each, starts[each], ends[each], logs[each], options)
    ]
    return await _narrow(ranges, watch, options.record_filter)


async def _narrow(
    ranges: list[OffsetRange], watch: TopicWatch, record_filter: RecordFilter
) -> list[OffsetRange]:
    """Return the parts of ranges in which records can match.

    The first record of a time is asked for after the ends: one that has come since is not in these ranges.
    """
    found = record_filter.narrow(ranges)
    since_ms = record_filter.since_ms
    if since_ms is None or since_ms <= 0:
        return found
    firsts = await watch.first_offsets_since(since_ms, [each.topic_partition for each in found])
    return [
        replace(each, start=max(each.start, firsts.get(each.topic_partition, each.end))) for each in found
    ]


def _is_in_log(
    topic_partition: TopicPartition, start: int, end: int, log_end: int, options: SourceOptions
) -> bool:
    """Return whether a range is in the log; if not, raise with failOnDataLoss, else warn and leave it out."""
    if start <= end <= log_end:
        return True
    if end > log_end:
        what = f"{topic_partition} ends at offset {log_end}, but {options.ending.option} is {end}"
    elif start > log_end:
        what = f"{topic_partition} ends at offset {log_end}, but {options.starting.option} is {start}"
    elif _is_earliest(options.starting, topic_partition):
        what = f"{topic_partition} begins at offset {start}, after {options.ending.option} {end}"
    else:
        raise WrongOption(
            options.starting.option, f"is {start} for {topic_partition}, after the end of the batch at {end}"
        )
    if options.fails_on_data_loss:
        raise DataLoss(what)
    log.warning("%s; the batch has the existing records (failOnDataLoss is false)", what)
    return start <= min(end, log_end)


def _is_earliest(starting: Bound, topic_partition: TopicPartition) -> bool:
    """Return whether the start is that of the log, which retention moves."""
    return EARLIEST in (starting.offset, (starting.offsets or {}).get(topic_partition))
