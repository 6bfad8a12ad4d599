r"""From what a member has to what it is to have, without two members ever having the same partition.

              asked to revoke                     confirmed the revocation
    STABLE --------------------> UNREVOKED ---------------------------+
      ^  \                                                            |
      |   +--- others still have what it is to get ---> UNRELEASED <--+
      |                                                     |
      +---------------- nothing is missing -----------------+

A member first gives up what it is not to have any more. Meanwhile it stays in its epoch, and the partitions
stay its own. Only when it says that it does not have them any more does it reach the target's epoch, and gets
what others have given up by then; for the rest it waits, and gets it piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from ottla.coordinator.group.consumer.member import AssignmentState, ConsumerMember, MemberState
from ottla.coordinator.group.consumer.partitions import (
    Partitions,
    common,
    each_of,
    grouped,
    of_topics,
    union,
    without,
)
from ottla.protocol.errors import FencedMemberEpoch


class Target:
    """Where the member is to go, and what is known on the way."""

    __slots__ = ("epoch", "is_free", "owned", "partitions", "subscribed")

    def __init__(
        self,
        epoch: int,
        partitions: Partitions,
        subscribed: frozenset[UUID],
        owned: Partitions | None,
        is_free: Callable[[UUID, int], bool],
    ) -> None:
        self.epoch = epoch
        self.partitions = of_topics(partitions, subscribed)
        """Without topics that the member has unsubscribed from: the target may be older."""
        self.subscribed = subscribed
        self.owned = owned
        """The partitions that the member reports; None if it reports no change."""
        self.is_free = is_free
        """Return whether no member has a partition."""

    def may_still_have(self, revoking: Partitions) -> bool:
        """Return whether the member has not confirmed that it has revoked all of this."""
        return self.owned is None or bool(common(revoking, self.owned))


def reconcile(member: ConsumerMember, target: Target, has_new_wishes: bool) -> AssignmentState:
    """Return what the member has next; the same as before if there is nothing to do, or to be done yet."""
    current = member.current
    match current.state:
        case MemberState.STABLE if current.epoch == target.epoch:
            return _drop_unwanted(current, target) if has_new_wishes else current
        case MemberState.UNREVOKED_PARTITIONS if target.may_still_have(current.revoking):
            return _drop_unwanted(current, target) if has_new_wishes else current
        case MemberState.UNKNOWN if target.owned is None or target.owned:
            raise FencedMemberEpoch("the member's state is not known; it must give up all and join again")
    return _next(current, target)


def _next(current: AssignmentState, target: Target) -> AssignmentState:
    kept = common(current.assigned, target.partitions)
    revoking = without(current.assigned, kept)
    if revoking and target.may_still_have(revoking):
        return current.moved_to(current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    missing = without(target.partitions, kept)
    free = grouped(
        (topic_id, index)
        for topic_id, index in each_of(missing)
        # A partition that it was asked to revoke, and did, may be assigned to it again.
        if index in current.revoking.get(topic_id, ()) or target.is_free(topic_id, index)
    )
    is_complete = free == missing
    state = MemberState.STABLE if is_complete else MemberState.UNRELEASED_PARTITIONS
    return current.moved_to(target.epoch, state, union(kept, free))


def _drop_unwanted(current: AssignmentState, target: Target) -> AssignmentState:
    """Take away at once what the member does not subscribe to any more, whatever the target says."""
    kept = of_topics(current.assigned, target.subscribed)
    if kept == current.assigned:
        return current
    revoking = union(current.revoking, without(current.assigned, kept))
    if target.may_still_have(revoking):
        return current.moved_to(current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    return current.moved_to(current.epoch, current.state, kept, current.revoking)
