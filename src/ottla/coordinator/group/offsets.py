"""Committed offsets: what is kept, who may change it, and when it is forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla.common.config.broker import BrokerConfig
from ottla.common.units import MINUTE_MS
from ottla.coordinator.effects import SetTimer, Step
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.records import OffsetKey, OffsetValue, Record
from ottla.coordinator.group.requests import (
    CommitRequest,
    Committed,
    FetchedOffset,
    FetchedOffsets,
    FetchRequest,
)
from ottla.protocol.errors import GroupSubscribedToTopic, KafkaError, UnstableOffsetCommit

# Offsets that were committed in transactions which are still open: they count if the transaction commits.
#
# Of two commits of one offset, the one that is later in the log counts. So what is committed outside of any
# transaction, or deleted, supersedes all that is pending for it, whatever becomes of that; and when a
# transaction commits, its offsets supersede those that others had written before.


class _Pending(NamedTuple):
    number: int
    """Counts up in the order of the log."""
    value: OffsetValue | None


class PendingOffsets:
    """What producers have pending, by producer and by group."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, None]] = {}
        self._by_group: dict[str, dict[OffsetKey, dict[int, _Pending]]] = {}
        self._number = 0

    # State

    def add(self, producer_id: int, key: OffsetKey, value: OffsetValue | None) -> None:
        """Keep an offset until its producer's transaction ends; a later one takes the place of an earlier."""
        self._number += 1
        self._by_producer.setdefault(producer_id, {})[key] = None
        keys = self._by_group.setdefault(key.group_id, {})
        keys.setdefault(key, {})[producer_id] = _Pending(self._number, value)

    def end(self, producer_id: int, is_commit: bool) -> list[tuple[OffsetKey, OffsetValue | None]]:
        """Forget what a producer has pending; return what counts from now on."""
        counts = []
        for key in self._by_producer.pop(producer_id, {}):
            waiting = self._by_group[key.group_id][key]
            number, value = waiting.pop(producer_id)
            if is_commit:
                counts.append((key, value))
                for other in [each for each, pending in waiting.items() if pending.number < number]:
                    self._drop(other, key)
            self._tidy(key)
        return counts

    def supersede(self, key: OffsetKey) -> None:
        """Forget all that is pending for an offset."""
        for producer_id in list(self._by_group.get(key.group_id, {}).get(key, ())):
            self._drop(producer_id, key)
        self._tidy(key)

    def _drop(self, producer_id: int, key: OffsetKey) -> None:
        del self._by_group[key.group_id][key][producer_id]
        keys = self._by_producer[producer_id]
        del keys[key]
        if not keys:
            del self._by_producer[producer_id]

    def _tidy(self, key: OffsetKey) -> None:
        keys = self._by_group.get(key.group_id)
        if keys is not None and key in keys and not keys[key]:
            del keys[key]
            if not keys:
                del self._by_group[key.group_id]

    # Questions

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def has(self, key: OffsetKey) -> bool:
        """Return whether an open transaction has committed this offset."""
        return key in self._by_group.get(key.group_id, ())

    def of_group(self, group_id: str) -> tuple[OffsetKey, ...]:
        """Return the offsets of a group that are pending."""
        return tuple(self._by_group.get(group_id, ()))

    def of_topic(self, topic: str) -> Iterator[OffsetKey]:
        """Yield the offsets of a topic that are pending, of any group."""
        for keys in self._by_group.values():
            for key in keys:
                if key.topic == topic:
                    yield key


TopicOffsets = dict[int, OffsetValue]
GroupOffsets = dict[str, TopicOffsets]
_NOTHING: GroupOffsets = {}
_NO_PARTITIONS: TopicOffsets = {}


