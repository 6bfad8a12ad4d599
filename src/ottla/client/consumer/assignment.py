"""The partitions that a consumer reads now, and which of them have something to hand out.

All of it is plain memory. Whoever touches it holds `lock`: the asyncio side and, in the synchronous
consumer, the threads that iterate over records.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator

from ottla.client.admin.group_types import OffsetAndMetadata
from ottla.client.consumer.fetching.partition_state import Need, PartitionState
from ottla.client.consumer.membership.listener import NotAssigned
from ottla.common.ids import TopicPartition


class Assignment:
    """The states of the assigned partitions."""

    def __init__(self, on_filled: Callable[[], None]) -> None:
        self._on_filled = on_filled
        """Called when a partition has something to hand out."""
        self.lock = threading.RLock()
        self.states: dict[TopicPartition, PartitionState] = {}
        self.version = 0
        """Counted up when partitions come or go."""
        self._filled: deque[PartitionState] = deque()
        self._in_line: set[PartitionState] = set()

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
        """How much waits to be decoded."""
        return sum(state.fetched_bytes for state in self.states.values())

    def replace(self, partitions: Iterable[TopicPartition], need: Need) -> None:
        """Read exactly these; what was read already goes on from where it is."""
        with self.lock:
            wanted = sorted(set(partitions))
            old = self.states
            self.states = {each: old.get(each) or PartitionState(each, need) for each in wanted}
            for partition in old.keys() - self.states.keys():
                old[partition].drop_fetched()
            self._filled = deque(state for state in self._filled if state.partition in self.states)
            self._in_line = set(self._filled)
            self.version += 1

    def consumed(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions behind what was handed out, as far as they are known."""
        with self.lock:
            return {
                state.partition: OffsetAndMetadata(state.position, "", state.epoch)
                for state in self.states.values()
                if state.position >= 0
                and state.need in (Need.NOTHING, Need.VALIDATION)
                and (partitions is None or state.partition in partitions)
            }

    def line_up(self, state: PartitionState) -> None:
        """Let a partition that has something wait for its turn to hand it out."""
        with self.lock:
            if state not in self._in_line and self.states.get(state.partition) is state:
                self._in_line.add(state)
                self._filled.append(state)
        self._on_filled()

    def first_in_line(self) -> PartitionState | None:
        """Return whose turn it is; those that have nothing or are paused leave the line."""
        while self._filled:
            state = self._filled[0]
            if state.has_records and not state.is_paused:
                return state
            self._in_line.discard(self._filled.popleft())
        return None

    def next_turn(self) -> None:
        """Let the first in line go to its end, or home if it has nothing left."""
        if self._filled:
            state = self._filled.popleft()
            if state.has_records:
                self._filled.append(state)
            else:
                self._in_line.discard(state)

    @property
    def line_length(self) -> int:
        """How many partitions have something to hand out."""
        return len(self._filled)
