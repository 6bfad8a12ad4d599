"""Sets of partitions, by topic id: what members have, are to have, and are to give up.

A set never holds a topic without partitions, so that equal sets are equal values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from ottla.coordinator.group.records import StoredPartitions

Partitions = Mapping[UUID, frozenset[int]]
NO_PARTITIONS: Partitions = {}


SortedPartitions = tuple[tuple[UUID, tuple[int, ...]], ...]
"""Partitions in the order of their topics' ids, as replies have them."""


def from_record(stored: Iterable[StoredPartitions]) -> Partitions:
    """Return the set that a record holds."""
    return {
        each.topic_id: frozenset(each.partitions)
        for each in stored
        if each.topic_id is not None and each.partitions
    }


def to_record(partitions: Partitions) -> tuple[StoredPartitions, ...]:
    """Return a set as records hold it, in order."""
    return tuple(StoredPartitions(*each) for each in in_order(partitions))


def in_order(partitions: Partitions) -> SortedPartitions:
    """Return a set as replies have it, in order."""
    return tuple((topic_id, tuple(sorted(partitions[topic_id]))) for topic_id in sorted(partitions))


def grouped(pairs: Iterable[tuple[UUID, int]]) -> Partitions:
    """Return the set of these partitions."""
    found: dict[UUID, set[int]] = {}
    for topic_id, index in pairs:
        found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}


def each_of(partitions: Partitions) -> Iterator[tuple[UUID, int]]:
    """Yield the partitions one by one."""
    for topic_id, indexes in partitions.items():
        for index in indexes:
            yield topic_id, index


def size(partitions: Partitions) -> int:
    """Return how many partitions there are."""
    return sum(map(len, partitions.values()))


def union(some: Partitions, others: Partitions) -> Partitions:
    """Return what is in either set."""
    if not others or not some:
        return some or others
    return {
        topic_id: some.get(topic_id, _NOTHING) | others.get(topic_id, _NOTHING)
        for topic_id in {**some, **others}
    }


def common(some: Partitions, others: Partitions) -> Partitions:
    """Return what is in both sets."""
    both = ((topic_id, indexes & others.get(topic_id, _NOTHING)) for topic_id, indexes in some.items())
    return {topic_id: indexes for topic_id, indexes in both if indexes}


def without(some: Partitions, others: Partitions) -> Partitions:
    """Return what is in the first set only."""
    rest = ((topic_id, indexes - others.get(topic_id, _NOTHING)) for topic_id, indexes in some.items())
    return {topic_id: indexes for topic_id, indexes in rest if indexes}


def of_topics(partitions: Partitions, topic_ids: frozenset[UUID]) -> Partitions:
    """Return the partitions of some topics."""
    return {topic_id: indexes for topic_id, indexes in partitions.items() if topic_id in topic_ids}


def unclaimed(partitions: Partitions, claimed: set[tuple[UUID, int]]) -> Partitions:
    """Return the partitions that are not claimed yet, and claim them."""
    pairs = set(each_of(partitions))
    if not claimed.isdisjoint(pairs):
        pairs -= claimed
        partitions = grouped(pairs)
    claimed |= pairs
    return partitions


_NOTHING: frozenset[int] = frozenset()
