"""A consumer group as those see it who watch groups."""

from __future__ import annotations

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.partitions import NO_PARTITIONS, Partitions, in_order
from ottla.coordinator.group.consumer.requests import ConsumerGroupDescription, ConsumerMemberDescription


def describe(group: ConsumerGroup, default_assignor: str) -> ConsumerGroupDescription:
    """Return everything about a group."""
    return ConsumerGroupDescription(
        group.group_id,
        group.state.value,
        group.epoch,
        group.target_epoch,
        group.assignor(default_assignor),
        tuple(
            _described(each, group.targets.get(each.member_id, NO_PARTITIONS))
            for each in group.members.values()
        ),
    )


def _described(member: ConsumerMember, target: Partitions) -> ConsumerMemberDescription:
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
