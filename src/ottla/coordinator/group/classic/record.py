"""A classic group as a record, and as DescribeGroups returns it."""

from __future__ import annotations

from ottla.coordinator.group.classic.group import ClassicGroup, Member, State
from ottla.coordinator.group.records import GroupKey, GroupValue, Record, StoredMember
from ottla.coordinator.group.requests import DescribedGroup, DescribedMember


def record_of(group: ClassicGroup) -> Record:
    """Return the record that stores this generation."""
    members = tuple(
        StoredMember(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            each.rebalance_timeout_ms,
            each.session_timeout_ms,
            each.metadata(group.protocol_name),
            each.assignment,
        )
        for each in group.members.values()
    )
    value = GroupValue(
        group.protocol_type or "",
        group.generation_id,
        group.protocol_name,
        group.leader_id,
        group.state_since_ms,
        members,
    )
    return Record(GroupKey(group.group_id), value)


def restore(group_id: str, value: GroupValue) -> ClassicGroup:
    """Return the group that a record stores."""
    group = ClassicGroup(
        group_id,
        State.STABLE if value.members else State.EMPTY,
        value.state_since_ms,
        value.protocol_type or None,
        value.protocol_name,
        value.generation_id,
        value.leader_id,
    )
    for each in value.members:
        group.put(
            Member(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                each.rebalance_timeout_ms,
                each.session_timeout_ms,
                ((value.protocol_name or "", each.subscription),),
                each.assignment,
            )
        )
    group.topics = group.subscribed_topics()
    return group


def describe(group: ClassicGroup) -> DescribedGroup:
    """Return the group for DescribeGroups; metadata only while it is Stable."""
    is_stable = group.state is State.STABLE
    members = tuple(
        DescribedMember(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            each.metadata(group.protocol_name) if is_stable else b"",
            each.assignment,
        )
        for each in group.members.values()
    )
    protocol_name = (group.protocol_name or "") if is_stable else ""
    return DescribedGroup(
        group.group_id, group.state.value, group.protocol_type or "", protocol_name, members
    )
