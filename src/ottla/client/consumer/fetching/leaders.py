"""Which broker to fetch each partition from, and what a new leader means for its position.

A new leader may lack records that the old one had. So a position that was validated with one leader is
validated again with the next (KIP-320): see positions.py. A topic with another id was deleted and created
again: the position is reset.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla.client.cluster import TRANSIENT, Cluster
from ottla.client.consumer.assignment import Assignment
from ottla.client.consumer.fetching.partition_state import UNKNOWN, PartitionState, PendingLookup
from ottla.client.metadata import PartitionInfo, TopicInfo
from ottla.client.offsets import EARLIEST
from ottla.protocol.errors import KafkaError, OffsetOutOfRange, UnknownTopicOrPartition

PASSING = TRANSIENT | {
    ErrorCode.kafka_storage_error,
    ErrorCode.unknown_topic_id,
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.inconsistent_topic_id,
    ErrorCode.unknown_server_error,
}
"""Errors after which the leader is looked up again."""

MISSING_TOO_LONG_S = 5.0
"""How long a manually assigned topic may be missing before that is an error."""


class Leaders:
    """The brokers to fetch from, and the topics whose metadata must be refreshed."""

    def __init__(
        self, cluster: Cluster, assignment: Assignment, *, resets: bool, on_need: Callable[[], None]
    ) -> None:
        self.stale: set[str] = set()
        """The topics whose leaders are unknown or may have changed."""
        self.is_strict = False
        """Whether a missing topic is an error; in a group the rebalance takes care of it."""
        self._cluster = cluster
        self._assignment = assignment
        self._resets = resets
        self._on_need = on_need
        """Called when a position must be looked up."""
        self._max_age_s = cluster.options.metadata_max_age_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._failures = 0
        self._refresh_at = 0.0
        self._asking = asyncio.Lock()

    def mark_stale(self, topic: str) -> None:
        """Refresh the leaders of a topic before it is fetched again."""
        self._cluster.forget(topic)
        self.stale.add(topic)

    def pause_s(self, now: float) -> float:
        """Return the time until the next refresh."""
        return max(self._refresh_at - now, 0.0)

    async def by_leader(
        self, states: Collection[PartitionState]
    ) -> tuple[dict[int, list[PartitionState]], list[PartitionState]]:
        """Group partitions by leader; return also those whose leader is unknown."""
        if any(self._leader_of(state) is None for state in states):
            await self.refresh()
        found: dict[int, list[PartitionState]] = defaultdict(list)
        unknown = []
        for state in states:
            info = self._leader_of(state)
            if info is None:
                unknown.append(state)
            else:
                state.seen_epoch = info.leader_epoch
                found[info.leader].append(state)
        return found, unknown

    def _leader_of(self, state: PartitionState) -> PartitionInfo | None:
        topic = self._topic_of(state, self._loop.time())
        info = None if topic is None else topic.partitions.get(state.partition.partition)
        if topic is None or info is None or info.leader < 0:
            self.stale.add(state.partition.topic)
            return None
        state.topic_id = topic.topic_id
        return info

    def node_for(self, state: PartitionState, now: float) -> int | None:
        """Return the broker to fetch a partition from; None if it is unknown, or must not be fetched yet."""
        topic = self._topic_of(state, now)
        info = None if topic is None else topic.partitions.get(state.partition.partition)
        if topic is None or info is None or info.leader < 0:
            self.stale.add(state.partition.topic)
            return None
        if topic.topic_id != state.topic_id and not self._is_same_topic(state, topic.topic_id):
            return None
        if info.leader_epoch != state.seen_epoch and not self._is_still_good(state, info):
            return None
        if state.preferred_replica != UNKNOWN:
            known = state.preferred_replica in self._cluster.brokers
            if known and now < state.preferred_until and state.preferred_replica not in info.offline:
                return state.preferred_replica
            state.preferred_replica = UNKNOWN
        return info.leader

    def _topic_of(self, state: PartitionState, now: float) -> TopicInfo | None:
        name = state.partition.topic
        known = self._cluster.metadata.topic(name, now - self._max_age_s)
        if known is None:
            self.stale.add(name)
            if not state.failures:  # older than metadata_max_age_ms, but probably right
                return self._cluster.metadata.last_known(name)
        return known

    def _is_same_topic(self, state: PartitionState, topic_id: UUID | None) -> bool:
        old, state.topic_id = state.topic_id, topic_id
        if old is None or topic_id is None:
            return True
        with self._assignment.lock:
            state.seen_epoch = UNKNOWN
            if self._resets:
                state.require(PendingLookup.RESET, EARLIEST)
                self._on_need()
            else:
                state.drop_fetched()
                state.fail(OffsetOutOfRange(f"{state.partition.topic} was deleted and created again"))
                self._assignment.enqueue_ready(state)
        return False

    def _is_still_good(self, state: PartitionState, info: PartitionInfo) -> bool:
        """Update the leader epoch; return whether the position needs no validation."""
        before, state.seen_epoch = state.seen_epoch, info.leader_epoch
        state.preferred_replica = UNKNOWN
        if before == UNKNOWN or state.epoch == UNKNOWN or info.leader_epoch < before:
            return True
        with self._assignment.lock:
            state.require(PendingLookup.VALIDATION)
        self._on_need()
        return False

    async def refresh(self) -> None:
        """Refresh the stale topics, unless the back-off of the last attempt is not over."""
        async with self._asking:
            now = self._loop.time()
            if now < self._refresh_at:
                return
            names, self.stale = self.stale, set()
            names &= {state.partition.topic for state in self._assignment}
            if not names:
                return
            self._failures += 1
            self._refresh_at = now + self._cluster.backoff.pause_ms(self._failures) / 1000
            try:
                found = await self._cluster.refresh_some(names)
            except BaseException:
                self.stale |= names
                raise
            for state in self._assignment:
                answer = found.get(state.partition.topic)
                if answer is not None:
                    self._learn(state, answer)
            if not self.stale:
                self._failures, self._refresh_at = 0, 0.0

    def _learn(self, state: PartitionState, answer: TopicInfo | KafkaError) -> None:
        partition = state.partition
        now = self._loop.time()
        if isinstance(answer, TopicInfo):
            info = answer.partitions.get(partition.partition)
            if info is not None and info.leader >= 0:
                state.missing_since, state.failures = None, 0
                return
            answer = UnknownTopicOrPartition(f"{partition.topic} has no partition {partition.partition}")
            if info is not None:
                self.stale.add(partition.topic)
                return
        self.stale.add(partition.topic)
        state.failures += 1
        if not isinstance(answer, UnknownTopicOrPartition):
            state.missing_since = None
            return
        if state.missing_since is None:
            state.missing_since = now
        if self.is_strict and now - state.missing_since > MISSING_TOO_LONG_S:
            text = str(answer) if str(answer) != partition.topic else f"there is no topic {partition.topic!r}"
            with self._assignment.lock:
                state.fail(UnknownTopicOrPartition(text))
                self._assignment.enqueue_ready(state)
