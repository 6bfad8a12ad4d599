"""Events of the consumer protocol, as functions of the machine.

`groups.call(group_id, events.consumer_group_heartbeat, request)` runs one.
"""

from __future__ import annotations

from typing import Protocol

from ottla.common.config.broker import BrokerConfig
from ottla.coordinator.effects import Step, reply_only
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.consumer import heartbeat, leave
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.partitions import NO_PARTITIONS, Partitions, in_order
from ottla.coordinator.group.consumer.requests import (
    ConsumerGroupDescription,
    ConsumerMemberDescription,
    Heartbeat,
    HeartbeatRequest,
    check_heartbeat,
)
from ottla.coordinator.group.consumer.update import ConsumerGroupUpdate
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.migration import upgrade
from ottla.coordinator.group.records import ConsumerGroupKey, Key, Value
from ottla.metadata.image import ClusterImage
from ottla.protocol.errors import GroupIdNotFound


class Machine(Protocol):
    """What the events need of the machine."""

    config: BrokerConfig
    image: ClusterImage
    groups: dict[str, Group]


def consumer_group_heartbeat(
    machine: Machine, now_ms: int, token: int, request: HeartbeatRequest
) -> Step[Heartbeat]:
    """Handle a ConsumerGroupHeartbeat; the reply is a `Heartbeat`."""
    check_heartbeat(request, machine.config.group_consumer_assignors)
    update = _update_for(machine, now_ms, request)
    if request.member_epoch < 0:
        leave.leave(update, token, request)
    else:
        heartbeat.heartbeat(update, token, request)
    return update.step()


def describe(machine: Machine, now_ms: int, token: int, group_id: str) -> Step[ConsumerGroupDescription]:
    """Describe a consumer group; the reply is a `ConsumerGroupDescription`."""
    group = machine.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        raise GroupIdNotFound(f"there is no consumer group {group_id}")
    description = _description(group, machine.config.group_consumer_assignors[0])
    return reply_only(token, description)


def replay(groups: dict[str, Group], key: Key, value: Value | None) -> None:
    """Apply a record of a consumer group, which its first record makes."""
    group = groups.get(key.group_id)
    if not isinstance(group, ConsumerGroup):
        if value is None:
            return  # of a group that is gone, or that is a classic one by now
        group = groups[key.group_id] = ConsumerGroup(key.group_id)
    if isinstance(key, ConsumerGroupKey) and value is None:
        del groups[key.group_id]
    else:
        group.replay(key, value)


def _update_for(machine: Machine, now_ms: int, request: HeartbeatRequest) -> ConsumerGroupUpdate:
    """Return the update of a group; a new member may create it, or convert a classic group."""
    config, image, group_id = machine.config, machine.image, request.group_id
    group = machine.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return ConsumerGroupUpdate(group, now_ms, config, image)
    if request.member_epoch != 0:
        raise GroupIdNotFound(f"there is no consumer group {group_id}")
    if isinstance(group, ClassicGroup) and not group.is_empty:
        return upgrade(group, now_ms, config, image)
    records = () if group is None else group.tombstones()
    return ConsumerGroupUpdate(ConsumerGroup(group_id), now_ms, config, image, records)


def _description(group: ConsumerGroup, default_assignor: str) -> ConsumerGroupDescription:
    """Return everything about a group."""
    return ConsumerGroupDescription(
        group.group_id,
        group.state.value,
        group.epoch,
        group.target_epoch,
        group.assignor(default_assignor),
        tuple(
            _member_description(each, group.targets.get(each.member_id, NO_PARTITIONS))
            for each in group.members.values()
        ),
    )


def _member_description(member: ConsumerMember, target: Partitions) -> ConsumerMemberDescription:
    subscription = member.subscription
    return ConsumerMemberDescription(
        member.member_id,
        subscription.instance_id,
        subscription.rack_id,
        member.current.epoch,
        subscription.client_id,
        subscription.client_host,
        subscription.subscribed_topics,
        subscription.subscribed_regex,
        in_order(member.current.assigned),
        in_order(target),
        member.is_classic,
    )
