"""The `uniform` assignor: equally many partitions for everybody, and as few of them moved as possible.

If all members subscribe to the same topics, then everybody gets floor(partitions / members), and some get
one more. Those that have more than the floor already are the ones to get it, so that no partition moves but
those that have to: members keep what they have up to their share, and the rest fills the gaps.

If subscriptions differ, there may be no equal shares. See assign_mixed.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from ottla.coordinator.group.assign_mixed import assign_mixed
from ottla.coordinator.group.assign_numbers import Numbers
from ottla.coordinator.group.assign_types import Assignment, PartitionCounts, Subscriber, are_alike
from ottla.coordinator.group.consumer_partitions import size


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
    """Return how many partitions each member gets; the remainder goes to those who have the most."""
    share, remainder = divmod(partition_count, len(held))
    by_size = sorted(held, key=lambda member_id: (-len(held[member_id]), member_id))
    return {member_id: share + (place < remainder) for place, member_id in enumerate(by_size)}


def _free(kept: dict[str, list[int]], partition_count: int) -> Iterator[int]:
    """Return the partitions that nobody keeps."""
    is_taken = bytearray(partition_count)
    for own in kept.values():
        for number in own:
            is_taken[number] = 1
    return (number for number in range(partition_count) if not is_taken[number])
