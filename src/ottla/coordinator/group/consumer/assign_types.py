"""What an assignor is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from ottla.coordinator.group.consumer.partitions import Partitions


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member: which topics it wants, and which partitions it was to have so far."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[UUID]
    partitions: Partitions


PartitionCounts = Mapping[UUID, int]
"""The number of partitions of each topic that a member subscribes to."""

Assignment = dict[str, Partitions]
"""What each member is to have; every partition of a subscribed topic goes to one subscriber of it."""

Assignor = Callable[[Sequence[Subscriber], PartitionCounts], Assignment]


def are_alike(subscribers: Sequence[Subscriber]) -> bool:
    """Return whether all members subscribe to the same topics."""
    return all(each.topic_ids == subscribers[0].topic_ids for each in subscribers)
