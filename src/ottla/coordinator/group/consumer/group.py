"""A group of the consumer protocol (KIP-848): the broker assigns, and members follow at their own pace.

Three epochs show the progress of a group. The group's counts the changes of its members, subscriptions and
topics. The target's is the group epoch for which the assignment was computed, the newest or an older one.
A member's is the target that it has reached (reconcile.py).

All of a group is in the log. What is not (`seen_topics`, `seen_acls`, `rejoining`, `unheard`) is found out
again after a failover.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from uuid import UUID

from ottla.coordinator.effects import SetTimer
from ottla.coordinator.group.consumer.member import ConsumerMember, holding_of, new_member
from ottla.coordinator.group.consumer.partitions import Partitions, each_of, from_record
from ottla.coordinator.group.records import (
    ConsumerCurrentMemberKey,
    ConsumerCurrentMemberValue,
    ConsumerGroupKey,
    ConsumerGroupValue,
    ConsumerMemberKey,
    ConsumerMemberValue,
    ConsumerRegexKey,
    ConsumerRegexValue,
    ConsumerTargetKey,
    ConsumerTargetMemberKey,
    ConsumerTargetMemberValue,
    ConsumerTargetValue,
    ConsumerTopicsKey,
    Key,
    OffsetValue,
    Record,
    Value,
)
from ottla.coordinator.group.requests import CommitRequest, ListedGroup
from ottla.metadata.image import TopicImage
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import (
    FencedInstanceId,
    IllegalGeneration,
    NonEmptyGroup,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from ottla.security.acls import AclBinding

Topics = Mapping[str, TopicImage]


class ConsumerState(Enum):
    """What a group is busy with; the values are Kafka's words."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(slots=True)
