"""A group of the classic protocol: its members vote for a protocol, and their leader assigns.

              join                  all joined                 leader synced
    Empty ------------> Preparing ------------> Completing ------------------> Stable
      ^                 Rebalance <------------ Rebalance                        |
      |                  |  ^      join, leave,                                  |
      +------------------+  +---------------- session expired -------------------+
        nobody is left

Only Empty and Stable are written to the log, as the value of one record; whoever was on the way between
them when a coordinator failed is found at the last of the two, and its members join again by themselves.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum

from ottla.coordinator.effects import SetTimer
from ottla.coordinator.group.embedded_protocol import subscribed_topics
from ottla.coordinator.group.records import GroupKey, OffsetValue, Record
from ottla.coordinator.group.requests import CommitRequest, JoinedMember, ListedGroup, Protocols
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import (
    FencedInstanceId,
    IllegalGeneration,
    KafkaError,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)

# A member of a classic group, and the states that a group can be in.


class State(Enum):
    """Where a group is in its life; the values are Kafka's words."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class Member:
    """One member; the tokens are those of its parked requests."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """Whether it has not yet been in any generation."""
    join_token: int | None = None
    sync_token: int | None = None

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return its metadata for a protocol."""
        return dict(self.protocols).get(protocol_name or "", b"")


@dataclass(frozen=True, slots=True)
class InitialDelay:
    """How long a group that was empty waits for more members, and how much longer it may."""

    delay_ms: int
    remaining_ms: int
    has_new_member: bool = False


