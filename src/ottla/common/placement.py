"""Where replicas and leaders should be: a plan that moves as little as possible. Pure.

In this order, so that a later goal never undoes an earlier one:

1. Every partition keeps the replicas that may stay, and gets new ones where some are missing: on the rack it
   uses least, there on the broker that holds least of the topic, then least of all.
2. No two replicas of a partition share a rack while another rack has none.
3. Each topic is spread evenly: no broker holds two replicas more of it than another.
4. All brokers together are even in bytes (or in replicas, without sizes), within TOLERANCE.
5. The leaders of each topic are spread evenly: the order within partitions is turned, nothing is copied.
6. All brokers together are even in the traffic that they lead, within TOLERANCE.

Where only a part is planned (a broker is emptied: steps 1 and 5), the partitions `beside` it count, too.
Brokers in `closed` keep what they have and get nothing. Replicas move one at a time, and each move makes the
loads more even: so it ends, and what is even stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.common.ids import TopicPartition

Racks = Mapping[int, str | None]
Plan = dict[TopicPartition, tuple[int, ...]]
TOLERANCE = 0.1
"""Brokers may differ by this share of the average in bytes and traffic before something is moved for it."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The size and the traffic of partitions; empty if they are not known."""

    bytes: Mapping[TopicPartition, float] = field(default_factory=dict)
    traffic: Mapping[TopicPartition, float] = field(default_factory=dict)


NO_WEIGHTS = Weights()


def spread(
    partitions: Mapping[TopicPartition, Sequence[int]],
    racks: Racks,
    *,
    replication_factor: int | None = None,
    even: bool = True,
    weights: Weights = NO_WEIGHTS,
    closed: Collection[int] = (),
    beside: Mapping[TopicPartition, Sequence[int]] | None = None,
) -> Plan:
    """Return the replicas of each partition on the brokers of `racks`; those that stay as they are too.

    Without `even` only what must move does: replicas on other brokers, and the leaders among them. `beside`
    are partitions that are not planned, and count. ValueError if there are too few brokers.
    """
    largest = max((replication_factor or len(each) for each in partitions.values()), default=0)
    if largest > len(racks):
        raise ValueError(f"{largest} replicas need as many brokers, and there are {len(racks)}")
    planned = {
        at: [each for each in replicas if each in racks][: replication_factor or len(replicas)]
        for at, replicas in partitions.items()
    }
    draft = _Draft(planned, racks, weights, frozenset(closed), beside or {})
    for at in planned:
        draft.fill(at, replication_factor or len(partitions[at]))
    if even:
        draft.separate_racks()
        while draft.level_topics() or draft.level_bytes():
            pass  # bytes may be in the way of topics on the same racks
        draft.count_leaders()
        while draft.spread_leaders() or draft.level_traffic():
            pass
    else:
        draft.replace_leaders({at for at, each in partitions.items() if each and each[0] not in racks})
    return {at: tuple(replicas) for at, replicas in planned.items()}


