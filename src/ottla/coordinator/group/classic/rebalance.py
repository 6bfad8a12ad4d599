"""Rebalance of a classic group: ask all members to join, wait for them, begin the next generation."""

from __future__ import annotations

from dataclasses import replace

from ottla.coordinator.group.classic.group import ClassicGroup, InitialDelay, Member, State
from ottla.coordinator.group.classic.update import GroupUpdate
from ottla.coordinator.group.requests import JoinResult
from ottla.protocol.errors import RebalanceInProgress, UnknownMemberId


def prepare(update: GroupUpdate) -> None:
    """Begin a rebalance: members learn of it from their next heartbeat, and join again."""
    group = update.group
    if group.state is State.COMPLETING_REBALANCE:
        _take_assignments_back(update)
    group.unsynced.clear()
    update.cancel_sync_timer()
    if group.state is State.EMPTY:
        # The members of a new group tend to come within moments of each other.
        delay_ms = update.config.group_initial_rebalance_delay_ms
        group.initial = InitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        group.move_to(State.PREPARING_REBALANCE, update.now_ms)
        update.set_join_timer(delay_ms)
    else:
        group.move_to(State.PREPARING_REBALANCE, update.now_ms)
        if group.has_all_joined:
            complete_join(update)
        else:
            update.set_join_timer(group.rebalance_timeout_ms)


def prepare_or_complete(update: GroupUpdate) -> None:
    """Begin a rebalance after the members changed, or complete one that waits for no other member."""
    group = update.group
    if group.state is not State.PREPARING_REBALANCE:
        prepare(update)
    elif group.initial is None and group.has_all_joined:
        complete_join(update)


def complete_join(update: GroupUpdate) -> None:
    """Begin the next generation with those who joined, and with static members, who may still come."""
    group = update.group
    update.cancel_join_timer()
    for member in list(group.members.values()):
        if member.join_token is None and member.instance_id is None:
            group.remove(member.member_id)
            update.cancel_session_timer(member.member_id)
    joined = group.awaiting_join
    if group.members and not joined:
        # No member can lead. Sessions expire, or a member joins, before the next deadline.
        update.set_join_timer(group.rebalance_timeout_ms)
        return
    if joined and group.leader_id not in {member.member_id for member in joined}:
        group.leader_id = joined[0].member_id
    group.begin_generation(update.now_ms)
    if group.members:
        _announce(update)
    else:
        update.write()


def end_join_phase(update: GroupUpdate) -> None:
    """Handle the end of the time for joining; the first rebalance waits while new members keep coming."""
    group = update.group
    if group.state is not State.PREPARING_REBALANCE:
        return
    initial = group.initial
    if initial is None or not initial.has_new_member or initial.remaining_ms == 0:
        complete_join(update)
        return
    delay_ms = min(update.config.group_initial_rebalance_delay_ms, initial.remaining_ms)
    group.initial = InitialDelay(delay_ms, max(initial.remaining_ms - initial.delay_ms, 0))
    update.set_join_timer(delay_ms)


def end_sync_phase(update: GroupUpdate) -> None:
    """Remove those who never asked for their assignment, and rebalance without them."""
    group = update.group
    if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not group.unsynced:
        return
    for member_id in list(group.unsynced):
        remove_member(update, group.members[member_id])
    prepare(update)


def remove_member(update: GroupUpdate, member: Member) -> None:
    """Take a member out and answer what it still waits for; what becomes of the group is the caller's."""
    update.reply(member.join_token, UnknownMemberId("the member has been removed"))
    update.reply(member.sync_token, UnknownMemberId("the member has been removed"))
    update.group.remove(member.member_id)
    update.cancel_session_timer(member.member_id)


def joined(group: ClassicGroup, member_id: str, *, skip_assignment: bool = False) -> JoinResult:
    """Return what a member learns about the generation that it is in."""
    return JoinResult(
        member_id,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        group.leader_id or "",
        group.joined_members if member_id == group.leader_id else (),
        skip_assignment,
    )


def _announce(update: GroupUpdate) -> None:
    """Answer JoinGroup of all members with the new generation; each has to send SyncGroup next."""
    group = update.group
    for member in group.members.values():
        update.reply(member.join_token, joined(group, member.member_id))
        update.set_session_timer(member)
    group.members = {
        each.member_id: replace(each, is_new=False, join_token=None) for each in group.members.values()
    }
    group.unsynced = set(group.members)
    update.set_sync_timer(group.rebalance_timeout_ms)


def _take_assignments_back(update: GroupUpdate) -> None:
    group = update.group
    for member in list(group.members.values()):
        if member.sync_token is not None:
            update.reply(member.sync_token, RebalanceInProgress("the group rebalances once more"))
            update.set_session_timer(member)
        group.put(replace(member, assignment=b"", sync_token=None))
