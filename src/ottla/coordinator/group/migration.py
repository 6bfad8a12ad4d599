"""Converts groups from one protocol to the other, while their members consume.

A classic group of consumers becomes a consumer group when the first member joins that uses the consumer
protocol. Its classic members stay, with what they have, and notice nothing but a rebalance; from then on
classic_in_consumer_group.py serves them. When the last member leaves that uses the consumer protocol, the
rest become a classic group again. `group.consumer.migration.policy` allows either, both or none of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from ottla.common.config.broker import BrokerConfig
from ottla.coordinator.group.classic.group import ClassicGroup, Member, State
from ottla.coordinator.group.classic.rebalance import prepare
from ottla.coordinator.group.classic.update import GroupUpdate
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import (
    AssignmentState,
    ConsumerMember,
    MemberState,
    current_record,
    subscription_record,
)
from ottla.coordinator.group.consumer.partitions import to_record, unclaimed, without
from ottla.coordinator.group.consumer.subscription import metadata_hash
from ottla.coordinator.group.consumer.update import ConsumerGroupUpdate
from ottla.coordinator.group.embedded_protocol import by_topic_id, encode_assignment
from ottla.coordinator.group.records import (
    ClassicMemberValue,
    ConsumerGroupKey,
    ConsumerGroupValue,
    ConsumerMemberValue,
    ConsumerTargetKey,
    ConsumerTargetMemberKey,
    ConsumerTargetMemberValue,
    ConsumerTargetValue,
    Record,
)
from ottla.coordinator.group.requests import Protocols
from ottla.metadata.image import ClusterImage
from ottla.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_subscription,
    read_version,
)
from ottla.protocol.errors import GroupIdNotFound, InvalidRequest, RebalanceInProgress

DEFAULT_ASSIGNORS = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""What these add to an assignment (librdkafka's cooperative-sticky does) is not used by any member.
Kafka refuses to upgrade a group that has any such addition."""

# Upgrade


def upgrade(
    group: ClassicGroup, now_ms: int, config: BrokerConfig, image: ClusterImage
) -> ConsumerGroupUpdate:
    """Return the update that makes a consumer group of a classic group; raise if that cannot be done."""
    _check_upgrade(group, config)
    update = ConsumerGroupUpdate(ConsumerGroup(group.group_id), now_ms, config, image, group.tombstones())
    members = [_converted(each, group, image) for each in group.members.values()]
    _write_members(update, members, group.generation_id)
    for member in group.members.values():
        for token in (member.join_token, member.sync_token):
            if token is not None:
                update.reply(token, RebalanceInProgress(f"{group.group_id} has another protocol now"))
    update.cancel_group_timers()
    for converted in update.group.members.values():
        update.set_session_timer(converted)
    return update


def _check_upgrade(group: ClassicGroup, config: BrokerConfig) -> None:
    why = None
    if config.group_consumer_migration_policy not in ("upgrade", "bidirectional"):
        why = "online upgrade is disabled"
    elif group.protocol_type != PROTOCOL_TYPE:
        why = "the group does not use the consumer embedded protocol"
    elif len(group.members) > config.group_consumer_max_size:
        why = "the group size exceeds the consumer group maximum size"
    if why is not None:
        raise GroupIdNotFound(
            f"Cannot upgrade classic group {group.group_id} to consumer group because {why}."
        )


def _converted(member: Member, group: ClassicGroup, image: ClusterImage) -> ConsumerMember:
    protocol_name = group.protocol_name or member.protocols[0][0]
    try:
        subscription = decode_subscription(member.metadata(protocol_name))
        assignment = decode_assignment(member.assignment)
    except InvalidRequest:
        raise GroupIdNotFound(
            f"Cannot upgrade classic group {group.group_id} to consumer group because the embedded consumer "
            "protocol is malformed."
        ) from None
    if assignment.user_data and protocol_name not in DEFAULT_ASSIGNORS:
        raise GroupIdNotFound(
            f"Cannot upgrade classic group {group.group_id} to consumer group because an unsupported custom "
            "assignor is in use. Switch to a default assignor before re-attempting the upgrade."
        )
    value = ConsumerMemberValue(
        member.instance_id,
        subscription.rack_id or None,
        member.client_id,
        member.client_host,
        tuple(sorted(set(subscription.topics))),
        None,
        member.rebalance_timeout_ms,
        None,
        ClassicMemberValue.of(member.session_timeout_ms, member.protocols),
    )
    epoch = group.generation_id
    assigned = by_topic_id(assignment.partitions, image.topics)
    claimed = by_topic_id(subscription.owned, image.topics)
    if not member.assignment:
        # Taken back in the middle of a rebalance. What the member brought into it, it may still have.
        return ConsumerMember(member.member_id, value, AssignmentState(epoch, epoch, assigned=claimed))
    # What a cooperative member brought into the last rebalance, and was not assigned again, it gives up when
    # it learns of its assignment. It may not have yet.
    revoking = without(claimed, assigned)
    return ConsumerMember(
        member.member_id, value, AssignmentState(epoch, epoch, assigned=assigned, revoking=revoking)
    )