class _Draft:
    """A plan being made, with the loads that follow from it."""

    def __init__(
        self,
        planned: dict[TopicPartition, list[int]],
        racks: Racks,
        weights: Weights,
        closed: frozenset[int],
        beside: Mapping[TopicPartition, Sequence[int]],
    ) -> None:
        self.planned = planned
        self._beside = beside
        self.racks = racks
        self.closed = closed
        self.open = [each for each in sorted(racks) if each not in closed] or sorted(racks)
        self._tolerance = TOLERANCE if weights.bytes else 0.0
        self._bytes = _with_average(weights.bytes, [*planned, *beside])
        self._traffic = _with_average(weights.traffic, [*planned, *beside])
        self.held: Counter[tuple[str, int]] = Counter()
        self.led: Counter[tuple[str, int]] = Counter()
        self._topics: dict[str, list[TopicPartition]] = {}
        self.load: dict[int, float] = dict.fromkeys(racks, 0.0)
        for at, replicas in (*beside.items(), *planned.items()):
            for node in replicas:
                if node in self.load:
                    self._count(at, node, 1)

    def _count(self, at: TopicPartition, node: int, sign: int) -> None:
        self.held[at.topic, node] += sign
        self.load[node] += sign * self._bytes[at]

    # Replicas

    def fill(self, at: TopicPartition, count: int) -> None:
        """Add the missing replicas of a partition."""
        replicas = self.planned[at]
        while len(replicas) < count:
            used = Counter(self.racks[each] for each in replicas)
            free = [each for each in self.open if each not in replicas]
            free = free or [each for each in sorted(self.racks) if each not in replicas]
            chosen = min(
                free, key=lambda each: (used[self.racks[each]], self.held[at.topic, each], self.load[each])
            )
            replicas.append(chosen)
            self._count(at, chosen, 1)

    def separate_racks(self) -> None:
        """Move the second replica on a rack to a rack without one."""
        for at, replicas in self.planned.items():
            for position, holder in enumerate(replicas):
                used = Counter(self.racks[each] for each in replicas)
                if used[self.racks[holder]] < 2:
                    continue
                free = [each for each in self.open if not used[self.racks[each]]]
                if free:
                    better = min(free, key=lambda each: (self.held[at.topic, each], self.load[each]))
                    self._move(at, position, better)

    def level_topics(self) -> bool:
        """Spread each topic evenly; return whether something was moved."""

        def is_better(at: TopicPartition, holder: int, other: int) -> bool:
            return self.held[at.topic, holder] - self.held[at.topic, other] > 1

        return self._level(is_better, lambda at, each: (self.held[at.topic, each], self.load[each]))

    def level_bytes(self) -> bool:
        """Spread all topics together evenly, without making a topic less even."""
        average = sum(self.load.values()) / max(1, len(self.load))

        def is_better(at: TopicPartition, holder: int, other: int) -> bool:
            if self.held[at.topic, holder] <= self.held[at.topic, other]:
                return False
            gap, size = self.load[holder] - self.load[other], self._bytes[at]
            return gap > size and gap > self._tolerance * average

        return self._level(is_better, lambda at, each: (self.load[each], self.held[at.topic, each]))

    def _level(
        self,
        is_better: Callable[[TopicPartition, int, int], bool],
        order: Callable[[TopicPartition, int], tuple[float, float]],
    ) -> bool:
        """Move replicas to the best other broker, until none is better; return whether one was."""
        moved, was_moved = True, False
        while moved:
            moved = False
            for at, replicas in self.planned.items():
                for position, holder in enumerate(replicas):
                    free = [
                        each
                        for each in self.open
                        if each not in replicas and not self._crowds(replicas, position, each)
                    ]
                    if not free:
                        continue
                    other = min(free, key=lambda each: (*order(at, each), each))
                    if is_better(at, holder, other):
                        self._move(at, position, other)
                        moved = was_moved = True
        return was_moved

    def _move(self, at: TopicPartition, position: int, other: int) -> None:
        replicas = self.planned[at]
        self._count(at, replicas[position], -1)
        replicas[position] = other
        self._count(at, other, 1)

    def _crowds(self, replicas: Sequence[int], position: int, newcomer: int) -> bool:
        others = Counter(self.racks[each] for at, each in enumerate(replicas) if at != position)
        return others[self.racks[newcomer]] > others[self.racks[replicas[position]]]

    # Leaders

    def count_leaders(self) -> None:
        """Count the leaders of each broker, once every replica has its place."""
        for at, replicas in self.planned.items():
            if replicas:
                self._topics.setdefault(at.topic, []).append(at)
                self.led[at.topic, replicas[0]] += 1

    def replace_leaders(self, leaderless: Collection[TopicPartition]) -> None:
        """Let the replicas lead these partitions that lead least of the topic, then least of all."""
        led = Counter[int]()
        for at, replicas in (*self._beside.items(), *self.planned.items()):
            if replicas and at not in leaderless:
                self.led[at.topic, replicas[0]] += 1
                led[replicas[0]] += 1
        for at in sorted(leaderless):
            replicas = self.planned[at]
            leader = min(
                replicas, key=lambda each: (each in self.closed, self.led[at.topic, each], led[each])
            )
            self.led[at.topic, leader] += 1
            led[leader] += 1
            replicas.remove(leader)
            replicas.insert(0, leader)

    def spread_leaders(self) -> bool:
        """Give each broker its share of the leaders of each topic, over several partitions if need be."""
        was_moved = False
        for topic, partitions in self._topics.items():
            while path := self._path(topic, partitions):
                was_moved = True
                for at, leader in path:
                    self._lead(at, leader)
        return was_moved

    def _path(self, topic: str, partitions: Sequence[TopicPartition]) -> list[tuple[TopicPartition, int]]:
        """Return changes of leaders that take one from a broker with too many to one with two fewer."""
        led = {node: self.led[topic, node] for node in self.racks}
        for most in sorted(led, key=lambda node: (-led[node], node)):
            came_by: dict[int, tuple[int, TopicPartition]] = {}
            frontier = [most]
            while frontier:
                here = frontier.pop(0)
                for at in partitions:
                    if self.planned[at][0] != here:
                        continue
                    for other in self.planned[at][1:]:
                        if other == most or other in came_by or other in self.closed:
                            continue
                        came_by[other] = (here, at)
                        if led[most] - led[other] > 1:
                            return _walk_back(came_by, most, other)
                        frontier.append(other)
        return []

    def _lead(self, at: TopicPartition, leader: int) -> None:
        replicas = self.planned[at]
        self.led[at.topic, replicas[0]] -= 1
        self.led[at.topic, leader] += 1
        replicas.remove(leader)
        replicas.insert(0, leader)

    def level_traffic(self) -> bool:
        """Spread the traffic of leaders evenly, without making a topic less even."""
        load = dict.fromkeys(self.racks, 0.0)
        for at, replicas in self.planned.items():
            if replicas:
                load[replicas[0]] += self._traffic[at]
        average = sum(load.values()) / max(1, len(load))
        moved, was_moved = True, False
        while moved:
            moved = False
            for at, replicas in self.planned.items():
                if len(replicas) < 2:
                    continue
                others = [each for each in replicas[1:] if each not in self.closed]
                leader, size = replicas[0], self._traffic[at]
                for other in sorted(others, key=lambda each: load[each]):
                    gap = load[leader] - load[other]
                    is_even = self.led[at.topic, leader] > self.led[at.topic, other]
                    if is_even and gap > size and gap > TOLERANCE * average:
                        self._lead(at, other)
                        load[leader] -= size
                        load[other] += size
                        moved = was_moved = True
                        break
        return was_moved


def _walk_back(
    came_by: Mapping[int, tuple[int, TopicPartition]], first: int, last: int
) -> list[tuple[TopicPartition, int]]:
    path = []
    node = last
    while node != first:
        before, at = came_by[node]
        path.append((at, node))
        node = before
    return path


def _with_average(
    known: Mapping[TopicPartition, float], partitions: Collection[TopicPartition]
) -> dict[TopicPartition, float]:
    """Return the weight of each partition: the average, or 1, where it is not known."""
    found = [known[at] for at in partitions if at in known]
    average = sum(found) / len(found) if found and sum(found) > 0 else 1.0
    if not found or sum(found) <= 0:
        return dict.fromkeys(partitions, 1.0)
    return {at: known.get(at, average) for at in partitions}
