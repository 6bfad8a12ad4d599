"""The end of a membership: a member leaves, or misses a deadline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ottla.common.config.group_keys import GroupConfig
from ottla.coordinator.effects import SetTimer
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerMember, MemberState
from ottla.coordinator.group.consumer.partitions import NO_PARTITIONS
from ottla.coordinator.group.consumer.requests import LEAVING_FOR_A_WHILE, Heartbeat, HeartbeatRequest
from ottla.coordinator.group.consumer.subscription import bump_epoch, delete_unused_regexes
from ottla.coordinator.group.consumer.update import ConsumerGroupUpdate
from ottla.coordinator.group.migration import can_downgrade, downgrade


def leave(update: ConsumerGroupUpdate, token: int, request: HeartbeatRequest) -> None:
    """Handle the last heartbeat of a member, or of a static member's process."""
    member = update.group.member(request.member_id, request.instance_id)
    update.reply(token, Heartbeat(member.member_id, request.member_epoch))
    if request.member_epoch == LEAVING_FOR_A_WHILE:
        # Its place is kept until its session ends; what it was to give up it has given up.
        current = replace(member.current, epoch=LEAVING_FOR_A_WHILE, revoking=NO_PARTITIONS)
        update.put_current(replace(member, current=current))
        update.cancel_timer("revoke", member.member_id)
    else:
        remove_members(update, [member])


def remove_members(update: ConsumerGroupUpdate, members: list[ConsumerMember]) -> None:
    """Remove members; the others get their partitions, or continue with the protocol that all support."""
    has_lost_consumer = not all(each.is_classic for each in members)
    for each in members:
        update.remove(each.member_id)
    if has_lost_consumer and can_downgrade(update):
        downgrade(update, members)
    else:
        delete_unused_regexes(update)
        bump_epoch(update)


def expire_member(update: ConsumerGroupUpdate, timer: str, member_id: str) -> None:
    """Remove a member that has missed the deadline of one of `MEMBER_TIMERS`."""
    member = update.group.members.get(member_id)
    if member is None:
        return
    if timer == "revoke" and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
        return
    remove_members(update, [member])


def session_timers(group: ConsumerGroup, now_ms: int, config: GroupConfig) -> Iterator[SetTimer]:
    """Give all members of a group that was loaded their time anew."""
    for member in group.members.values():
        timeout_ms = member.session_timeout_ms(config.consumer_session_timeout_ms)
        yield SetTimer(("session", group.group_id, member.member_id), now_ms + timeout_ms)
        if not member.is_classic and member.current.state is MemberState.UNREVOKED_PARTITIONS:
            at_ms = now_ms + member.subscription.rebalance_timeout_ms
            yield SetTimer(("revoke", group.group_id, member.member_id), at_ms)
