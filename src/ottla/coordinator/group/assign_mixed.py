"""The `uniform` assignor for members whose subscriptions differ.

1. Members keep what they have, as far as they still subscribe to it.
2. What nobody has goes to the subscriber with the least, topic by topic; topics with the most partitions per
   subscriber come first, since the others leave more choice to even things out.
3. For each topic, partitions move from the subscriber with the most to the one with the least until the two
   differ by one at most. Doing so for one topic can unsettle another, so this is repeated, a limited number
   of times: an arrangement that is not quite even is better than a coordinator that stands still.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from uuid import UUID

from ottla.coordinator.group.assign_types import Assignment, PartitionCounts, Subscriber
from ottla.coordinator.group.consumer_partitions import grouped

MAX_ROUNDS = 16


def assign_mixed(subscribers: Sequence[Subscriber], counts: PartitionCounts) -> Assignment:
    """Return shares as equal as the subscriptions allow."""
    plan = _Plan(subscribers, counts)
    for topic_id in plan.topics:
        plan.hand_out(topic_id)
    for _ in range(MAX_ROUNDS):
        if sum([plan.even_out(topic_id) for topic_id in plan.topics]) == 0:
            break
    return plan.assignment()


class _Plan:
    """Who has what, while it changes."""

    def __init__(self, subscribers: Sequence[Subscriber], counts: PartitionCounts) -> None:
        ordered = sorted(subscribers, key=lambda each: each.member_id)
        self._counts = counts
        self._load = {each.member_id: 0 for each in ordered}
        self._readers: dict[UUID, list[str]] = {}
        self._held: dict[UUID, dict[str, list[int]]] = {}
        for each in ordered:
            for topic_id in each.topic_ids:
                self._readers.setdefault(topic_id, []).append(each.member_id)
        self._keep(ordered)

    def _keep(self, subscribers: Sequence[Subscriber]) -> None:
        free = {topic_id: set(range(self._counts[topic_id])) for topic_id in self._readers}
        for topic_id in self._readers:
            self._held[topic_id] = {}
        for each in subscribers:
            for topic_id, indexes in each.partitions.items():
                if topic_id in each.topic_ids:
                    kept = free[topic_id] & indexes  # nothing is had twice
                    free[topic_id] -= kept
                    self._held[topic_id][each.member_id] = sorted(kept)
                    self._load[each.member_id] += len(kept)

    @property
    def topics(self) -> list[UUID]:
        """The topics, those with the least choice first."""

        def order(topic_id: UUID) -> tuple[float, int, UUID]:
            readers = len(self._readers[topic_id])
            return -self._counts[topic_id] / readers, readers, topic_id

        return sorted(self._readers, key=order)

    def hand_out(self, topic_id: UUID) -> None:
        """Give away the partitions of a topic that nobody has."""
        held = self._held[topic_id]
        taken = {index for indexes in held.values() for index in indexes}
        least = self._by_load(topic_id)
        for index in range(self._counts[topic_id]):
            if index not in taken:
                load, member_id = heappop(least)
                held.setdefault(member_id, []).append(index)
                self._load[member_id] = load + 1
                heappush(least, (load + 1, member_id))

    def even_out(self, topic_id: UUID) -> int:
        """Move partitions of a topic from those with the most to those with the least; return how many.

        The least becomes more and the most becomes less with every move, so that who gives never gets, and
        one entry per member in each of the two heaps will do.
        """
        held = self._held[topic_id]
        least = self._by_load(topic_id)
        most = [(-self._load[member_id], member_id) for member_id, indexes in held.items() if indexes]
        heapify(most)
        moved = 0
        while most:
            _, giver = heappop(most)
            _, taker = heappop(least)
            if self._load[giver] - self._load[taker] <= 1:
                break
            held.setdefault(taker, []).append(held[giver].pop())
            self._load[giver] -= 1
            self._load[taker] += 1
            moved += 1
            heappush(least, (self._load[taker], taker))
            if held[giver]:
                heappush(most, (-self._load[giver], giver))
        return moved

    def _by_load(self, topic_id: UUID) -> list[tuple[int, str]]:
        heap = [(self._load[member_id], member_id) for member_id in self._readers[topic_id]]
        heapify(heap)
        return heap

    def assignment(self) -> Assignment:
        """Return what each member has now."""
        pairs: dict[str, list[tuple[UUID, int]]] = {member_id: [] for member_id in self._load}
        for topic_id, held in self._held.items():
            for member_id, indexes in held.items():
                pairs[member_id].extend((topic_id, index) for index in indexes)
        return {member_id: grouped(each) for member_id, each in pairs.items()}
