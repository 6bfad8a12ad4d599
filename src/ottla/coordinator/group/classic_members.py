"""Members of a classic group between rebalances: signs of life, and the end of them."""

from __future__ import annotations

from ottla.coordinator.effects import Reply, SetTimer, Step
from ottla.coordinator.group.classic import ClassicGroup
from ottla.coordinator.group.classic_member import Member, State
from ottla.coordinator.group.classic_rebalance import prepare_or_complete, remove_member
from ottla.coordinator.group.classic_turn import Turn, session_key
from ottla.coordinator.group.requests import Leaver
from ottla.protocol.errors import IllegalGeneration, KafkaError, RebalanceInProgress, UnknownMemberId


def heartbeat(
    group: ClassicGroup,
    now_ms: int,
    token: int,
    member_id: str,
    instance_id: str | None,
    generation_id: int,
) -> Step:
    """Extend a member's session, and tell it when to join again. Changes nothing, so needs no turn."""
    member = group.check_member(member_id, instance_id)
    if generation_id != group.generation_id:
        raise IllegalGeneration(f"{group.group_id} is in generation {group.generation_id}")
    response: KafkaError | None = None
    if group.state is State.PREPARING_REBALANCE:
        response = RebalanceInProgress(f"{group.group_id} rebalances")
    return Step(replies=(Reply(token, response),), timers=(session_timer(group, member, now_ms),))


def session_timer(group: ClassicGroup, member: Member, now_ms: int) -> SetTimer:
    """Return the timer that ends a member's session."""
    return SetTimer(session_key(group.group_id, member.member_id), now_ms + member.session_timeout_ms)


def leave(turn: Turn, token: int, leavers: tuple[Leaver, ...]) -> None:
    """Take members out at their own wish, or at an administrator's."""
    group = turn.group
    results: list[KafkaError | None] = []
    has_lost_member = False
    for leaver in leavers:
        try:
            if leaver.member_id in group.pending:
                group.remove(leaver.member_id)
                turn.cancel_session_timer(leaver.member_id)
            else:
                remove_member(turn, _find(group, leaver))
                has_lost_member = True
        except KafkaError as error:
            results.append(error)
        else:
            results.append(None)
    turn.reply(token, tuple(results))
    _go_on_without(turn, has_lost_member)


def _find(group: ClassicGroup, leaver: Leaver) -> Member:
    if leaver.member_id:
        return group.check_member(leaver.member_id, leaver.instance_id)
    member_id = group.instances.get(leaver.instance_id or "")
    if member_id is None:
        raise UnknownMemberId(f"no member has the instance id {leaver.instance_id}")
    return group.members[member_id]


def end_session(turn: Turn, member_id: str) -> None:
    """Remove a member that gave no sign of life for too long."""
    group = turn.group
    if member_id in group.pending:
        group.remove(member_id)
        _go_on_without(turn, has_lost_member=False)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    if not member.is_new and (member.join_token is not None or member.sync_token is not None):
        return  # a parked request is a sign of life; its answer starts the session anew
    remove_member(turn, member)
    _go_on_without(turn, has_lost_member=True)


def _go_on_without(turn: Turn, has_lost_member: bool) -> None:
    """Rebalance if a member is gone; in a rebalance, see whether it waited for the one who is gone."""
    state = turn.group.state
    if state is State.PREPARING_REBALANCE or (has_lost_member and state is not State.EMPTY):
        prepare_or_complete(turn)
