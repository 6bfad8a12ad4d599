"""How the leader of a classic group deals partitions out to its members.

    range               per topic: a contiguous stretch for each member
    roundrobin          all partitions of all topics in turn
    sticky              as even as possible, and everybody keeps what they have as far as that allows
    cooperative-sticky  the same, but a partition that moves is first given up and then, in another round,
                        given to its new owner: nobody has to stop reading for a rebalance

All are pure: the same members and partitions give the same result, on whatever member it is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import cycle
from struct import pack

from ottla.client.consumer.sticky import Claim, balance
from ottla.client.consumer_protocol import Subscription, encode_partitions, read_partitions
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import read_int32

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
        """Static members come first, by their names, so that they get the same again."""
        return self.instance_id is None, self.instance_id or self.member_id


@dataclass(frozen=True, slots=True)
class Assignor:
    """One way to deal partitions out."""

    name: str
    assign: Callable[[Partitions, Members], Assigned]
    is_cooperative: bool = False
    user_data: Callable[[Iterable[TopicPartition], int], bytes | None] = lambda owned, generation: None
    """What a member says of itself beside its subscription: from what it owns, and since when."""


def assign_range(partitions: Partitions, members: Members) -> Assigned:
    """Deal out each topic by itself, in stretches; the first members get one more if it does not add up."""
    assigned: Assigned = {member_id: [] for member_id in members}
    for topic in sorted(partitions):
        takers = _takers(members, topic)
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
    """Deal out one partition after the other; members that do not read its topic are passed over."""
    assigned: Assigned = {member_id: [] for member_id in members}
    turns = cycle(sorted(members.values(), key=lambda member: member.order))
    for topic in sorted(partitions):
        if not _takers(members, topic):
            continue
        for index in range(partitions[topic]):
            member = next(each for each in turns if topic in each.subscription.topics)
            assigned[member.member_id].append(TopicPartition(topic, index))
    return assigned


def assign_sticky(partitions: Partitions, members: Members) -> Assigned:
    """Deal out evenly, and leave as much as possible where it is; what was owned is in the user data."""
    claims = {member.member_id: _old_claim(member) for member in members.values()}
    return _balanced(partitions, members, claims)


def assign_cooperatively(partitions: Partitions, members: Members) -> Assigned:
    """Do the same, but withhold what somebody else still has: it is given up first."""
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


def _takers(members: Members, topic: str) -> list[Member]:
    found = [member for member in members.values() if topic in member.subscription.topics]
    return sorted(found, key=lambda member: member.order)


def _old_claim(member: Member) -> Claim:
    """Return what a sticky member had: from its user data, or from newer fields if it has none."""
    subscription = member.subscription
    if subscription.user_data:
        try:
            owned, at = read_partitions(subscription.user_data, 0)
            generation = -1
            if at < len(subscription.user_data):
                generation, _ = read_int32(subscription.user_data, at)
        except InvalidRequest:
            return Claim((), -1)
        return Claim(owned, generation)
    return Claim(subscription.owned, subscription.generation_id)


def _generation(member: Member) -> int:
    """Return since when a cooperative member has what it owns; older clients say it in the user data."""
    subscription = member.subscription
    if subscription.generation_id < 0 and subscription.user_data:
        try:
            return read_int32(subscription.user_data, 0)[0]
        except InvalidRequest:
            return -1
    return subscription.generation_id


def _sticky_data(owned: Iterable[TopicPartition], generation: int) -> bytes:
    return encode_partitions(owned) + pack(">i", generation)


def _cooperative_data(owned: Iterable[TopicPartition], generation: int) -> bytes:
    return pack(">i", generation)


ASSIGNORS = {
    each.name: each
    for each in (
        Assignor("range", assign_range),
        Assignor("roundrobin", assign_round_robin),
        Assignor("sticky", assign_sticky, user_data=_sticky_data),
        Assignor("cooperative-sticky", assign_cooperatively, True, _cooperative_data),
    )
}
"""The assignors by name."""