def _write_members(update: ConsumerGroupUpdate, members: list[ConsumerMember], epoch: int) -> None:
    """Write the group as if it had been a consumer group all the time, and had come to rest at an epoch.

    A large group may not fit into one batch. Members that are lost with the second have to join again; those
    in the first are complete.
    """
    group_id = update.group.group_id
    names = frozenset(name for each in members for name in each.subscription.subscribed_topics)
    value = ConsumerGroupValue(epoch, metadata_hash(names, update.image.topics))
    update.write(Record(ConsumerGroupKey(group_id), value))
    # What the leader of a classic group assigned twice counts once, and before what members claim to have.
    taken: set[tuple[UUID, int]] = set()
    assigned = [unclaimed(each.current.assigned, taken) for each in members]
    for each, own in zip(members, assigned, strict=True):
        revoking = unclaimed(each.current.revoking, taken)
        state = MemberState.UNREVOKED_PARTITIONS if revoking else MemberState.STABLE
        current = AssignmentState(epoch, epoch, state, own, revoking)
        target = ConsumerTargetMemberValue(to_record(own))
        update.write(
            current_record(group_id, replace(each, current=current)),
            Record(ConsumerTargetMemberKey(group_id, each.member_id), target),
            subscription_record(group_id, each),
        )
    update.write(Record(ConsumerTargetKey(group_id), ConsumerTargetValue(epoch)))


# Downgrade


def can_downgrade(update: ConsumerGroupUpdate) -> bool:
    """Return whether the remaining members support a downgrade to a classic group, and it is allowed."""
    group = update.group
    return (
        bool(group.members)
        and all(each.is_classic for each in group.members.values())
        and update.config.group_consumer_migration_policy in ("downgrade", "bidirectional")
        and len(group.members) <= update.config.group_max_size
    )


def downgrade(update: ConsumerGroupUpdate, lost: Sequence[ConsumerMember]) -> None:
    """Replace the group by a classic one with the same members, at the same epoch.

    It rebalances if members are lost. The record still has these, so that if the coordinator fails before
    the rebalance is over, the end of their sessions brings it about once more.
    """
    consumers = update.group
    classic = GroupUpdate(_classic_group(update), update.now_ms, update.config)
    for member_id in consumers.members:
        update.cancel_timer("rejoin", member_id)
        update.cancel_timer("collect", member_id)
    update.write(*consumers.tombstones())
    for member in classic.group.members.values():
        classic.set_session_timer(member)
    for each in lost:
        classic.group.put(_ghost(each, classic))
    classic.write()
    for each in lost:
        classic.group.remove(each.member_id)
    if lost:
        prepare(classic)
    update.continue_with(classic.step())


def _classic_group(update: ConsumerGroupUpdate) -> ClassicGroup:
    consumers = update.group
    group = ClassicGroup(
        consumers.group_id, State.STABLE, update.now_ms, PROTOCOL_TYPE, generation_id=consumers.epoch
    )
    for each in consumers.members.values():
        classic = each.subscription.classic
        assert classic is not None, "only classic members can be in a classic group"
        # Not the target: others may still have some of that.
        version = read_version(classic.protocols[0].metadata)
        assignment = encode_assignment(each.current.held, update.image, version)
        group.add(_classic_member(each, classic.session_timeout_ms, classic.join_protocols, assignment))
    group.protocol_name = group.select_protocol()
    group.topics = group.subscribed_topics()
    return group


def _ghost(member: ConsumerMember, classic: GroupUpdate) -> Member:
    """Return a member that is gone, as it would have to be to be a member."""
    session_timeout_ms = member.session_timeout_ms(classic.config.group_consumer_session_timeout_ms)
    metadata = encode_subscription(Subscription(member.subscription.subscribed_topics), version=0)
    protocols = ((classic.group.protocol_name or "", metadata),)
    return replace(_classic_member(member, session_timeout_ms, protocols, b""), instance_id=None)


def _classic_member(
    member: ConsumerMember, session_timeout_ms: int, protocols: Protocols, assignment: bytes
) -> Member:
    return Member(
        member.member_id,
        member.instance_id,
        member.subscription.client_id,
        member.subscription.client_host,
        member.subscription.rebalance_timeout_ms,
        session_timeout_ms,
        protocols,
        assignment,
    )
