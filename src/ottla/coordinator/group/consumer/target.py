"""The target assignment, made anew for every epoch of the group by the assignor that most members prefer."""

from __future__ import annotations

from uuid import UUID

from ottla.coordinator.group.consumer.assign_range import assign_range
from ottla.coordinator.group.consumer.assign_types import Assignor, Subscriber
from ottla.coordinator.group.consumer.assign_uniform import assign_uniform
from ottla.coordinator.group.consumer.group import ConsumerGroup, Topics
from ottla.coordinator.group.consumer.partitions import NO_PARTITIONS, to_record
from ottla.coordinator.group.consumer.update import ConsumerGroupUpdate
from ottla.coordinator.group.records import (
    ConsumerTargetKey,
    ConsumerTargetMemberKey,
    ConsumerTargetMemberValue,
    ConsumerTargetValue,
    Record,
)

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


def update_target(update: ConsumerGroupUpdate) -> None:
    """Make the assignment for the group's epoch, unless it is made; write what it changes."""
    group = update.group
    if group.epoch <= group.target_epoch:
        return
    topics = update.image.topics
    assign = ASSIGNORS[group.assignor(update.config.group_consumer_assignors[0])]
    subscribers = _subscribers(group, topics)
    wanted = (topics[name] for name in group.subscribed_topics() if name in topics)
    counts = {topic.topic_id: len(topic.partitions) for topic in wanted}
    assignment = assign(subscribers, counts)
    for member_id in group.members:
        partitions = assignment.get(member_id, NO_PARTITIONS)
        if partitions != group.targets.get(member_id):
            value = ConsumerTargetMemberValue(to_record(partitions))
            update.write(Record(ConsumerTargetMemberKey(group.group_id, member_id), value))
    update.write(Record(ConsumerTargetKey(group.group_id), ConsumerTargetValue(group.epoch)))


def _subscribers(group: ConsumerGroup, topics: Topics) -> list[Subscriber]:
    """Return the members as an assignor sees them."""
    known: dict[tuple[tuple[str, ...], str | None], frozenset[UUID]] = {}
    subscribers = []
    for member in group.members.values():
        # Mostly all members want the same.
        wish = (member.subscription.subscribed_topics, member.regex)
        topic_ids = known.get(wish)
        if topic_ids is None:
            topic_ids = known[wish] = group.topic_ids_of(member.subscription, topics)
        partitions = group.targets.get(member.member_id, NO_PARTITIONS)
        subscribers.append(Subscriber(member.member_id, member.instance_id, topic_ids, partitions))
    return subscribers
