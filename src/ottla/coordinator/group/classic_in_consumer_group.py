"""Classic members of a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, as they know them.

To such a member its epoch is the generation. When its assignment is to change, the response to its heartbeat
is REBALANCE_IN_PROGRESS. It joins again, with the partitions that it owns, and is answered at once: no member
waits for another. SyncGroup returns its assignment without the partitions that others have not revoked yet;
when they have, its assignment changes again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ottla.common.config.broker import BrokerConfig
from ottla.coordinator.effects import SetTimer, Step
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.heartbeat import check_room, follow, replace_static_member
from ottla.coordinator.group.consumer.leave import expire_member, remove_members, session_timers
from ottla.coordinator.group.consumer.member import ConsumerMember, MemberState, new_member
from ottla.coordinator.group.consumer.partitions import NO_PARTITIONS, each_of, without
from ottla.coordinator.group.consumer.update import MEMBER_TIMERS, ConsumerGroupUpdate
from ottla.coordinator.group.embedded_protocol import by_topic_id, encode_assignment
from ottla.coordinator.group.migration import can_downgrade, downgrade
from ottla.coordinator.group.records import ClassicMemberValue, ConsumerMemberValue
from ottla.coordinator.group.requests import (
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
)
from ottla.metadata.image import ClusterImage
from ottla.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Subscription,
    decode_subscription,
    read_version,
)
from ottla.protocol.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidRequest,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)


def join(update: ConsumerGroupUpdate, token: int, request: JoinRequest) -> None:
    """Let a classic member join, or take its next step."""
    member_id = request.member_id or f"{request.instance_id or request.client_id}-{request.fresh_id}"
    check_room(update.group, member_id, request.instance_id, update.config.group_consumer_max_size)
    subscription = _subscription(update.group, request)
    if not request.member_id and request.instance_id is None and request.requires_member_id:
        update.reply(token, MemberIdRequired(member_id))
        return
    predecessor = update.group.members.get(update.group.instances.get(request.instance_id or "", ""))
    member = _admit(update, request, member_id)
    if subscription.owned and member_id not in update.group.members:
        # It was removed without noticing. The partitions that it claims may be assigned to others by now.
        raise UnknownMemberId(f"{member_id} is not a member of {update.group.group_id} any more")
    updated = replace(member, subscription=_member_value(member, request, subscription))
    owned = by_topic_id(subscription.owned, update.image.topics)
    updated = follow(update, member, updated, owned)
    update.reply(
        token,
        JoinResult(member_id, updated.current.epoch, PROTOCOL_TYPE, request.protocols[0][0], leader_id=""),
    )
    if predecessor is not None and not predecessor.is_classic and can_downgrade(update):
        is_settled = all(
            each.current.is_settled(update.group.epoch) for each in update.group.members.values()
        )
        downgrade(update, () if is_settled else (predecessor,))
        return
    _end_rejoining(update, member_id)
    update.set_session_timer(updated)
    update.set_timer("collect", member_id, request.rebalance_timeout_ms)


def sync(update: ConsumerGroupUpdate, token: int, request: SyncRequest) -> None:
    """Give a classic member its assignment, as far as the partitions are free."""
    member = _check(update.group, request.member_id, request.instance_id, request.generation_id)
    assert member.subscription.classic is not None
    protocol = member.subscription.classic.protocols[0]
    protocol_name = protocol.name
    for asked, is_so in ((request.protocol_type, PROTOCOL_TYPE), (request.protocol_name, protocol_name)):
        if asked is not None and asked != is_so:
            raise InconsistentGroupProtocol(f"{member.member_id} joined with {is_so}, not {asked}")
    current = member.current
    if update.group.epoch > current.epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
        _ask_to_rejoin(update, token, member)
        return
    update.cancel_timer("collect", member.member_id)
    update.set_session_timer(member)
    assignment = encode_assignment(current.assigned, update.image, read_version(protocol.metadata))
    update.reply(token, SyncResult(PROTOCOL_TYPE, protocol_name, assignment))


def heartbeat(
    update: ConsumerGroupUpdate, token: int, member_id: str, instance_id: str | None, generation_id: int
) -> None:
    """Extend a classic member's session; reply RebalanceInProgress if its assignment is to change."""
    member = _check(update.group, member_id, instance_id, generation_id)
    update.set_session_timer(member)
    if _must_rejoin(update.group, member):
        _ask_to_rejoin(update, token, member)
    else:
        update.reply(token, None)


def leave(update: ConsumerGroupUpdate, token: int, leavers: tuple[LeavingMember, ...]) -> None:
    """Take members out, of whatever protocol: administrators use this, too."""
    results: list[KafkaError | None] = []
    members: dict[str, ConsumerMember] = {}
    for leaver in leavers:
        try:
            member = _find(update.group, leaver)
            members[member.member_id] = member
        except KafkaError as error:
            results.append(error)
        else:
            results.append(None)
    update.reply(token, tuple(results))
    if members:
        remove_members(update, list(members.values()))


# Who it is


