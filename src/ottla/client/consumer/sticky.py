"""Deals partitions out evenly, and leaves as many as possible where they are.

First everybody keeps what they claim, unless somebody claims it who had it later. What nobody has goes,
one by one, to whoever may read it and has least. Then partitions move from who has most to who has least,
as long as that makes it more even by more than one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from ottla.common.ids import TopicPartition


class Claim(NamedTuple):
    """What a member had, and in which generation."""

    partitions: tuple[TopicPartition, ...]
    generation: int


def balance(
    partitions: Mapping[str, int], topics: Mapping[str, frozenset[str]], claims: Mapping[str, Claim]
) -> dict[str, list[TopicPartition]]:
    """Return what each member gets; `topics` says what each may read, in the order of preference."""
    every = [TopicPartition(name, index) for name in sorted(partitions) for index in range(partitions[name])]
    kept = _kept(set(every), topics, claims)
    if not topics:
        return {}
    if len(set(topics.values())) == 1:
        (common,) = set(topics.values())
        return _deal_evenly([each for each in every if each.topic in common], kept)
    return _deal_by_choice(every, topics, kept)


def _kept(
    every: set[TopicPartition], topics: Mapping[str, frozenset[str]], claims: Mapping[str, Claim]
) -> dict[str, list[TopicPartition]]:
    """Return what each member claims rightly: it exists, it may be read, nobody had it later."""
    newest: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id in topics:
        claimed, generation = claims.get(member_id, Claim((), -1))
        for partition in set(claimed):
            if partition not in every or partition.topic not in topics[member_id]:
                continue
            other = newest.get(partition)
            if other is None or generation > other[0]:
                newest[partition] = generation, member_id
            elif generation == other[0]:
                newest[partition] = generation, None  # two claim the same: neither is believed
    kept: dict[str, list[TopicPartition]] = {member_id: [] for member_id in topics}
    for partition in sorted(newest):
        owner = newest[partition][1]
        if owner is not None:
            kept[owner].append(partition)
    return kept


def _deal_evenly(
    every: list[TopicPartition], kept: dict[str, list[TopicPartition]]
) -> dict[str, list[TopicPartition]]:
    """Deal out to members that all read the same: each gets the same number, some one more."""
    least, more = divmod(len(every), len(kept))
    rich = sorted(
        (member_id for member_id in kept if len(kept[member_id]) > least), key=lambda m: -len(kept[m])
    )
    quota = dict.fromkeys(kept, least)
    for member_id in [*rich, *(each for each in kept if each not in set(rich))][:more]:
        quota[member_id] += 1
    assigned = {member_id: kept[member_id][: quota[member_id]] for member_id in kept}
    taken = {partition for owned in assigned.values() for partition in owned}
    free = iter([partition for partition in every if partition not in taken])
    while True:
        open_ones = [member_id for member_id in assigned if len(assigned[member_id]) < quota[member_id]]
        if not open_ones:
            return {member_id: sorted(owned) for member_id, owned in assigned.items()}
        for member_id in open_ones:
            assigned[member_id].append(next(free))


def _deal_by_choice(
    every: list[TopicPartition], topics: Mapping[str, frozenset[str]], kept: dict[str, list[TopicPartition]]
) -> dict[str, list[TopicPartition]]:
    """Deal out to members that read different topics."""
    readers: dict[str, list[str]] = defaultdict(list)
    for member_id, names in topics.items():
        for name in names:
            readers[name].append(member_id)
    assigned = {member_id: set(owned) for member_id, owned in kept.items()}
    place = {member_id: number for number, member_id in enumerate(topics)}
    taken = {partition for owned in assigned.values() for partition in owned}
    free = [partition for partition in every if partition not in taken and readers[partition.topic]]
    for partition in sorted(free, key=lambda each: (len(readers[each.topic]), each)):
        poorest = min(readers[partition.topic], key=lambda each: (len(assigned[each]), place[each]))
        assigned[poorest].add(partition)
    _even_out(assigned, readers, place)
    return {member_id: sorted(owned) for member_id, owned in assigned.items()}


def _even_out(
    assigned: dict[str, set[TopicPartition]], readers: Mapping[str, list[str]], place: Mapping[str, int]
) -> None:
    """Move partitions from who has more to who has at least two less, until nothing can be moved."""
    has_moved = True
    while has_moved:  # each move makes it more even, so that there is an end
        has_moved = False
        for member_id in sorted(assigned, key=lambda each: (-len(assigned[each]), place[each])):
            owned = assigned[member_id]
            for partition in sorted(owned):
                poorest = min(readers[partition.topic], key=lambda each: (len(assigned[each]), place[each]))
                if len(owned) - len(assigned[poorest]) >= 2:
                    owned.discard(partition)
                    assigned[poorest].add(partition)
                    has_moved = True
