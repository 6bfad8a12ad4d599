"""The `range` assignor: every subscriber of a topic gets a range of its partitions.

A topic with 7 partitions and 3 subscribers is cut into 3, 2 and 2. Members are taken in the same order for
every topic, so that topics with equally many partitions and the same subscribers are co-partitioned: the
member with partition 5 of the one has partition 5 of the other, as a join of the two needs it.

Static members come first, by their instance ids, which unlike member ids outlive a restart: as long as there
are as many members as before, all ranges stay the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from ottla.coordinator.group.consumer.assign_types import Assignment, PartitionCounts, Subscriber


def assign_range(subscribers: Sequence[Subscriber], counts: PartitionCounts) -> Assignment:
    """Return the ranges of all members."""
    readers = Counter(topic_id for each in subscribers for topic_id in each.topic_ids)
    seen: Counter[UUID] = Counter()
    assignment: Assignment = {}
    for each in sorted(subscribers, key=_order):
        partitions = {}
        for topic_id in each.topic_ids:
            begin, end = _range(counts[topic_id], readers[topic_id], seen[topic_id])
            seen[topic_id] += 1
            if begin < end:
                partitions[topic_id] = frozenset(range(begin, end))
        assignment[each.member_id] = partitions
    return assignment


def _order(subscriber: Subscriber) -> tuple[bool, str]:
    if subscriber.instance_id is None:
        return True, subscriber.member_id
    return False, subscriber.instance_id


def _range(partition_count: int, readers: int, place: int) -> tuple[int, int]:
    """Return the range of the reader at a place; the first ones get what does not divide evenly."""
    each, extra = divmod(partition_count, readers)
    begin = each * place + min(place, extra)
    return begin, begin + each + (place < extra)
