"""The `uniform` assignor: equally many partitions for everybody, and as few of them moved as possible.

If all members subscribe to the same topics, then everybody gets floor(partitions / members), and some get
one more. Those that have more than the floor already are the ones to get it, so that no partition moves but
those that have to: members keep what they have up to their share, and the rest fills the gaps.

If subscriptions differ, there may be no equal shares. See assign_mixed.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from ottla.coordinator.group.assign_mixed import assign_mixed
from ottla.coordinator.group.assign_types import Assignment, PartitionCounts, Subscriber, are_alike
from ottla.coordinator.group.consumer_partitions import each_of, grouped


def assign_uniform(subscribers: Sequence[Subscriber], counts: PartitionCounts) -> Assignment:
    """Return equal shares, sticking to what members have."""
    if not subscribers:
        return {}
    if not are_alike(subscribers):
        return assign_mixed(subscribers, counts)
    topic_ids = subscribers[0].topic_ids
    kept = {each.member_id: _kept(each, counts) for each in subscribers}
    shares = _shares(kept, sum(counts[topic_id] for topic_id in topic_ids))
    kept = {member_id: pairs[: shares[member_id]] for member_id, pairs in kept.items()}
    free = _free(topic_ids, counts, kept)
    for member_id, pairs in kept.items():
        pairs.extend(pair for _, pair in zip(range(shares[member_id] - len(pairs)), free, strict=False))
    return {member_id: grouped(pairs) for member_id, pairs in kept.items()}


Pairs = list[tuple[UUID, int]]


def _kept(subscriber: Subscriber, counts: PartitionCounts) -> Pairs:
    """Return what a member has of the topics that it wants, in an order that does not depend on chance."""
    return sorted(
        (topic_id, index)
        for topic_id, index in each_of(subscriber.partitions)
        if topic_id in subscriber.topic_ids and index < counts[topic_id]
    )


def _shares(kept: dict[str, Pairs], partition_count: int) -> dict[str, int]:
    """Return how many partitions each member gets; the remainder goes to those who have the most."""
    share, remainder = divmod(partition_count, len(kept))
    by_size = sorted(kept, key=lambda member_id: (-len(kept[member_id]), member_id))
    return {member_id: share + (place < remainder) for place, member_id in enumerate(by_size)}


def _free(
    topic_ids: frozenset[UUID], counts: PartitionCounts, kept: dict[str, Pairs]
) -> Iterator[tuple[UUID, int]]:
    """Return the partitions that nobody keeps."""
    taken = {pair for pairs in kept.values() for pair in pairs}
    every = ((topic_id, index) for topic_id in sorted(topic_ids) for index in range(counts[topic_id]))
    return iter([pair for pair in every if pair not in taken])
