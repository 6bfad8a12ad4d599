"""The subscription of a consumer group, and when its epoch is bumped.

It goes up when a member comes, goes or changes its subscription, when a regular expression matches other
topics than before (those that the member may see), and when the subscribed topics themselves change: one is
created, deleted, or gets more partitions. For the last, the group keeps a hash of what its topics looked like
(as Kafka 4.1 does, which before kept all of it).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2b

from ottla.coordinator.group.consumer.group import Topics
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.update import ConsumerGroupUpdate
from ottla.coordinator.group.records import (
    ConsumerGroupKey,
    ConsumerGroupValue,
    ConsumerRegexKey,
    ConsumerRegexValue,
    ConsumerTopicsKey,
    Record,
)
from ottla.coordinator.group.regex import matching
from ottla.protocol.errors import InvalidRegularExpression

NAMES_PER_EVENT = 50_000
"""How many names are compared with regular expressions in one event."""


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Return a number that changes when a topic is created, deleted or gets more partitions; 0 for none."""
    digest = blake2b(digest_size=8)
    count = 0
    for name in sorted(names):
        topic = topics.get(name)
        if topic is not None:
            count += 1
            digest.update(b"%s %s %d\n" % (name.encode(), topic.topic_id.bytes, len(topic.partitions)))
    return int.from_bytes(digest.digest(), "big", signed=True) if count else 0


def bump_epoch(update: ConsumerGroupUpdate) -> None:
    """Begin a new epoch of the group; the next heartbeat computes the assignment for it."""
    group = update.group
    names = group.subscribed_topics()
    value = ConsumerGroupValue(group.epoch + 1, metadata_hash(names, update.image.topics))
    update.write(Record(ConsumerGroupKey(group.group_id), value))
    if group.has_topics_record:
        update.write(Record(ConsumerTopicsKey(group.group_id)))


def subscribe(update: ConsumerGroupUpdate, old: ConsumerMember, new: ConsumerMember) -> bool:
    """Apply a member's new subscription, which is written already; return whether it differs."""
    is_changed = set(old.subscription.subscribed_topics) != set(new.subscription.subscribed_topics)
    if old.regex != new.regex:
        is_changed = True
        if new.regex is not None and new.regex not in update.group.regexes:
            update.write(_resolved(update, new.regex))
        delete_unused_regexes(update)
    return is_changed


def delete_unused_regexes(update: ConsumerGroupUpdate) -> None:
    """Delete the regular expressions that no member subscribes to any more."""
    if not update.group.regexes:
        return
    used = {each.regex for each in update.group.members.values()}
    unused = [regex for regex in update.group.regexes if regex not in used]
    update.write(*(Record(ConsumerRegexKey(update.group.group_id, regex)) for regex in unused))


def have_topics_changed(update: ConsumerGroupUpdate) -> bool:
    """Return whether the group has to follow a change of the cluster's topics."""
    topics = update.image.topics
    seen, acls = update.group.seen_topics, update.image.acls
    has_new_acls = update.group.seen_acls is not acls and bool(update.group.regexes)
    if seen is topics and not has_new_acls:
        return False
    is_done = True
    if update.group.regexes and (has_new_acls or seen is None or seen.keys() != topics.keys()):
        is_done = _refresh_regexes(update)
    if is_done:
        group = update.mutable()
        group.seen_topics, group.seen_acls = topics, acls
    return metadata_hash(update.group.subscribed_topics(), topics) != update.group.metadata_hash


def _refresh_regexes(update: ConsumerGroupUpdate) -> bool:
    """Match regular expressions with the topics again; return whether all are done."""
    version = update.image.version
    stale = [regex for regex, value in update.group.regexes.items() if value.version < version]
    at_once = max(NAMES_PER_EVENT // max(len(update.image.topics), 1), 1)
    for regex in stale[:at_once]:
        before = update.group.regexes[regex]
        try:
            record = _resolved(update, regex)
        except InvalidRegularExpression:
            # It has become too expensive; what it matched so far stays.
            record = Record(ConsumerRegexKey(update.group.group_id, regex), replace(before, version=version))
        update.write(record)
    return len(stale) <= at_once


def _resolved(update: ConsumerGroupUpdate, regex: str) -> Record:
    """Return what a regular expression matches, for all members that have it.

    As in Kafka, that is what the member may describe whose heartbeat is served; to read the topics, each
    needs its own permission.
    """
    names = tuple(sorted(matching(regex, update.image.topics)))
    if update.may_see is not None:
        names = tuple(filter(update.may_see, names))
    value = ConsumerRegexValue(names, update.image.version, update.now_ms)
    return Record(ConsumerRegexKey(update.group.group_id, regex), value)
