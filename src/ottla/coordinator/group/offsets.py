"""Committed offsets: what is kept, who may change it, and when it is forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.common.config.broker import BrokerConfig
from ottla.common.units import MINUTE_MS
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.pending_offsets import PendingOffsets
from ottla.coordinator.group.records import OffsetKey, OffsetValue, Record
from ottla.coordinator.group.requests import (
    CommitRequest,
    Committed,
    FetchedOffset,
    FetchedOffsets,
    FetchRequest,
)
from ottla.protocol.errors import GroupSubscribedToTopic, KafkaError, UnstableOffsetCommit

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