class ConsumerGroup:
    """One group. Records change it, and nothing else does."""

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    """What the subscribed topics looked like at that epoch."""
    target_epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    """The ids of static members by their instance ids."""
    targets: dict[str, Partitions] = field(default_factory=dict)
    regexes: dict[str, ConsumerRegexValue] = field(default_factory=dict)
    owners: dict[tuple[UUID, int], str] = field(default_factory=dict)
    """The member that owns a partition, also while it is revoking it."""
    has_topics_record: bool = False
    """Whether Kafka before 4.1 wrote the subscribed topics, which are not needed any more."""

    seen_topics: Topics | None = None
    """The topics of the cluster that the group has last been compared with."""
    seen_acls: Mapping[AclBinding, None] | None = None
    """The ACLs by which its regular expressions have last been matched."""
    rejoining: frozenset[str] = frozenset()
    """The classic members that were asked to join again, and have a deadline for it."""

    unheard: frozenset[str] = frozenset()
    """The members that have not reported to have the assignment that they were sent last."""

    _names: frozenset[str] | None = None
    """All subscribed topics, computed on first use."""

    def copy(self) -> ConsumerGroup:
        """Return a group that can be changed without changing this one."""
        return replace(
            self,
            members=dict(self.members),
            instances=dict(self.instances),
            targets=dict(self.targets),
            regexes=dict(self.regexes),
            owners=dict(self.owners),
        )

    # Members

    def member(self, member_id: str, instance_id: str | None = None) -> ConsumerMember:
        """Return a member; raise if there is none, or if another one has its instance id now."""
        if instance_id is not None:
            current = self.instances.get(instance_id)
            if current is None:
                raise UnknownMemberId(f"no member of {self.group_id} has the instance id {instance_id}")
            if current != member_id:
                raise FencedInstanceId(f"{instance_id} is now {current}")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"{member_id} is not a member of {self.group_id}")
        return member

    def is_free(self, topic_id: UUID, index: int) -> bool:
        """Return whether no member has a partition."""
        return (topic_id, index) not in self.owners

    def assignor(self, default: str) -> str:
        """Return the assignor that most members ask for."""
        votes = Counter(
            each.subscription.server_assignor
            for each in self.members.values()
            if each.subscription.server_assignor is not None
        )
        return votes.most_common(1)[0][0] if votes else default

    # Subscriptions

    def topics_of(self, subscription: ConsumerMemberValue) -> frozenset[str]:
        """Return the names of the topics that a member subscribes to, one way or the other."""
        names = frozenset(subscription.subscribed_topics)
        resolved = self.regexes.get(subscription.subscribed_regex or "")
        return names if resolved is None else names.union(resolved.topics)

    def subscribed_topics(self) -> frozenset[str]:
        """Return the names of the topics that a member subscribes to."""
        if self._names is None:
            by_name = {each.subscription.subscribed_topics for each in self.members.values()}
            by_regex = (each.topics for each in self.regexes.values())
            self._names = frozenset().union(*by_name, *by_regex)
        return self._names

    def topic_ids_of(self, subscription: ConsumerMemberValue, topics: Topics) -> frozenset[UUID]:
        """Return the ids of the topics that a member subscribes to, those that exist."""
        return frozenset(topics[name].topic_id for name in self.topics_of(subscription) if name in topics)

    # State

    @property
    def state(self) -> ConsumerState:
        """What the group is busy with."""
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        if all(each.current.is_settled(self.target_epoch) for each in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    def replay(self, key: Key, value: Value | None) -> None:
        """Apply one record that is about this group and does not remove it.

        That what a member had is deleted says nothing yet: it is the first of the three records that remove
        the member, and if the others are missing, for a coordinator failed between two batches, the member
        is still there and has what it had.
        """
        match key, value:
            case ConsumerGroupKey(), ConsumerGroupValue():
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ConsumerTopicsKey(), _:
                self.has_topics_record = value is not None
            case ConsumerTargetKey(), ConsumerTargetValue():
                self.target_epoch = value.assignment_epoch
            case ConsumerTargetKey(), None:
                self.target_epoch = -1
            case ConsumerTargetMemberKey(), ConsumerTargetMemberValue():
                self.targets[key.member_id] = from_record(value.partitions)
            case ConsumerTargetMemberKey(), None:
                self.targets.pop(key.member_id, None)
            case ConsumerMemberKey(), ConsumerMemberValue():
                self._put(replace(self._member_or_new(key.member_id), subscription=value))
                self._names = None
            case ConsumerMemberKey(), None:
                self._remove(key.member_id)
                self._names = None
            case ConsumerCurrentMemberKey(), ConsumerCurrentMemberValue():
                self._put(replace(self._member_or_new(key.member_id), current=holding_of(value)))
            case ConsumerRegexKey(), ConsumerRegexValue():
                self.regexes[key.regex] = value
                self._names = None
            case ConsumerRegexKey(), None:
                self.regexes.pop(key.regex, None)
                self._names = None

    def _member_or_new(self, member_id: str) -> ConsumerMember:
        return self.members.get(member_id) or new_member(member_id)

    def _put(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if old is not None and old.instance_id != member.instance_id:
            self._forget_instance(old)
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        if old is not None:
            if old.current is member.current:
                return
            self._release(old)
        for pair in each_of(member.current.held):
            self.owners[pair] = member.member_id

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        self.targets.pop(member_id, None)
        self.rejoining -= {member_id}
        self.unheard -= {member_id}
        if member is None:
            return
        self._release(member)
        self._forget_instance(member)

    def _forget_instance(self, member: ConsumerMember) -> None:
        if member.instance_id is not None and self.instances.get(member.instance_id) == member.member_id:
            del self.instances[member.instance_id]

    def _release(self, member: ConsumerMember) -> None:
        for pair in each_of(member.current.held):
            if self.owners.get(pair) == member.member_id:
                del self.owners[pair]

    # As a Group

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        return not self.members

    def check_commit(self, request: CommitRequest) -> None:
        """Refuse offsets from anyone but a member at its epoch, unless there are no members."""
        if request.generation_id < 0 and self.is_empty:
            return
        if request.producer is not None and not request.has_member:
            return
        member = self.member(request.member_id)
        if request.producer is not None:
            if request.generation_id != member.current.epoch:
                raise IllegalGeneration(f"the epoch of {member.member_id} is {member.current.epoch}")
            return
        if not member.is_classic and not request.knows_group_not_found:
            raise UnsupportedVersion("members of the consumer protocol need OffsetCommit v9")
        _check_epoch(member, request.generation_id)

    def commit_timers(self, request: CommitRequest, now_ms: int) -> tuple[SetTimer, ...]:
        """Return none: only heartbeats extend a session."""
        return ()

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse to return offsets to a member with another epoch; allow it without a member id."""
        if member_id is None and member_epoch < 0:
            return
        _check_epoch(self.member(member_id or ""), member_epoch)

    def check_delete_offsets(self) -> None:
        """Allow it: it is known which topics the members use."""

    def check_delete(self) -> None:
        """Refuse to delete a group with members."""
        if not self.is_empty:
            raise NonEmptyGroup(f"{self.group_id} has members")

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether members use the offsets of this topic."""
        return topic in self.subscribed_topics()

    def retention_start_ms(self, offset: OffsetValue) -> int | None:
        """Return from when on the retention of an offset counts."""
        return offset.commit_ms

    def tombstones(self) -> tuple[Record, ...]:
        """Return the records that remove the group, but not its offsets."""
        group_id = self.group_id
        return (
            *(record for member_id in self.members for record in member_tombstones(group_id, member_id)),
            *(Record(ConsumerRegexKey(group_id, regex)) for regex in self.regexes),
            Record(ConsumerTargetKey(group_id)),
            *((Record(ConsumerTopicsKey(group_id)),) if self.has_topics_record else ()),
            Record(ConsumerGroupKey(group_id)),
        )

    def listed(self) -> ListedGroup:
        """Return the group's line in a list of groups."""
        return ListedGroup(self.group_id, PROTOCOL_TYPE, self.state.value, "consumer")


def member_tombstones(group_id: str, member_id: str) -> Iterable[Record]:
    """Return the records that remove a member; what it has goes first, as in Kafka."""
    return (
        Record(ConsumerCurrentMemberKey(group_id, member_id)),
        Record(ConsumerTargetMemberKey(group_id, member_id)),
        Record(ConsumerMemberKey(group_id, member_id)),
    )


def _check_epoch(member: ConsumerMember, epoch: int) -> None:
    known = member.current.epoch
    if epoch != known:
        stale = IllegalGeneration if member.is_classic else StaleMemberEpoch
        raise stale(f"the epoch of {member.member_id} is {known}, not {epoch}")
