"""Partitions as numbers, while an assignor works on thousands of them: comparing topic ids takes its time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from ottla.coordinator.group.assign_types import PartitionCounts
from ottla.coordinator.group.consumer_partitions import Partitions


class Numbers:
    """The partitions of some topics, counted through in the order of the topics' ids."""

    def __init__(self, topic_ids: Iterable[UUID], counts: PartitionCounts) -> None:
        self._bases: dict[UUID, int] = {}
        self._places: list[tuple[UUID, int]] = []
        """The topic of each number, and which partition of it."""
        for topic_id in sorted(topic_ids):
            self._bases[topic_id] = len(self._places)
            self._places.extend((topic_id, index) for index in range(counts[topic_id]))
        self._counts = counts

    @property
    def count(self) -> int:
        """How many partitions there are."""
        return len(self._places)

    def of(self, partitions: Partitions) -> Iterator[int]:
        """Yield the numbers of partitions, those that exist."""
        for topic_id, indexes in partitions.items():
            base = self._bases.get(topic_id)
            if base is not None:
                count = self._counts[topic_id]
                for index in indexes:
                    if index < count:
                        yield base + index

    def partitions(self, numbers: Iterable[int]) -> Partitions:
        """Return the partitions with these numbers."""
        found: dict[UUID, list[int]] = {}
        last: UUID | None = None
        indexes: list[int] = []
        for number in numbers:
            topic_id, index = self._places[number]
            if topic_id is not last:
                last, indexes = topic_id, found.setdefault(topic_id, [])
            indexes.append(index)
        return {topic_id: frozenset(each) for topic_id, each in found.items()}
