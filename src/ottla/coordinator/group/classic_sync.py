"""SyncGroup in a classic group: the leader's assignment comes in, everybody's own goes out."""

from __future__ import annotations

from dataclasses import replace

from ottla.coordinator.group.classic import ClassicGroup
from ottla.coordinator.group.classic_member import Member, State
from ottla.coordinator.group.classic_turn import Turn
from ottla.coordinator.group.requests import Synced, SyncRequest
from ottla.protocol.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnknownMemberId,
)


def sync(turn: Turn, token: int, request: SyncRequest) -> None:
    """Give a member its assignment, as soon as the leader has made it."""
    group = turn.group
    member = _check(group, request)
    if group.state is State.PREPARING_REBALANCE:
        raise RebalanceInProgress(f"{group.group_id} rebalances")
    group.unsynced.discard(member.member_id)
    if not group.unsynced:
        turn.cancel_sync_timer()
    if group.state is State.STABLE:
        turn.reply(token, _synced(group, member))
        return
    turn.reply(member.sync_token, RebalanceInProgress("the member has sent another SyncGroup"))
    group.put(replace(member, sync_token=token))
    if member.member_id == group.leader_id:
        _assign(turn, dict(request.assignments))


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


def _assign(turn: Turn, assignments: dict[str, bytes]) -> None:
    """Keep the leader's assignment, and give it to those who wait for it."""
    group = turn.group
    waiting = [each for each in group.members.values() if each.sync_token is not None]
    group.members = {
        each.member_id: replace(each, assignment=assignments.get(each.member_id, b""), sync_token=None)
        for each in group.members.values()
    }
    group.move_to(State.STABLE, turn.now_ms)
    turn.write()
    for each in waiting:
        turn.reply(each.sync_token, _synced(group, group.members[each.member_id]))
        turn.set_session_timer(each)


def _synced(group: ClassicGroup, member: Member) -> Synced:
    return Synced(group.protocol_type, group.protocol_name, member.assignment)