def _admit(update: ConsumerGroupUpdate, request: JoinRequest, member_id: str) -> ConsumerMember:
    group = update.group
    if request.instance_id is None:
        return group.members.get(member_id) or new_member(member_id)
    if request.member_id:
        return group.member(member_id, request.instance_id)
    predecessor = group.instances.get(request.instance_id)
    if predecessor is None:
        return new_member(member_id)
    return replace_static_member(update, group.members[predecessor], member_id)


def _check(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> ConsumerMember:
    member = group.member(member_id, instance_id)
    if not member.is_classic:
        raise UnknownMemberId(f"{member_id} does not use the classic protocol")
    if generation_id != member.current.epoch:
        raise IllegalGeneration(f"{member_id} is in generation {member.current.epoch}")
    return member


def _find(group: ConsumerGroup, leaver: LeavingMember) -> ConsumerMember:
    # An administrator who removes a static member need not know its member id.
    member_id = leaver.member_id or group.instances.get(leaver.instance_id or "", "")
    return group.member(member_id, leaver.instance_id)


# What it wants


def _subscription(group: ConsumerGroup, request: JoinRequest) -> Subscription:
    """Return what a member asks for; raise if it has no protocol in common with the other classic members."""
    names = {name for name, _ in request.protocols}
    others = [
        each.subscription.classic for each in group.members.values() if each.member_id != request.member_id
    ]
    for classic in others:
        if classic is not None:
            names &= {each.name for each in classic.protocols}
    if request.protocol_type != PROTOCOL_TYPE or not names:
        raise InconsistentGroupProtocol(f"{group.group_id} has members with other protocols")
    try:
        return decode_subscription(request.protocols[0][1])
    except InvalidRequest as error:
        raise InconsistentGroupProtocol(f"not what a consumer says: {error}") from None


def _member_value(
    member: ConsumerMember, request: JoinRequest, subscription: Subscription
) -> ConsumerMemberValue:
    return ConsumerMemberValue(
        request.instance_id,
        subscription.rack_id or member.subscription.rack_id,
        request.client_id,
        request.client_host,
        tuple(sorted(set(subscription.topics))),
        None,
        request.rebalance_timeout_ms,
        member.subscription.server_assignor,
        ClassicMemberValue.of(request.session_timeout_ms, request.protocols),
    )


# What is new


def _must_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether a member would get another assignment if it joined now."""
    current = member.current
    if current.epoch < group.epoch or current.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if current.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    missing = without(group.targets.get(member.member_id, NO_PARTITIONS), current.assigned)
    return all(group.is_free(topic_id, index) for topic_id, index in each_of(missing))


def _ask_to_rejoin(update: ConsumerGroupUpdate, token: int, member: ConsumerMember) -> None:
    """Say that the group rebalances. The time for joining again counts from when it is said first."""
    update.reply(token, RebalanceInProgress(f"{update.group.group_id} rebalances"))
    if member.member_id not in update.group.rejoining:
        update.mutable().rejoining |= {member.member_id}
        update.set_timer("rejoin", member.member_id, member.subscription.rebalance_timeout_ms)


def _end_rejoining(update: ConsumerGroupUpdate, member_id: str) -> None:
    if member_id in update.group.rejoining:
        update.mutable().rejoining -= {member_id}
        update.cancel_timer("rejoin", member_id)


class ConsumerGroupEvents:
    """The `GroupEvents` of a consumer group, for its members that use the classic protocol."""

    __slots__ = ("_update",)

    def __init__(self, group: ConsumerGroup, now_ms: int, config: BrokerConfig, image: ClusterImage) -> None:
        self._update = ConsumerGroupUpdate(group, now_ms, config, image)

    def join(self, token: int, request: JoinRequest) -> Step[JoinResult]:
        """Let a classic member join; it is answered at once."""
        join(self._update, token, request)
        return self._update.step()

    def sync(self, token: int, request: SyncRequest) -> Step[SyncResult]:
        """Return a classic member's assignment; it is answered at once."""
        sync(self._update, token, request)
        return self._update.step()

    def heartbeat(
        self, token: int, member_id: str, instance_id: str | None, generation_id: int
    ) -> Step[None]:
        """Extend a classic member's session; the reply is RebalanceInProgress if it has to join again."""
        heartbeat(self._update, token, member_id, instance_id, generation_id)
        return self._update.step()

    def leave(self, token: int, leavers: tuple[LeavingMember, ...]) -> Step[LeaveResult]:
        """Remove members, of either protocol."""
        leave(self._update, token, leavers)
        return self._update.step()

    def on_timer(self, timer: str, member_id: str) -> Step[None]:
        """Remove a member that has missed a deadline."""
        if timer in MEMBER_TIMERS:  # others are of the classic group that it was
            expire_member(self._update, timer, member_id)
        return self._update.step()

    def session_timers(self) -> Iterator[SetTimer]:
        """Yield the timers with which sessions start anew after a failover."""
        update = self._update
        return session_timers(update.group, update.now_ms, update.group_config)
