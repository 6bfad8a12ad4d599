"""Where partitions should be: a plan that moves as little as possible.

First every partition keeps the replicas that may stay, and gets new ones where some are missing: on the rack
it uses least, there on the broker that holds least. Then replicas move from the fullest brokers to the
emptiest, as long as that makes them more even and puts no two replicas on one rack that were on two.
Last, the order within each partition is turned so that every broker is the preferred leader of its share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ottla.common.ids import TopicPartition

Racks = Mapping[int, str | None]
Plan = dict[TopicPartition, tuple[int, ...]]


def spread(
    partitions: Mapping[TopicPartition, Sequence[int]],
    racks: Racks,
    *,
    replication_factor: int | None = None,
    even: bool = True,
) -> Plan:
    """Return the replicas of each partition on the brokers of `racks`; those that stay as they are too.

    Without `even` only what must move does: replicas on other brokers. ValueError if there are too few.
    """
    largest = max((replication_factor or len(each) for each in partitions.values()), default=0)
    if largest > len(racks):
        raise ValueError(f"{largest} replicas need as many brokers, and there are {len(racks)}")
    planned = {
        at: [each for each in replicas if each in racks][: replication_factor or len(replicas)]
        for at, replicas in partitions.items()
    }
    load = Counter(dict.fromkeys(racks, 0))
    load.update(each for replicas in planned.values() for each in replicas)
    for at, replicas in planned.items():
        while len(replicas) < (replication_factor or len(partitions[at])):
            chosen = _emptiest(replicas, racks, load)
            replicas.append(chosen)
            load[chosen] += 1
    if even:
        _level(planned, racks, load)
        _share_leadership(planned)
    return {at: tuple(replicas) for at, replicas in planned.items()}


def _emptiest(replicas: Sequence[int], racks: Racks, load: Mapping[int, int]) -> int:
    used = Counter(racks[each] for each in replicas)
    free = [each for each in sorted(racks) if each not in replicas]
    return min(free, key=lambda each: (used[racks[each]], load[each]))


def _level(planned: Mapping[TopicPartition, list[int]], racks: Racks, load: Counter[int]) -> None:
    """Move single replicas from full to empty brokers; each move makes the loads more even, so it ends."""
    moved = True
    while moved:
        moved = False
        for replicas in planned.values():
            for position, holder in enumerate(replicas):
                free = [each for each in racks if each not in replicas]
                better = min(free, key=lambda each: (load[each], each), default=holder)
                if load[holder] - load[better] > 1 and not _crowds(replicas, position, better, racks):
                    replicas[position] = better
                    load[holder] -= 1
                    load[better] += 1
                    moved = True


def _crowds(replicas: Sequence[int], position: int, newcomer: int, racks: Racks) -> bool:
    others = Counter(racks[each] for at, each in enumerate(replicas) if at != position)
    return others[racks[newcomer]] > others[racks[replicas[position]]]


def _share_leadership(planned: Mapping[TopicPartition, list[int]]) -> None:
    leads: Counter[int] = Counter(replicas[0] for replicas in planned.values() if replicas)
    moved = True
    while moved:
        moved = False
        for replicas in planned.values():
            leader = min(replicas, key=lambda each: leads[each], default=-1)
            if replicas and leads[replicas[0]] - leads[leader] > 1:
                leads[replicas[0]] -= 1
                leads[leader] += 1
                replicas.remove(leader)
                replicas.insert(0, leader)
                moved = True
