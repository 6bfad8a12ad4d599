"""Assignors: how the leader of a classic group assigns partitions to the members.

    range               per topic: a contiguous range for each member
    roundrobin          all partitions of all topics, one after the other
    sticky              balanced, and members keep their partitions as far as that allows
    cooperative-sticky  the same, but a partition that moves is first revoked and then, in another rebalance,
                        assigned to its new owner: members keep reading during a rebalance

All are pure functions: every member computes the same result from the same input.

The sticky algorithm: first every member keeps the partitions that it claims, unless another member claims
them for a later generation. Unowned partitions go, one by one, to the subscribed member with the fewest.
Then partitions move from the member with the most to the one with the fewest, as long as their counts differ
by more than one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import cycle
from struct import pack
from typing import NamedTuple

from ottla.common.ids import TopicPartition
from ottla.protocol.consumer_protocol import Subscription, decode_sticky_user_data, encode_sticky_user_data
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import read_int32


class Claim(NamedTuple):
    """The partitions that a member owned, and in which generation."""

    partitions: tuple[TopicPartition, ...]
    generation: int


def balance(
    partitions: Mapping[str, int], topics: Mapping[str, frozenset[str]], claims: Mapping[str, Claim]
) -> dict[str, list[TopicPartition]]:
    """Return the partitions of each member; `topics` has the subscriptions, in order of preference."""
    every = [TopicPartition(name, index) for name in sorted(partitions) for index in range(partitions[name])]
    kept = _kept(set(every), topics, claims)
    if not topics:
        return {}
    if len(set(topics.values())) == 1:
        (common,) = set(topics.values())
        return _assign_evenly([each for each in every if each.topic in common], kept)
    return _assign_by_subscription(every, topics, kept)


def _kept(
    every: set[TopicPartition], topics: Mapping[str, frozenset[str]], claims: Mapping[str, Claim]
) -> dict[str, list[TopicPartition]]:
    """Return the valid claims: existing, subscribed, and not claimed for a later generation."""
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
                newest[partition] = generation, None  # two members claim the same: ignore both
    kept: dict[str, list[TopicPartition]] = {member_id: [] for member_id in topics}
    for partition in sorted(newest):
        owner = newest[partition][1]
        if owner is not None:
            kept[owner].append(partition)
    return kept


def _assign_evenly(
    every: list[TopicPartition], kept: dict[str, list[TopicPartition]]
) -> dict[str, list[TopicPartition]]:
    """Assign to members with equal subscriptions: the same number each, some one more."""
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


def _assign_by_subscription(
    every: list[TopicPartition], topics: Mapping[str, frozenset[str]], kept: dict[str, list[TopicPartition]]
) -> dict[str, list[TopicPartition]]:
    """Assign to members with different subscriptions."""
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
    """Move partitions to members that have at least two fewer, until none can be moved."""
    has_moved = True
    while has_moved:  # each move improves the balance, so this terminates
        has_moved = False
        for member_id in sorted(assigned, key=lambda each: (-len(assigned[each]), place[each])):
            owned = assigned[member_id]
            for partition in sorted(owned):
                poorest = min(readers[partition.topic], key=lambda each: (len(assigned[each]), place[each]))
                if len(owned) - len(assigned[poorest]) >= 2:
                    owned.discard(partition)
                    assigned[poorest].add(partition)
                    has_moved = True


Partitions = Mapping[str, int]
"""The number of partitions of each topic that exists."""
Members = Mapping[str, "Member"]
Assigned = dict[str, list[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the group, as its leader sees it."""

    member_id: str
    subscription: Subscription
    instance_id: str | None = None

    @property
    def order(self) -> tuple[bool, str]:
        """The sort key: static members first, by instance id, so that they get the same partitions again."""
        return self.instance_id is None, self.instance_id or self.member_id


