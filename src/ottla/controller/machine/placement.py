"""Where the replicas of new partitions go.

The brokers form a ring in which neighbours are on different racks as far as possible. Leaders go round
the ring, so each broker leads the same number of partitions, give or take one. The followers of a
partition are the brokers after its leader, those on the least used racks first; with every full turn
of the ring they start one place later, so that the partitions of a dead broker's leaders do not
all fall to the same neighbour. Brokers that are not there at the moment lead nothing, and follow only
where there are not enough others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest

from ottla.metadata.image import BrokerImage
from ottla.protocol.errors import InvalidReplicationFactor


def place(
    brokers: Iterable[BrokerImage], partitions: range, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """Return the replicas, the leader first, of each partition; `start` says where on the ring 0 goes."""
    known = list(brokers)
    ring = _ring(each for each in known if each.can_lead)
    absent = _ring(each for each in known if not each.can_lead)
    if replication_factor > len(known):
        raise InvalidReplicationFactor(
            f"{replication_factor} replicas need as many brokers, and there are {len(known)}"
        )
    if not ring:
        raise InvalidReplicationFactor("no broker is there to lead the partitions")
    return [_replicas(ring, absent, start + partition, replication_factor) for partition in partitions]


def _ring(brokers: Iterable[BrokerImage]) -> list[BrokerImage]:
    racks: dict[str, list[BrokerImage]] = defaultdict(list)
    for broker in sorted(brokers, key=lambda each: each.node_id):
        racks[broker.rack or ""].append(broker)
    rounds = zip_longest(*(racks[rack] for rack in sorted(racks)))
    return [broker for broker in chain.from_iterable(rounds) if broker is not None]


def _replicas(
    ring: Sequence[BrokerImage], absent: Sequence[BrokerImage], turn: int, count: int
) -> tuple[int, ...]:
    size = len(ring)
    leader = ring[turn % size]
    replicas, racks = [leader.node_id], Counter([leader.rack])
    if count > 1:
        shift = turn // size
        others = [ring[(turn + 1 + (shift + step) % (size - 1)) % size] for step in range(size - 1)]
        others += absent
        for _ in range(count - 1):
            # The first of those on the least used rack.
            chosen = min(others, key=lambda each: (not each.can_lead, racks[each.rack]))
            others.remove(chosen)
            replicas.append(chosen.node_id)
            racks[chosen.rack] += 1
    return tuple(replicas)