class Offsets:
    """The offsets of one partition's groups, by group, topic and partition."""

    def __init__(self) -> None:
        self._by_group: dict[str, GroupOffsets] = {}
        self.pending = PendingOffsets()

    # State

    def of_group(self, group_id: str) -> GroupOffsets:
        """Return a group's offsets; the caller does not change them."""
        return self._by_group.get(group_id, _NOTHING)

    def group_ids(self) -> list[str]:
        """Return every group that has offsets."""
        return list(self._by_group)

    def replay(self, key: OffsetKey, value: OffsetValue | None) -> None:
        """Keep one offset, or forget it; what transactions have pending for it counts no more."""
        if self.pending:
            self.pending.supersede(key)
        self._keep(key, value)

    def end_transaction(self, producer_id: int, is_commit: bool) -> set[str]:
        """Let what a transaction has pending count, or forget it; return the groups that have new offsets."""
        counts = self.pending.end(producer_id, is_commit)
        for key, value in counts:
            self._keep(key, value)
        return {key.group_id for key, value in counts if value is not None}

    def _keep(self, key: OffsetKey, value: OffsetValue | None) -> None:
        if value is not None:
            topics = self._by_group.setdefault(key.group_id, {})
            topics.setdefault(key.topic, {})[key.partition] = value
            return
        topics = self._by_group.get(key.group_id, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if not partitions:
            topics.pop(key.topic, None)
        if not topics:
            self._by_group.pop(key.group_id, None)

    # Decisions

    def commit(
        self, now_ms: int, request: CommitRequest, config: BrokerConfig
    ) -> tuple[tuple[Record, ...], Committed]:
        """Return the records that keep the offsets of a request which has been checked."""
        expire_ms = -1 if request.retention_ms is None else now_ms + request.retention_ms
        longest = config.offset_metadata_max_bytes
        group_id = request.group_id
        records: list[Record] = []
        too_large: set[tuple[str, int]] = set()
        for topic, partitions in request.topics:
            for each in partitions:
                if len(each.metadata) > longest:
                    too_large.add((topic, each.partition))
                    continue
                value = OffsetValue(each.offset, each.leader_epoch, each.metadata, now_ms, expire_ms)
                records.append(Record(OffsetKey(group_id, topic, each.partition), value))
        return tuple(records), Committed(frozenset(too_large)) if too_large else _ALL_COMMITTED

    def fetch(self, request: FetchRequest) -> FetchedOffsets:
        """Return a group's offsets: those asked for, or all. What was never committed is None."""
        if request.must_be_stable and (pending := self.pending.of_group(request.group_id)):
            return self._fetch_stable(request, frozenset(pending))
        kept = self.of_group(request.group_id)
        if request.topics is None:
            return tuple((topic, tuple(partitions.items())) for topic, partitions in kept.items())
        return tuple(
            (
                topic,
                tuple(
                    (partition, kept.get(topic, _NO_PARTITIONS).get(partition)) for partition in partitions
                ),
            )
            for topic, partitions in request.topics
        )

    def _fetch_stable(self, request: FetchRequest, pending: frozenset[OffsetKey]) -> FetchedOffsets:
        """Return a group's offsets; UnstableOffsetCommit in the place of those that may change any moment."""
        group_id = request.group_id
        found: dict[str, dict[int, FetchedOffset]] = {
            topic: dict(partitions)
            for topic, partitions in self.fetch(FetchRequest(group_id, request.topics))
        }
        for key in pending:
            partitions = found.get(key.topic)
            if partitions is not None and key.partition in partitions:
                partitions[key.partition] = _UNSTABLE
            elif request.topics is None:
                found.setdefault(key.topic, {})[key.partition] = _UNSTABLE
        return tuple((topic, tuple(partitions.items())) for topic, partitions in found.items())

    def delete(
        self, group: Group, partitions: Iterable[tuple[str, int]]
    ) -> tuple[tuple[Record, ...], tuple[KafkaError | None, ...]]:
        """Return tombstones for a group's offsets, and why some of them stay."""
        records: list[Record] = []
        results: list[KafkaError | None] = []
        kept = self.of_group(group.group_id)
        for topic, partition in partitions:
            if group.is_subscribed_to(topic):
                results.append(GroupSubscribedToTopic(f"members of {group.group_id} read {topic}"))
                continue
            results.append(None)
            key = OffsetKey(group.group_id, topic, partition)
            if partition in kept.get(topic, ()) or self.pending.has(key):
                records.append(Record(key))
        return tuple(records), tuple(results)

    def delete_all(self, group_id: str) -> Iterator[Record]:
        """Yield tombstones for all of a group's offsets."""
        kept = self.of_group(group_id)
        for topic, partitions in kept.items():
            for partition in partitions:
                yield Record(OffsetKey(group_id, topic, partition))
        for key in self.pending.of_group(group_id):
            if key.partition not in kept.get(key.topic, ()):
                yield Record(key)

    def delete_topic(self, topic: str, before_ms: int, at_most: int) -> list[Record]:
        """Return tombstones for offsets of a topic that went away at `before_ms`."""
        found = [Record(key) for key in self.pending.of_topic(topic)]
        for group_id, topics in self._by_group.items():
            for partition, value in topics.get(topic, {}).items():
                if len(found) >= at_most:
                    return found
                if value.commit_ms <= before_ms:
                    found.append(Record(OffsetKey(group_id, topic, partition)))
        return found

    def expired(self, now_ms: int, group: Group, config: BrokerConfig) -> tuple[list[Record], bool]:
        """Return tombstones for what a group keeps in vain, and whether nothing else is left of it."""
        retention_ms = config.offsets_retention_minutes * MINUTE_MS
        records: list[Record] = []
        pending = frozenset(self.pending.of_group(group.group_id))
        is_all = not pending
        for topic, partitions in self.of_group(group.group_id).items():
            is_subscribed = group.is_subscribed_to(topic)
            for partition, value in partitions.items():
                key = OffsetKey(group.group_id, topic, partition)
                if is_subscribed or key in pending or not _is_expired(now_ms, group, value, retention_ms):
                    is_all = False
                else:
                    records.append(Record(key))
        return records, is_all

    def topics(self) -> set[str]:
        """Return the topics that any offset is of."""
        return {topic for topics in self._by_group.values() for topic in topics}


def _is_expired(now_ms: int, group: Group, value: OffsetValue, retention_ms: int) -> bool:
    start_ms = group.retention_start_ms(value)
    if start_ms is None:
        return False
    if value.expire_ms != -1:
        return now_ms >= value.expire_ms
    return now_ms - start_ms >= retention_ms


_ALL_COMMITTED = Committed()
_UNSTABLE = UnstableOffsetCommit("a transaction that is still open has committed an offset")


# Forgetting offsets: those that outlived their retention, and those of topics that were deleted.
#
# Both may concern a great many, so they are done in slices, each a step of its own that sets the timer for
# the next; other events get their turn in between.

EXPIRE_TIMER = ("expire",)
GROUPS_PER_SLICE = 500
RECORDS_PER_SLICE = 1000


def expire(
    now_ms: int, after: str, groups: Mapping[str, Group], offsets: Offsets, config: BrokerConfig
) -> Step[None]:
    """Forget what has expired, of some groups in the order of their ids, beginning after the id `after`."""
    records: list[Record] = []
    ids = sorted(group_id for group_id in groups if group_id > after)
    for count, group_id in enumerate(ids, 1):
        group = groups[group_id]
        expired, is_all = offsets.expired(now_ms, group, config)
        records.extend(expired)
        if is_all and group.is_empty:
            records.extend(group.tombstones())
        if count == GROUPS_PER_SLICE or len(records) >= RECORDS_PER_SLICE:
            return Step(tuple(records), timers=(SetTimer((*EXPIRE_TIMER, group_id), now_ms),))
    again = SetTimer(EXPIRE_TIMER, now_ms + config.offsets_retention_check_interval_ms)
    return Step(tuple(records), timers=(again,))


def deleted_topic_timer(topic: str, now_ms: int) -> SetTimer:
    """Return the timer at which the offsets of a topic that is gone are forgotten: now."""
    return SetTimer(("topic_deleted", topic, str(now_ms)), now_ms)


def delete_offsets_of_topic(now_ms: int, topic: str, deleted_ms: int, offsets: Offsets) -> Step[None]:
    """Forget some offsets of a topic that is gone.

    A new topic may have its name by now; what was committed for that is newer than `deleted_ms`.
    """
    records = tuple(offsets.delete_topic(topic, deleted_ms, RECORDS_PER_SLICE))
    if len(records) < RECORDS_PER_SLICE:
        return Step(records)
    return Step(records, timers=(SetTimer(("topic_deleted", topic, str(deleted_ms)), now_ms),))