@dataclass(slots=True)
class ClassicGroup:
    """One group. A handler changes a `copy`, and the step that it returns puts that in place."""

    group_id: str
    state: State = State.EMPTY
    state_since_ms: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    generation_id: int = 0
    leader_id: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    """The ids of static members by their instance ids."""
    pending: set[str] = field(default_factory=set)
    """Members that were told their id and have not joined with it yet."""
    unsynced: set[str] = field(default_factory=set)
    """Members of this generation that have not asked for their assignment yet."""
    initial: InitialDelay | None = None
    """Set during the first rebalance after the group was empty."""
    topics: frozenset[str] | None = None
    """The topics that this generation's members subscribe to, if they are consumers."""

    def copy(self) -> ClassicGroup:
        """Return a group that can be changed without changing this one."""
        return replace(
            self,
            members=dict(self.members),
            instances=dict(self.instances),
            pending=set(self.pending),
            unsynced=set(self.unsynced),
        )

    # Members

    def add(self, member: Member) -> None:
        """Admit a member."""
        self.put(member)
        self.pending.discard(member.member_id)
        if self.leader_id is None:
            self.leader_id = member.member_id

    def put(self, member: Member) -> None:
        """Take over what changed about a member."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """Let go of a member, pending or not; another one leads if it was the leader."""
        self.pending.discard(member_id)
        self.unsynced.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.instances.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """Return a member; raise what Kafka answers to one that is unknown, or fenced by its double."""
        if instance_id is not None:
            current = self.instances.get(instance_id)
            if current is None:
                raise UnknownMemberId(f"no member has the instance id {instance_id}")
            if current != member_id:
                raise FencedInstanceId(f"{instance_id} is now {current}")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"{member_id} is not a member of {self.group_id}")
        return member

    @property
    def awaiting_join(self) -> list[Member]:
        """The members whose JoinGroup is parked."""
        return [member for member in self.members.values() if member.join_token is not None]

    @property
    def has_all_joined(self) -> bool:
        """Tell whether nobody is missing for the next generation."""
        return not self.pending and len(self.awaiting_join) == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member may take to join again."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Protocols

    @property
    def common_protocols(self) -> set[str]:
        """The protocols that all members support."""
        common: set[str] | None = None
        for member in self.members.values():
            names = dict(member.protocols)
            common = set(names) if common is None else common.intersection(names)
        return common or set()

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Tell whether a member with these protocols can be in the group."""
        if self.state is State.EMPTY:
            return bool(protocol_type and protocols)
        if self.protocol_type != protocol_type:
            return False
        names = dict(protocols)
        return not self.common_protocols.isdisjoint(names) if self.members else bool(names)

    def select_protocol(self) -> str:
        """Return the protocol with the most votes: every member's favourite of the common ones."""
        common = self.common_protocols
        if len(common) == 1:
            return common.pop()
        votes = Counter(
            next(name for name, _ in member.protocols if name in common) for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    # Life

    def move_to(self, state: State, now_ms: int) -> None:
        """Enter a state."""
        self.state = state
        self.state_since_ms = now_ms

    def begin_generation(self, now_ms: int) -> None:
        """Count up, choose the protocol, and wait for the leader's assignment, or for members."""
        self.generation_id += 1
        self.initial = None
        self.unsynced.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.topics = self.subscribed_topics()
        self.move_to(State.COMPLETING_REBALANCE if self.members else State.EMPTY, now_ms)

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics that all members together subscribe to, as far as the broker can tell."""
        if self.protocol_type != PROTOCOL_TYPE:
            return None
        try:
            parsed = [subscribed_topics(each.metadata(self.protocol_name)) for each in self.members.values()]
        except KafkaError:
            return None  # not what a consumer sends: then all topics count as subscribed
        return frozenset().union(*parsed)

    @property
    def joined_members(self) -> tuple[JoinedMember, ...]:
        """The members as the leader needs to know them."""
        return tuple(
            JoinedMember(each.member_id, each.instance_id, each.metadata(self.protocol_name))
            for each in self.members.values()
        )

    # As a Group

    @property
    def is_empty(self) -> bool:
        """Tell whether the group has no members."""
        return self.state is State.EMPTY

    def check_commit(self, request: CommitRequest) -> None:
        """Refuse offsets from anyone but a member of this generation, unless there are no members."""
        if request.generation_id < 0 and self.is_empty:
            return
        if not request.has_member:
            if request.producer is not None:
                return
            raise UnknownMemberId(f"{self.group_id} has members, only they may commit")
        self.check_member(request.member_id, request.instance_id)
        if request.generation_id != self.generation_id:
            raise IllegalGeneration(f"{self.group_id} is in generation {self.generation_id}")
        if self.state is State.COMPLETING_REBALANCE and request.producer is None:
            raise RebalanceInProgress(f"{self.group_id} waits for its leader's assignment")

    def commit_timers(self, request: CommitRequest, now_ms: int) -> tuple[SetTimer, ...]:
        """Extend the session of the member that commits."""
        member = self.members.get(request.member_id)
        return () if member is None else (self.session_timer(member, now_ms),)

    def session_timer(self, member: Member, now_ms: int) -> SetTimer:
        """Return the timer that ends a member's session."""
        key = ("session", self.group_id, member.member_id)
        return SetTimer(key, now_ms + member.session_timeout_ms)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow every fetch: clients send no generation with it."""

    def check_delete_offsets(self) -> None:
        """Refuse if there are members that are not consumers: then nobody knows what they use."""
        if not self.is_empty and self.protocol_type != PROTOCOL_TYPE:
            raise NonEmptyGroup(f"{self.group_id} has members")

    def check_delete(self) -> None:
        """Refuse to delete a group with members."""
        if not self.is_empty:
            raise NonEmptyGroup(f"{self.group_id} has members")

    def is_subscribed_to(self, topic: str) -> bool:
        """Tell whether members use the offsets of this topic."""
        if self.topics is None:
            return self.protocol_type == PROTOCOL_TYPE
        return topic in self.topics

    def retention_start_ms(self, offset: OffsetValue) -> int | None:
        """Return from when on the retention of an offset counts; None while it is kept anyway."""
        if self.protocol_type is None:
            return offset.commit_ms
        if self.is_empty:
            return offset.commit_ms if self.state_since_ms == -1 else self.state_since_ms
        if self.state is State.STABLE and self.topics is not None:
            return offset.commit_ms
        return None

    def tombstones(self) -> tuple[Record, ...]:
        """Return the records that remove the group, but not its offsets."""
        return (Record(GroupKey(self.group_id)),)

    def listed(self) -> ListedGroup:
        """Return the group's line in a list of groups."""
        return ListedGroup(self.group_id, self.protocol_type or "", self.state.value, "classic")