@dataclass(frozen=True, slots=True)
class Assignor:
    """An assignment strategy."""

    name: str
    assign: Callable[[Partitions, Members], Assigned]
    is_cooperative: bool = False
    user_data: Callable[[Iterable[TopicPartition], int], bytes | None] = lambda owned, generation: None
    """Returns the user data of a member, from its partitions and their generation."""


def assign_range(partitions: Partitions, members: Members) -> Assigned:
    """Assign each topic in contiguous ranges; the first members get one more if they do not divide."""
    assigned: Assigned = {member_id: [] for member_id in members}
    for topic in sorted(partitions):
        takers = _subscribers(members, topic)
        if not takers:
            continue
        each, more = divmod(partitions[topic], len(takers))
        start = 0
        for place, member in enumerate(takers):
            end = start + each + (place < more)
            assigned[member.member_id] += [TopicPartition(topic, index) for index in range(start, end)]
            start = end
    return assigned


def assign_round_robin(partitions: Partitions, members: Members) -> Assigned:
    """Assign one partition after the other; skip members that are not subscribed to its topic."""
    assigned: Assigned = {member_id: [] for member_id in members}
    turns = cycle(sorted(members.values(), key=lambda member: member.order))
    for topic in sorted(partitions):
        if not _subscribers(members, topic):
            continue
        for index in range(partitions[topic]):
            member = next(each for each in turns if topic in each.subscription.topics)
            assigned[member.member_id].append(TopicPartition(topic, index))
    return assigned


def assign_sticky(partitions: Partitions, members: Members) -> Assigned:
    """Assign evenly, and move as little as possible; the user data has the owned partitions."""
    claims = {member.member_id: _old_claim(member) for member in members.values()}
    return _balanced(partitions, members, claims)


def assign_cooperatively(partitions: Partitions, members: Members) -> Assigned:
    """Do the same, but withhold partitions that another member still owns: they are revoked first."""
    claims = {
        member.member_id: Claim(member.subscription.owned, _generation(member)) for member in members.values()
    }
    target = _balanced(partitions, members, claims)
    owner = {partition: member_id for member_id, claim in claims.items() for partition in claim.partitions}
    return {
        member_id: [each for each in wanted if owner.get(each, member_id) == member_id]
        for member_id, wanted in target.items()
    }


def _balanced(partitions: Partitions, members: Members, claims: Mapping[str, Claim]) -> Assigned:
    ordered = sorted(members.values(), key=lambda member: member.order)
    topics = {
        member.member_id: frozenset(partitions.keys() & set(member.subscription.topics)) for member in ordered
    }
    return balance(partitions, topics, claims)


def _subscribers(members: Members, topic: str) -> list[Member]:
    found = [member for member in members.values() if topic in member.subscription.topics]
    return sorted(found, key=lambda member: member.order)


def _old_claim(member: Member) -> Claim:
    """Return the claim of a sticky member: from its user data, else from the subscription."""
    subscription = member.subscription
    if subscription.user_data:
        try:
            owned, generation = decode_sticky_user_data(subscription.user_data)
        except InvalidRequest:
            return Claim((), -1)
        return Claim(owned, generation)
    return Claim(subscription.owned, subscription.generation_id)


def _generation(member: Member) -> int:
    """Return the generation of a cooperative member's partitions; older clients put it in the user data."""
    subscription = member.subscription
    if subscription.generation_id < 0 and subscription.user_data:
        try:
            return read_int32(subscription.user_data, 0)[0]
        except InvalidRequest:
            return -1
    return subscription.generation_id


def _cooperative_data(owned: Iterable[TopicPartition], generation: int) -> bytes:
    return pack(">i", generation)


ASSIGNORS = {
    each.name: each
    for each in (
        Assignor("range", assign_range),
        Assignor("roundrobin", assign_round_robin),
        Assignor("sticky", assign_sticky, user_data=encode_sticky_user_data),
        Assignor("cooperative-sticky", assign_cooperatively, True, _cooperative_data),
    )
}
"""The assignors by name."""
