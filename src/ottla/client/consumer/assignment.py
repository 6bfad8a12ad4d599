"""The assigned partitions, and the queue of those that have fetched records.

All of it is plain memory, guarded by `lock`: the event loop and, in the synchronous consumer, the threads
that iterate over records use it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator

from ottla.client.admin.group_types import OffsetAndMetadata
from ottla.client.consumer.fetching.partition_state import PartitionState, PendingLookup
from ottla.client.consumer.membership.listener import NotAssigned
from ottla.common.ids import TopicPartition


class Assignment:
    """The states of the assigned partitions."""

    def __init__(self, on_filled: Callable[[], None]) -> None:
        self._on_filled = on_filled
        """Called when a partition has fetched records."""
        self.lock = threading.RLock()
        self.states: dict[TopicPartition, PartitionState] = {}
        self.version = 0
        """Incremented when partitions are assigned or revoked."""
        self._ready: deque[PartitionState] = deque()
        self._is_ready: set[PartitionState] = set()

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(tuple(self.states.values()))

    def __getitem__(self, partition: TopicPartition) -> PartitionState:
        state = self.states.get(partition)
        if state is None:
            raise NotAssigned(f"{partition} is not assigned to this consumer")
        return state

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        return frozenset(self.states)

    @property
    def fetched_bytes(self) -> int:
        """The size of the batches that wait to be decoded."""
        return sum(state.fetched_bytes for state in self.states.values())

    def replace(self, partitions: Iterable[TopicPartition], need: PendingLookup) -> None:
        """Assign exactly these partitions; those that were assigned before keep their position."""
        with self.lock:
            wanted = sorted(set(partitions))
            old = self.states
            self.states = {each: old.get(each) or PartitionState(each, need) for each in wanted}
            for partition in old.keys() - self.states.keys():
                old[partition].drop_fetched()
            self._ready = deque(state for state in self._ready if state.partition in self.states)
            self._is_ready = set(self._ready)
            self.version += 1

    def consumed(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions after the returned records, where they are known."""
        with self.lock:
            return {
                state.partition: OffsetAndMetadata(state.position, "", state.epoch)
                for state in self.states.values()
                if state.position >= 0
                and state.need in (PendingLookup.NOTHING, PendingLookup.VALIDATION)
                and (partitions is None or state.partition in partitions)
            }

    def enqueue_ready(self, state: PartitionState) -> None:
        """Append a partition that has fetched records to the queue."""
        with self.lock:
            if state not in self._is_ready and self.states.get(state.partition) is state:
                self._is_ready.add(state)
                self._ready.append(state)
        self._on_filled()

    def first_ready(self) -> PartitionState | None:
        """Return the first partition of the queue; remove those that are empty or paused."""
        while self._ready:
            state = self._ready[0]
            if state.has_records and not state.is_paused:
                return state
            self._is_ready.discard(self._ready.popleft())
        return None

    def rotate_ready(self) -> None:
        """Move the first partition of the queue to its end; remove it if it is empty."""
        if self._ready:
            state = self._ready.popleft()
            if state.has_records:
                self._ready.append(state)
            else:
                self._is_ready.discard(state)

    @property
    def ready_count(self) -> int:
        """The number of partitions in the queue."""
        return len(self._ready)
