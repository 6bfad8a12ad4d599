"""The end of a membership: by the member's own wish, or because its time for something is over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ottla.common.config.group_keys import GroupConfig
from ottla.coordinator.effects import SetTimer
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerMember, MemberState
from ottla.coordinator.group.consumer.partitions import NO_PARTITIONS
from ottla.coordinator.group.consumer.requests import LEAVING_FOR_A_WHILE, Heartbeat, HeartbeatRequest
from ottla.coordinator.group.consumer.subscription import bump, forget_unused_regexes
from ottla.coordinator.group.consumer.update import ConsumerGroupUpdate
from ottla.coordinator.group.migration import can_downgrade, downgrade


def leave(turn: ConsumerGroupUpdate, token: int, request: HeartbeatRequest) -> None:
    """Handle the last heartbeat of a member, or of a static member's process."""
    member = turn.group.member(request.member_id, request.instance_id)
    turn.reply(token, Heartbeat(member.member_id, request.member_epoch))
    if request.member_epoch == LEAVING_FOR_A_WHILE:
        # Its place is kept until its session ends; what it was to give up it has given up.
        holding = replace(member.holding, epoch=LEAVING_FOR_A_WHILE, revoking=NO_PARTITIONS)
        turn.put_holding(replace(member, holding=holding))
        turn.cancel_timer("revoke", member.member_id)
    else:
        remove_members(turn, [member])


def remove_members(turn: ConsumerGroupUpdate, members: list[ConsumerMember]) -> None:
    """Take members out; the rest share what they had, or go on with the protocol that all of them speak."""
    has_lost_consumer = not all(each.is_classic for each in members)
    for each in members:
        turn.remove(each.member_id)
    if has_lost_consumer and can_downgrade(turn):
        downgrade(turn, members)
    else:
        forget_unused_regexes(turn)
        bump(turn)


def expire_member(turn: ConsumerGroupUpdate, timer: str, member_id: str) -> None:
    """Remove a member that has missed the deadline of one of `MEMBER_TIMERS`."""
    member = turn.group.members.get(member_id)
    if member is None:
        return
    if timer == "revoke" and member.holding.state is not MemberState.UNREVOKED_PARTITIONS:
        return
    remove_members(turn, [member])


def session_timers(group: ConsumerGroup, now_ms: int, config: GroupConfig) -> Iterator[SetTimer]:
    """Give all members of a group that was loaded their time anew."""
    for member in group.members.values():
        timeout_ms = member.session_timeout_ms(config.consumer_session_timeout_ms)
        yield SetTimer(("session", group.group_id, member.member_id), now_ms + timeout_ms)
        if not member.is_classic and member.holding.state is MemberState.UNREVOKED_PARTITIONS:
            at_ms = now_ms + member.wishes.rebalance_timeout_ms
            yield SetTimer(("revoke", group.group_id, member.member_id), at_ms)
