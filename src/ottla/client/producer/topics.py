"""A topic that a producer writes to: its partitions, and which of them the next record goes to."""

from __future__ import annotations

from operator import index
from typing import Any

from ottla.client.metadata import TopicInfo
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.partition_queue import PartitionQueue
from ottla.client.producer.partitioners import (
    STICKY,
    Partitioner,
    any_of,
    partitioner_of,
    positive_murmur2,
)
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import UnknownTopicOrPartition


class Topic:
    """Finds the queue for a record."""

    def __init__(
        self, info: TopicInfo, accumulator: Accumulator, partitioner: str | Partitioner, batch_bytes: int
    ) -> None:
        self.name = info.name
        self._batch_bytes = batch_bytes
        self._accumulator = accumulator
        self._is_sticky = partitioner == STICKY
        self._choose = partitioner_of(partitioner) if isinstance(partitioner, str) else partitioner
        self._current: PartitionQueue | None = None
        self.adopt(info)

    def adopt(self, info: TopicInfo) -> None:
        """Take over which partitions there are, and which of them can be written to."""
        partitions = list(info.partitions)
        # The queues first: another thread may be about to choose among the partitions.
        self._queues = [self._accumulator.queue(TopicPartition(self.name, index)) for index in partitions]
        self._partitions = partitions
        self._available = [each.index for each in info.partitions.values() if each.leader >= 0]
        for queue in self._queues:
            queue.leader = info.partitions[queue.partition.partition].leader

    def has(self, partition: int) -> bool:
        """Return whether there is such a partition, as far as is known."""
        return type(partition) is int and 0 <= partition < len(self._queues)

    def queue_for(self, key: bytes | None, partition: int | None, size_bytes: int) -> PartitionQueue:
        """Return the queue of the partition that is named, or else chosen, for a record of this size."""
        if partition is None:
            if self._is_sticky:
                if key is None:
                    return self._sticky(size_bytes)
                return self._queues[positive_murmur2(key) % len(self._queues)]
            partition = self._choose(key, self._partitions, self._available)
        if type(partition) is not int:
            partition = as_number(partition)
        if 0 <= partition < len(self._queues):
            return self._queues[partition]
        raise UnknownTopicOrPartition(
            f"{self.name} has no partition {partition}: it has {len(self._queues)}, numbered from 0"
        )

    def _sticky(self, size_bytes: int) -> PartitionQueue:
        """Return the partition of the last record without a key, until its batch is full or all is delivered.

        While a batch is on its way the next one waits for it and grows; elsewhere it would leave at once.
        """
        queue = self._current
        if queue is not None:
            batch = queue.open
            if (batch.size_bytes + size_bytes <= self._batch_bytes) if batch is not None else queue.in_flight:
                return queue
        candidates = self._available or self._partitions
        if queue is not None and len(candidates) > 1:
            candidates = [each for each in candidates if each != queue.partition.partition]
        queue = self._current = self._queues[any_of(candidates)]
        return queue


def as_number(partition: Any) -> int:
    """Return a partition as a plain number: one of numpy's is as good."""
    try:
        return index(partition)
    except TypeError:
        raise TypeError(f"a partition is a whole number, not {partition!r}") from None
