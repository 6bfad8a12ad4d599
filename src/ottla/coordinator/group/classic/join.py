"""JoinGroup in a classic group."""

from __future__ import annotations

from dataclasses import replace

from ottla.coordinator.group.classic.group import ClassicGroup, Member, State
from ottla.coordinator.group.classic.rebalance import joined, prepare, prepare_or_complete, remove_member
from ottla.coordinator.group.classic.update import GroupUpdate
from ottla.coordinator.group.requests import JoinRequest
from ottla.protocol.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)

NEW_MEMBER_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member's first JoinGroup may be parked. It cannot send heartbeats before that is answered,
and there is no other way to notice that its client is gone."""


def join(update: GroupUpdate, token: int, request: JoinRequest) -> None:
    """Let a member into the next generation, or return the current one."""
    group = update.group
    if not _has_room_for(group, request, update.config.group_max_size):
        _reject_member(update, token, request.member_id)
        return
    if not group.supports(request.protocol_type, request.protocols):
        raise InconsistentGroupProtocol(
            f"{group.group_id} has protocol type {group.protocol_type} with {sorted(group.common_protocols)}"
        )
    if not request.member_id:
        _join_without_id(update, token, request)
    elif request.member_id in group.pending and request.instance_id is None:
        _add_member(update, token, request, request.member_id)
    else:
        _rejoin(update, token, request)


def _has_room_for(group: ClassicGroup, request: JoinRequest, max_size: int) -> bool:
    """Return whether a member may join; members may stay, and in a rebalance the first to join."""
    member_id = request.member_id or group.instances.get(request.instance_id or "")
    if group.state is not State.PREPARING_REBALANCE:
        return member_id in group.members or len(group.members) < max_size
    # Not all members rejoin: the first to join take the places. So a group shrinks if the limit was lowered.
    staying = [
        each
        for each in group.members.values()
        if each.member_id != member_id and (each.join_token is not None or each.instance_id is not None)
    ]
    return len(staying) < max_size


def _reject_member(update: GroupUpdate, token: int, member_id: str) -> None:
    """Refuse a member, and remove it if it was one."""
    group = update.group
    update.reply(token, GroupMaxSizeReached(f"{group.group_id} is full"))
    if member_id in group.members:
        remove_member(update, group.members[member_id])
    group.remove(member_id)
    if group.state is State.PREPARING_REBALANCE:
        prepare_or_complete(update)


def _join_without_id(update: GroupUpdate, token: int, request: JoinRequest) -> None:
    group = update.group
    member_id = f"{request.instance_id or request.client_id}-{request.fresh_id}"
    if request.instance_id is not None:
        predecessor = group.instances.get(request.instance_id)
        if predecessor is None:
            _add_member(update, token, request, member_id)
        else:
            _replace_member(update, token, request, group.members[predecessor], member_id)
    elif request.requires_member_id:
        # A client that loses this response asks for another id; no unused member remains.
        group.pending.add(member_id)
        update.reply(token, MemberIdRequired(member_id))
        update.set_session_timer(_new_member(request, member_id))
    else:
        _add_member(update, token, request, member_id)


def _add_member(update: GroupUpdate, token: int, request: JoinRequest, member_id: str) -> None:
    group = update.group
    if not group.members:
        group.protocol_type = request.protocol_type
    member = replace(_new_member(request, member_id), is_new=True, join_token=token)
    group.add(member)
    if group.initial is not None:
        group.initial = replace(group.initial, has_new_member=True)
    update.set_session_timer(member, NEW_MEMBER_TIMEOUT_MS)
    prepare_or_complete(update)


def _new_member(request: JoinRequest, member_id: str) -> Member:
    return Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocols,
    )


def _rejoin(update: GroupUpdate, token: int, request: JoinRequest) -> None:
    """Handle a member that has an id already."""
    group = update.group
    member = group.check_member(request.member_id, request.instance_id)
    is_same = member.protocols == request.protocols
    match group.state:
        case State.EMPTY:
            raise UnknownMemberId(f"{group.group_id} has no members")
        case State.COMPLETING_REBALANCE if is_same:
            # It may not have received the first answer.
            update.reply(token, joined(group, member.member_id))
        case State.STABLE if is_same and group.leader_id != member.member_id:
            update.reply(token, joined(group, member.member_id))
        case _:
            # A leader that joins again knows of a reason: topics may have more partitions, say.
            _park(update, token, request, member)
            prepare_or_complete(update)


def _park(update: GroupUpdate, token: int, request: JoinRequest, member: Member) -> None:
    """Take over what the member says now, and let its request wait for the next generation."""
    update.reply(member.join_token, RebalanceInProgress("the member has sent another JoinGroup"))
    update.group.put(
        replace(
            member,
            protocols=request.protocols,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            join_token=token,
        )
    )


def _replace_member(
    update: GroupUpdate, token: int, request: JoinRequest, old: Member, member_id: str
) -> None:
    """Give a static member's place to the process that took over its instance id."""
    group = update.group
    old_leader_id = group.leader_id or ""
    update.reply(old.join_token, FencedInstanceId(f"{old.instance_id} is now {member_id}"))
    update.reply(old.sync_token, FencedInstanceId(f"{old.instance_id} is now {member_id}"))
    update.cancel_session_timer(old.member_id)
    was_leader = group.leader_id == old.member_id
    group.remove(old.member_id)
    new = replace(old, member_id=member_id, join_token=None, sync_token=None)
    group.add(new)
    if was_leader:
        group.leader_id = member_id
    _park(update, token, request, new)
    update.set_session_timer(group.members[member_id])
    if group.state is State.STABLE and group.select_protocol() == group.protocol_name:
        _answer_without_rebalance(update, token, request, member_id, old_leader_id)
    elif group.state is State.COMPLETING_REBALANCE:
        # The leader may be assigning to the old id right now.
        prepare(update)
    else:
        prepare_or_complete(update)


def _answer_without_rebalance(
    update: GroupUpdate, token: int, request: JoinRequest, member_id: str, old_leader_id: str
) -> None:
    """Let a restarted static member carry on with its predecessor's assignment."""
    group = update.group
    group.put(replace(group.members[member_id], join_token=None))
    update.write()
    if request.can_skip_assignment:
        is_leader = group.leader_id == member_id
        update.reply(token, joined(group, member_id, skip_assignment=is_leader))
    else:
        # A leader that cannot skip it would assign anew; so the response names its predecessor as leader.
        update.reply(token, replace(joined(group, member_id), leader_id=old_leader_id, members=()))
