"""SyncGroup, LeaveGroup and session timeouts in a classic group."""

from __future__ import annotations

from dataclasses import replace

from ottla.coordinator.group.classic.group import ClassicGroup, Member, State
from ottla.coordinator.group.classic.rebalance import prepare_or_complete, remove_member
from ottla.coordinator.group.classic.update import GroupUpdate
from ottla.coordinator.group.requests import LeavingMember, SyncRequest, SyncResult
from ottla.protocol.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    RebalanceInProgress,
    UnknownMemberId,
)


def sync(update: GroupUpdate, token: int, request: SyncRequest) -> None:
    """Return a member's assignment, as soon as the leader has sent it."""
    group = update.group
    member = _check(group, request)
    if group.state is State.PREPARING_REBALANCE:
        raise RebalanceInProgress(f"{group.group_id} rebalances")
    group.unsynced.discard(member.member_id)
    if not group.unsynced:
        update.cancel_sync_timer()
    if group.state is State.STABLE:
        update.reply(token, _synced(group, member))
        return
    update.reply(member.sync_token, RebalanceInProgress("the member has sent another SyncGroup"))
    group.put(replace(member, sync_token=token))
    if member.member_id == group.leader_id:
        _assign(update, dict(request.assignments))


def _check(group: ClassicGroup, request: SyncRequest) -> Member:
    if group.state is State.EMPTY:
        raise UnknownMemberId(f"{group.group_id} has no members")
    member = group.check_member(request.member_id, request.instance_id)
    if request.generation_id != group.generation_id:
        raise IllegalGeneration(f"{group.group_id} is in generation {group.generation_id}")
    for asked, is_so in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if asked is not None and is_so is not None and asked != is_so:
            raise InconsistentGroupProtocol(f"{group.group_id} has {is_so}, not {asked}")
    return member


def _assign(update: GroupUpdate, assignments: dict[str, bytes]) -> None:
    """Store the leader's assignment, and answer the members that wait for theirs."""
    group = update.group
    waiting = [each for each in group.members.values() if each.sync_token is not None]
    group.members = {
        each.member_id: replace(each, assignment=assignments.get(each.member_id, b""), sync_token=None)
        for each in group.members.values()
    }
    group.move_to(State.STABLE, update.now_ms)
    update.write()
    for each in waiting:
        update.reply(each.sync_token, _synced(group, group.members[each.member_id]))
        update.set_session_timer(each)


def _synced(group: ClassicGroup, member: Member) -> SyncResult:
    return SyncResult(group.protocol_type, group.protocol_name, member.assignment)


def leave(update: GroupUpdate, token: int, leavers: tuple[LeavingMember, ...]) -> None:
    """Remove members that leave, or that an administrator removes."""
    group = update.group
    results: list[KafkaError | None] = []
    has_lost_member = False
    for leaver in leavers:
        try:
            if leaver.member_id in group.pending:
                group.remove(leaver.member_id)
                update.cancel_session_timer(leaver.member_id)
            else:
                remove_member(update, _find(group, leaver))
                has_lost_member = True
        except KafkaError as error:
            results.append(error)
        else:
            results.append(None)
    update.reply(token, tuple(results))
    _rebalance_without(update, has_lost_member)


def _find(group: ClassicGroup, leaver: LeavingMember) -> Member:
    if leaver.member_id:
        return group.check_member(leaver.member_id, leaver.instance_id)
    member_id = group.instances.get(leaver.instance_id or "")
    if member_id is None:
        raise UnknownMemberId(f"no member has the instance id {leaver.instance_id}")
    return group.members[member_id]


def end_session(update: GroupUpdate, member_id: str) -> None:
    """Remove a member whose session has expired."""
    group = update.group
    if member_id in group.pending:
        group.remove(member_id)
        _rebalance_without(update, has_lost_member=False)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    if not member.is_new and (member.join_token is not None or member.sync_token is not None):
        return  # a parked request keeps it alive; its reply restarts the session
    remove_member(update, member)
    _rebalance_without(update, has_lost_member=True)


def _rebalance_without(update: GroupUpdate, has_lost_member: bool) -> None:
    """Rebalance if a member is gone; complete a rebalance that waited only for that member."""
    state = update.group.state
    if state is State.PREPARING_REBALANCE or (has_lost_member and state is not State.EMPTY):
        prepare_or_complete(update)
