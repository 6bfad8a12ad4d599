"""The events of consumer groups, as far as they are not about one group only.

Each is a function of the machine, so that `groups.call(group_id, consumer_events.beat, request)` runs it.
"""

from __future__ import annotations

from typing import Protocol

from ottla.common.config.broker import BrokerConfig
from ottla.coordinator.effects import Step, reply_only
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.consumer import group_description, heartbeat, leave
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.requests import (
    ConsumerGroupDescription,
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


def beat(machine: Machine, now_ms: int, token: int, request: HeartbeatRequest) -> Step[Heartbeat]:
    """Handle a ConsumerGroupHeartbeat; the reply is a `Beat`."""
    check_heartbeat(request, machine.config.group_consumer_assignors)
    update = _update_for(machine, now_ms, request)
    if request.member_epoch < 0:
        leave.leave(update, token, request)
    else:
        heartbeat.heartbeat(update, token, request)
    return update.step()


def describe(machine: Machine, now_ms: int, token: int, group_id: str) -> Step[ConsumerGroupDescription]:
    """Tell everything about a consumer group; the reply is a `ConsumerGroupDescription`."""
    group = machine.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        raise GroupIdNotFound(f"there is no consumer group {group_id}")
    description = group_description.describe(group, machine.config.group_consumer_assignors[0])
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
    """Begin a turn on a group; a new member may make it, and may make it out of a classic group."""
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
