"""The `uniform` assignor: equally many partitions for every member, and as few moves as possible.

If all members subscribe to the same topics, then every member gets floor(partitions / members), and some get
one more. Those that have more than the floor already are the ones to get it, so that no partition moves but
those that have to: members keep what they have up to their share, and the rest fills the gaps.

If subscriptions differ, there may be no equal shares; see `assign_mixed`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from uuid import UUID

from ottla.coordinator.group.consumer.assign_types import Assignment, PartitionCounts, Subscriber, are_alike
from ottla.coordinator.group.consumer.partitions import Partitions, grouped, size

# Partitions as numbers, while an assignor works on thousands of them: comparing topic ids takes its time.


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


# The `uniform` assignor for members whose subscriptions differ.
#
# 1. Members keep what they have, as far as they still subscribe to it.
# 2. What is unassigned goes to the subscriber with the least, topic by topic; topics with most partitions per
#    subscriber come first, since the others leave more choice to even things out.
# 3. For each topic, partitions move from the subscriber with the most to the one with the least until the two
#    differ by one at most. Doing so for one topic can unsettle another, so this is repeated, a limited number
#    of times: an arrangement that is not quite even is better than a coordinator that stands still.

MAX_ROUNDS = 16


def assign_mixed(subscribers: Sequence[Subscriber], counts: PartitionCounts) -> Assignment:
    """Return shares as equal as the subscriptions allow."""
    plan = _Plan(subscribers, counts)
    for topic_id in plan.topics:
        plan.assign_free(topic_id)
    for _ in range(MAX_ROUNDS):
        if sum([plan.even_out(topic_id) for topic_id in plan.topics]) == 0:
            break
    return plan.assignment()


class _Plan:
    """The owner of each partition while the assignment is computed."""

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

    def assign_free(self, topic_id: UUID) -> None:
        """Assign the partitions of a topic that no member has."""
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


def assign_uniform(subscribers: Sequence[Subscriber], counts: PartitionCounts) -> Assignment:
    """Return equal shares, sticking to what members have."""
    if not subscribers:
        return {}
    if not are_alike(subscribers):
        return assign_mixed(subscribers, counts)
    numbers = Numbers(subscribers[0].topic_ids, counts)
    held = _held(subscribers, numbers)
    shares = _shares(held, numbers.count)
    kept = {member_id: own[: shares[member_id]] for member_id, own in held.items()}
    free = _free(kept, numbers.count)
    assignment: Assignment = {}
    for each in subscribers:
        own = kept[each.member_id]
        added = list(islice(free, shares[each.member_id] - len(own)))
        is_unchanged = not added and len(own) == size(each.partitions)
        assignment[each.member_id] = each.partitions if is_unchanged else numbers.partitions(own + added)
    return assignment


def _held(subscribers: Sequence[Subscriber], numbers: Numbers) -> dict[str, list[int]]:
    """Return what each member has of what is there to have; nothing is had twice."""
    is_taken = bytearray(numbers.count)
    held: dict[str, list[int]] = {}
    for each in subscribers:
        own = [number for number in numbers.of(each.partitions) if not is_taken[number]]
        for number in own:
            is_taken[number] = 1
        held[each.member_id] = sorted(own)
    return held


def _shares(held: dict[str, list[int]], partition_count: int) -> dict[str, int]:
    """Return how many partitions each member gets; the remainder goes to the members that own the most."""
    share, remainder = divmod(partition_count, len(held))
    by_size = sorted(held, key=lambda member_id: (-len(held[member_id]), member_id))
    return {member_id: share + (place < remainder) for place, member_id in enumerate(by_size)}


def _free(kept: dict[str, list[int]], partition_count: int) -> Iterator[int]:
    """Return the partitions that no member keeps."""
    is_taken = bytearray(partition_count)
    for own in kept.values():
        for number in own:
            is_taken[number] = 1
    return (number for number in range(partition_count) if not is_taken[number])
