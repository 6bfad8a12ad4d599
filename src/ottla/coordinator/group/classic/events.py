"""Requests and timers of a classic group."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.common.config.broker import BrokerConfig
from ottla.coordinator.effects import NOTHING, Reply, SetTimer, Step
from ottla.coordinator.group.classic import join, members, rebalance
from ottla.coordinator.group.classic.group import ClassicGroup, State
from ottla.coordinator.group.classic.update import GroupUpdate
from ottla.coordinator.group.records import Record
from ottla.coordinator.group.requests import (
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
)
from ottla.protocol.errors import IllegalGeneration, KafkaError, RebalanceInProgress


class ClassicGroupEvents:
    """The `GroupEvents` of a group whose members all use the classic protocol."""

    __slots__ = ("_config", "_group", "_now_ms")

    def __init__(self, group: ClassicGroup, now_ms: int, config: BrokerConfig) -> None:
        self._group = group
        self._now_ms = now_ms
        self._config = config

    def join(self, token: int, request: JoinRequest) -> Step[JoinResult]:
        """Let a member into the next generation; the reply comes when all members have joined."""
        update = GroupUpdate(self._group, self._now_ms, self._config)
        join.join(update, token, request)
        return update.step()

    def sync(self, token: int, request: SyncRequest) -> Step[SyncResult]:
        """Return a member's assignment; the reply comes when the leader has sent it."""
        update = GroupUpdate(self._group, self._now_ms, self._config)
        members.sync(update, token, request)
        return update.step()

    def heartbeat(
        self, token: int, member_id: str, instance_id: str | None, generation_id: int
    ) -> Step[None]:
        """Extend a member's session; the reply is RebalanceInProgress if it has to join again."""
        group = self._group
        member = group.check_member(member_id, instance_id)
        if generation_id != group.generation_id:
            raise IllegalGeneration(f"{group.group_id} is in generation {group.generation_id}")
        response: KafkaError | None = None
        if group.state is State.PREPARING_REBALANCE:
            response = RebalanceInProgress(f"{group.group_id} rebalances")
        timer = group.session_timer(member, self._now_ms)
        return Step(replies=(Reply(token, response),), timers=(timer,))

    def leave(self, token: int, leavers: tuple[LeavingMember, ...]) -> Step[LeaveResult]:
        """Remove members."""
        update = GroupUpdate(self._group, self._now_ms, self._config)
        members.leave(update, token, leavers)
        return update.step()

    def on_timer(self, timer: str, member_id: str) -> Step[None]:
        """End a session, or a phase of a rebalance."""
        update = GroupUpdate(self._group, self._now_ms, self._config)
        match timer:
            case "session":
                members.end_session(update, member_id)
            case "join":
                rebalance.end_join_phase(update)
            case "sync":
                rebalance.end_sync_phase(update)
            case _:
                return NOTHING  # of the consumer group that it was
        return update.step()

    def session_timers(self) -> Iterator[SetTimer]:
        """Yield the timers with which sessions start anew after a failover."""
        return (self._group.session_timer(each, self._now_ms) for each in self._group.members.values())


def join_new_group(
    now_ms: int,
    config: BrokerConfig,
    token: int,
    request: JoinRequest,
    tombstones: tuple[Record, ...] = (),
) -> Step[JoinResult]:
    """Create a group by its first member; `tombstones` delete the empty group of the other protocol."""
    update = GroupUpdate.of_new_group(request.group_id, now_ms, config)
    update.records[:0] = tombstones
    join.join(update, token, request)
    return update.step()
