"""Distribute the offsets to read over Spark's tasks.

A task costs tens of milliseconds, whatever it does. So a small batch is one task that reads several
partitions; a large one has a task per partition, or more (`minPartitions`, `maxRecordsPerPartition`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

from ottla.common.ids import TopicPartition

RECORDS_PER_TASK = 10_000
"""With fewer records per task than this, several partitions share a task."""


@dataclass(frozen=True)
class OffsetRange:
    """Offsets of one partition: from `start` (included) to `end` (excluded)."""

    topic: str
    topic_id: str | None
    partition: int
    start: int
    end: int
    is_live: bool = False
    """Whether `end` is only the end of the partition at planning time: read up to its current end."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Its partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def count(self) -> int:
        """How many offsets it spans."""
        return max(self.end - self.start, 0)


def plan_tasks(
    ranges: Sequence[OffsetRange], min_tasks: int | None = None, max_records: int | None = None
) -> list[list[OffsetRange]]:
    """Return the ranges of each task; ranges are split for `min_tasks` and `max_records` per task."""
    wanted = [each for each in ranges if each.count or each.is_live]
    if max_records is not None:
        wanted = [part for each in wanted for part in _split(each, ceil(each.count / max_records))]
    if min_tasks is not None and len(wanted) < min_tasks:
        total = sum(each.count for each in wanted)
        wanted = [
            part
            for each in wanted
            for part in _split(each, round(min_tasks * each.count / total) if total else 1)
        ]
    if min_tasks is not None or max_records is not None:
        return [[each] for each in wanted]
    return _share(wanted)


def _split(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Split a range into parts of about the same size; only the last one is live."""
    parts = max(1, min(parts, whole.count))
    edges = [whole.start + whole.count * each // parts for each in range(parts + 1)]
    found = [replace(whole, start=begin, end=end, is_live=False) for begin, end in pairwise(edges)]
    found[-1] = replace(found[-1], end=whole.end, is_live=whole.is_live)
    return found


def _share(ranges: Sequence[OffsetRange]) -> list[list[OffsetRange]]:
    """Distribute ranges over as many tasks as the work is worth: the largest first, to the task with the
    least.
    """
    if not ranges:
        return []
    worth = ceil(sum(each.count for each in ranges) / RECORDS_PER_TASK)
    tasks: list[list[OffsetRange]] = [[] for _ in range(max(1, min(worth, len(ranges))))]
    loads = [0] * len(tasks)
    for each in sorted(ranges, key=lambda each: -each.count):
        least = loads.index(min(loads))
        tasks[least].append(each)
        loads[least] += each.count
    return tasks
