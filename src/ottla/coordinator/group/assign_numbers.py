"""Partitions as numbers, while an assignor works on thousands of them: comparing topic ids takes its time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from uuid import UUID

from ottla.coordinator.group.assign_types import PartitionCounts
from ottla.coordinator.group.consumer_partitions import Partitions


class Numbers:
    """The partitions of some topics, counted through in the order of the topics' ids."""

    def __init__(self, topic_ids: Iterable[UUID], counts: PartitionCounts) -> None:
        self.count = 0
        """How many partitions there are."""
        self._topic_ids = sorted(topic_ids)
        self._firsts: list[int] = []
        """The number of each topic's partition 0."""
        self._ranges: dict[UUID, tuple[int, int]] = {}
        for topic_id in self._topic_ids:
            self._firsts.append(self.count)
            self._ranges[topic_id] = (self.count, counts[topic_id])
            self.count += counts[topic_id]

    def of(self, partitions: Partitions) -> Iterator[int]:
        """Yield the numbers of partitions, those that exist."""
        for topic_id, indexes in partitions.items():
            first, count = self._ranges.get(topic_id, (0, 0))
            for index in indexes:
                if index < count:
                    yield first + index

    def partitions(self, numbers: Iterable[int]) -> Partitions:
        """Return the partitions with these numbers."""
        found: dict[UUID, set[int]] = {}
        for number in numbers:
            place = bisect_right(self._firsts, number) - 1
            found.setdefault(self._topic_ids[place], set()).add(number - self._firsts[place])
        return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}
