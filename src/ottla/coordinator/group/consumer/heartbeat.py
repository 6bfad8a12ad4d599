"""ConsumerGroupHeartbeat: join, stay, learn what changed, and say what one has.

One heartbeat does all steps: the member's subscription is written, the group's epoch goes up if they changed
the subscription, the assignment is made for that epoch, and this member (no other) takes its next step
towards it. Other members learn of the new epoch with their next heartbeat.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import (
    ConsumerMember,
    current_record,
    new_member,
    renamed,
    subscription_record,
)
from ottla.coordinator.group.consumer.partitions import (
    NO_PARTITIONS,
    Partitions,
    in_order,
    to_record,
    without,
)
from ottla.coordinator.group.consumer.reconcile import Target, reconcile
from ottla.coordinator.group.consumer.requests import LEAVING_FOR_A_WHILE, Heartbeat, HeartbeatRequest
from ottla.coordinator.group.consumer.subscription import bump_epoch, have_topics_changed, subscribe
from ottla.coordinator.group.consumer.target import update_target
from ottla.coordinator.group.consumer.update import ConsumerGroupUpdate
from ottla.coordinator.group.records import (
    ConsumerMemberValue,
    ConsumerTargetMemberKey,
    ConsumerTargetMemberValue,
    Record,
)
from ottla.protocol.errors import FencedMemberEpoch, GroupMaxSizeReached, UnreleasedInstanceId


def heartbeat(update: ConsumerGroupUpdate, token: int, request: HeartbeatRequest) -> None:
    """Handle a heartbeat that is not the last one."""
    update.may_see = request.may_see
    member = _admit(update, request)
    updated = replace(member, subscription=_member_value(member.subscription, request))
    updated = follow(update, member, updated, request.owned)
    update.set_session_timer(updated)
    is_news = updated.current.assigned != member.current.assigned
    is_unheard = _is_unheard(update, updated, is_news, request.owned)
    assignment = None
    if request.member_epoch == 0 or request.is_full or is_unheard:
        assignment = in_order(updated.current.assigned)
    interval_ms = update.group_config.consumer_heartbeat_interval_ms
    update.reply(token, Heartbeat(updated.member_id, updated.current.epoch, interval_ms, assignment))


def _is_unheard(
    update: ConsumerGroupUpdate, member: ConsumerMember, is_news: bool, owned: Partitions | None
) -> bool:
    """Return whether the member may not know its assignment: it has not reported to have it.

    Kafka sends an assignment once, and again to a member whose heartbeat has all fields, as after an error.
    librdkafka (2.16) gives up on an answer after a heartbeat interval, and does not count that as an error:
    it would never learn of a partition that came with a late answer (decision 311).
    """
    was_unheard = member.member_id in update.group.unheard
    is_unheard = owned != member.current.assigned and (is_news or was_unheard)
    if is_unheard and not was_unheard:
        update.mutable().unheard |= {member.member_id}
    elif was_unheard and not is_unheard:
        update.mutable().unheard -= {member.member_id}
    return is_unheard or is_news


def follow(
    update: ConsumerGroupUpdate, member: ConsumerMember, updated: ConsumerMember, owned: Partitions | None
) -> ConsumerMember:
    """Write a member's subscription and all that follows from it; return the member after its next step."""
    if updated.subscription != member.subscription or updated.member_id not in update.group.members:
        update.write(subscription_record(update.group.group_id, updated))
    has_new_wishes = subscribe(update, member, updated)
    if have_topics_changed(update) or has_new_wishes or update.group.epoch == 0:
        bump_epoch(update)
    update_target(update)
    return step_forward(update, updated, owned, has_new_wishes)


def step_forward(
    update: ConsumerGroupUpdate, member: ConsumerMember, owned: Partitions | None, has_new_wishes: bool
) -> ConsumerMember:
    """Let a member take its next step towards its target."""
    group = update.group
    if not has_new_wishes and member.current.is_settled(group.target_epoch):
        return member
    target = Target(
        group.target_epoch,
        group.targets.get(member.member_id, NO_PARTITIONS),
        group.topic_ids_of(member.subscription, update.image.topics),
        owned,
        group.is_free,
    )
    moved = replace(member, current=reconcile(member, target, has_new_wishes))
    update.put_current(moved)
    return moved


def check_room(group: ConsumerGroup, member_id: str, instance_id: str | None, max_size: int) -> None:
    """Refuse a new member if there are enough."""
    is_known = member_id in group.members or (instance_id or "") in group.instances
    if len(group.members) >= max_size and not is_known:
        raise GroupMaxSizeReached(f"{group.group_id} has {max_size} members, which is the most")


def replace_static_member(update: ConsumerGroupUpdate, old: ConsumerMember, member_id: str) -> ConsumerMember:
    """Give a static member's place, and its partitions, to the process that has its instance id now."""
    group_id = update.group.group_id
    target = update.group.targets.get(old.member_id, NO_PARTITIONS)
    new = renamed(old, member_id)
    update.remove(old.member_id)
    update.write(
        subscription_record(group_id, new),
        Record(ConsumerTargetMemberKey(group_id, member_id), ConsumerTargetMemberValue(to_record(target))),
        current_record(group_id, new),
    )
    return new


def _admit(update: ConsumerGroupUpdate, request: HeartbeatRequest) -> ConsumerMember:
    """Return the member, old or new; raise if it may not be one."""
    group = update.group
    member_id = request.member_id or request.fresh_id
    instance_id = request.instance_id
    check_room(group, member_id, instance_id, update.config.group_consumer_max_size)
    if request.member_epoch > 0:
        member = group.member(member_id, instance_id)
        _check_epoch(member, request)
        return member
    current_id = None if instance_id is None else group.instances.get(instance_id)
    if current_id is None or current_id == member_id:
        return group.members.get(member_id) or new_member(member_id)
    predecessor = group.members[current_id]
    if not predecessor.is_classic and predecessor.current.epoch != LEAVING_FOR_A_WHILE:
        raise UnreleasedInstanceId(f"{instance_id} is in use by {current_id}")
    return replace_static_member(update, predecessor, member_id)


def _check_epoch(member: ConsumerMember, request: HeartbeatRequest) -> None:
    """Fence a member whose epoch is not the one known here, unless it only missed the last answer."""
    known, claimed = member.current.epoch, request.member_epoch
    if claimed == known:
        return
    is_last = claimed < known and claimed == member.current.previous_epoch
    if is_last and request.owned is not None and not without(request.owned, member.current.assigned):
        return
    raise FencedMemberEpoch(
        f"the epoch of {member.member_id} is {known}, not {claimed}; it must give up all and join again"
    )


def _member_value(before: ConsumerMemberValue, request: HeartbeatRequest) -> ConsumerMemberValue:
    """Return what the member wants now; what it does not mention stays as it was."""
    topics, regex = request.subscribed_topics, request.subscribed_regex
    timeout_ms = request.rebalance_timeout_ms
    return ConsumerMemberValue(
        request.instance_id or before.instance_id,
        request.rack_id or before.rack_id,
        request.client_id,
        request.client_host,
        before.subscribed_topics if topics is None else tuple(sorted(set(topics))),
        before.subscribed_regex if regex is None else regex,
        before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        request.server_assignor or before.server_assignor,
    )
