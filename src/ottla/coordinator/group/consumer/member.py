"""A member of a consumer group: what it wants, and what it has."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum

from ottla.coordinator.group.consumer.partitions import (
    NO_PARTITIONS,
    Partitions,
    from_record,
    to_record,
    union,
)
from ottla.coordinator.group.records import (
    ConsumerCurrentMemberKey,
    ConsumerCurrentMemberValue,
    ConsumerMemberKey,
    ConsumerMemberValue,
    Record,
)


class MemberState(IntEnum):
    """How far a member is on its way to its target; the values are those of the records."""

    STABLE = 0
    """It has all that it is to have, as of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It has been told to give partitions up, and has not said yet that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not given up yet."""
    UNKNOWN = 127
    """A newer broker wrote something that this one does not know."""


@dataclass(frozen=True, slots=True)
class AssignmentState:
    """What a member has, as of which epoch."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Partitions = field(default_factory=dict)
    revoking: Partitions = field(default_factory=dict)
    """What it has been told to give up; until it says that it did, it has them."""

    def moved_to(
        self, epoch: int, state: MemberState, assigned: Partitions, revoking: Partitions = NO_PARTITIONS
    ) -> AssignmentState:
        """Return the next holding; a client that missed the last answer still names the epoch before it."""
        previous_epoch = self.previous_epoch if epoch == self.epoch else self.epoch
        return AssignmentState(epoch, previous_epoch, state, assigned, revoking)

    def is_settled(self, epoch: int) -> bool:
        """Tell whether all is done for an epoch of the target assignment."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    @property
    def held(self) -> Partitions:
        """All that nobody else may have meanwhile."""
        return union(self.assigned, self.revoking)


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member."""

    member_id: str
    subscription: ConsumerMemberValue
    current: AssignmentState = AssignmentState()

    @property
    def instance_id(self) -> str | None:
        """The name of a static member."""
        return self.subscription.instance_id

    @property
    def is_classic(self) -> bool:
        """Tell whether it speaks the classic protocol, in a group that was upgraded."""
        return self.subscription.classic is not None

    @property
    def regex(self) -> str | None:
        """The regular expression that it subscribes to, if any."""
        return self.subscription.subscribed_regex or None

    def session_timeout_ms(self, default_ms: int) -> int:
        """Return how long it may be silent: classic members say so themselves."""
        return (
            default_ms if self.subscription.classic is None else self.subscription.classic.session_timeout_ms
        )


NO_WISHES = ConsumerMemberValue(None, None, "", "", (), None, -1, None)
"""Those of a member that has not said anything yet."""


def new_member(member_id: str) -> ConsumerMember:
    """Return a member that has not said anything yet."""
    return ConsumerMember(member_id, NO_WISHES)


def subscription_record(group_id: str, member: ConsumerMember) -> Record:
    """Return the record of what a member wants."""
    return Record(ConsumerMemberKey(group_id, member.member_id), member.subscription)


def current_record(group_id: str, member: ConsumerMember) -> Record:
    """Return the record of what a member has."""
    current = member.current
    value = ConsumerCurrentMemberValue(
        current.epoch,
        current.previous_epoch,
        int(current.state),
        to_record(current.assigned),
        to_record(current.revoking),
    )
    return Record(ConsumerCurrentMemberKey(group_id, member.member_id), value)


def holding_of(value: ConsumerCurrentMemberValue) -> AssignmentState:
    """Return what a record says that a member has."""
    known = value.state in (0, 1, 2)
    return AssignmentState(
        value.member_epoch,
        value.previous_member_epoch,
        MemberState(value.state) if known else MemberState.UNKNOWN,
        from_record(value.assigned),
        from_record(value.pending_revocation),
    )


def renamed(member: ConsumerMember, member_id: str) -> ConsumerMember:
    """Return the member that takes the place of a static member; it begins at epoch 0 and has the same."""
    return ConsumerMember(member_id, member.subscription, replace(member.current, epoch=0, previous_epoch=0))
