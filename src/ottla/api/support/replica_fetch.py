"""Fetch requests of followers: they read to the log end, and each reports the follower's position.

A fetch is rejected unless it carries the current leader epoch, and the epoch of the broker's newest
registration. Only after that, and after the check that the follower's log does not diverge, does its position
count.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.api.fetch import FetchOperation, failure
from ottla.api.support.context import RequestContext
from ottla.api.support.fetch_sessions import FetchPartitionState, FetchSession, TopicKey
from ottla.api.table import Reply
from ottla.protocol.errors import KafkaError, NotLeaderOrFollower, OffsetOutOfRange
from ottla.protocol.fetch_codec import FetchPartitionResult, FetchRequest
from ottla.replication.leader import LeaderState
from ottla.replication.leader_epochs import check_epoch
from ottla.replication.partition import Partition


def answer_follower(
    request: FetchRequest, session: FetchSession, continued: bool, ctx: RequestContext
) -> Reply | Awaitable[Reply]:
    """Answer at once if `min_bytes` are available; otherwise when they are, or after `max_wait_ms`."""
    ctx.times = ctx.times.of_followers or ctx.times
    reading = ReplicaFetchOperation(request, session, continued, ctx)
    reading.read()
    reading.is_counted = True
    if reading.is_complete():
        return reading.reply()
    missing = max(1, request.min_bytes - reading.size_bytes)
    ends = [partition.log_end for partition in reading.partitions]
    return ctx.services.purgatory.park(
        ctx.connection, ends, missing, request.max_wait_ms, reading.read_and_reply
    )


class ReplicaFetchOperation(FetchOperation):
    """One Fetch request of a follower."""

    __slots__ = ("is_counted",)

    def __init__(
        self, request: FetchRequest, session: FetchSession, continued: bool, ctx: RequestContext
    ) -> None:
        super().__init__(request, session, continued, ctx)
        self._quotas = None
        self.is_counted = False
        """Whether the leaders have recorded the follower's position."""

    def _count(self, topic: TopicKey, partition: Partition | None, data: FetchPartitionResult) -> None:
        if partition is not None:
            records = data.records
            size = len(records) if isinstance(records, bytes) else records.size
            partition.traffic.replicated_bytes_out += size

    def _denied_topics(self) -> dict[TopicKey, KafkaError]:
        """Return nothing: a follower copies every topic."""
        return {}

    def _find(self, topic: TopicKey, index: int) -> Partition:
        registry = self._ctx.services.partitions
        return registry.get(topic, index) if isinstance(topic, str) else registry.get_by_id(topic, index)

    def _read_one(
        self, partition: Partition, wanted: FetchPartitionState, max_bytes: int
    ) -> FetchPartitionResult:
        request, leader, log = self._request, partition.leader_state, partition.log
        if leader is None:
            raise NotLeaderOrFollower(f"{partition.topic_partition} has no followers")
        check_epoch(wanted.current_leader_epoch, partition.leader_epoch)
        leader.check_fetch(request.replica_id, request.replica_epoch)
        offset = wanted.fetch_offset
        if wanted.verified_epoch != partition.leader_epoch:
            diverging = None
            if wanted.last_fetched_epoch >= 0:
                diverging = partition.diverging_epoch(wanted.last_fetched_epoch, offset)
            elif offset == wanted.log_start_offset > log.log_start_offset and not leader.is_in_sync(
                request.replica_id
            ):
                # It would count as a copy of all records below its offset, which it does not have.
                raise OffsetOutOfRange(f"an empty replica starts at {log.log_start_offset}, not at {offset}")
            if diverging is not None:
                self.failed = True  # the follower's log has diverged: answer at once, so that it truncates
                return self._result(partition, wanted, diverging=diverging)
            # A leader only appends: logs that agree now agree for as long as it leads.
            wanted.verified_epoch = partition.leader_epoch
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not in {log.log_start_offset} to {log.log_end_offset}"
            )
        if not self.is_counted:
            leader.record_fetch(request.replica_id, offset, wanted.log_start_offset, request.replica_epoch)
        if offset == log.log_end_offset or self._is_held_back(partition, leader):
            return self._result(partition, wanted)
        return self._read_records(partition, leader, wanted, max_bytes)

    def _read_records(
        self, partition: Partition, leader: LeaderState, wanted: FetchPartitionState, max_bytes: int
    ) -> FetchPartitionResult:
        found = partition.read(
            wanted.fetch_offset, max_bytes, partition.log.log_end_offset, self.size_bytes == 0
        )
        records = found.records
        if partition.throttled_as_leader and self._request.replica_id not in leader.isr_state.isr:
            size = len(records) if isinstance(records, bytes) else records.size
            self._ctx.services.replicator.leader_rate.record(size)
        return self._result(partition, wanted)._replace(records=records)

    def _is_held_back(self, partition: Partition, leader: LeaderState) -> bool:
        """Return whether a replica that is being created has used up its replication quota for now."""
        return (
            partition.throttled_as_leader
            and self._request.replica_id not in leader.isr_state.isr
            and self._ctx.services.replicator.leader_rate.is_exhausted
        )

    def _result(
        self, partition: Partition, wanted: FetchPartitionState, diverging: tuple[int, int] | None = None
    ) -> FetchPartitionResult:
        return FetchPartitionResult(
            wanted.index,
            high_watermark=partition.high_watermark,
            last_stable_offset=-1,
            log_start_offset=partition.log_start_offset,
            diverging_epoch=diverging,
        )

    def _failure(self, wanted: FetchPartitionState, error: KafkaError) -> FetchPartitionResult:
        """Include the log start offset: a follower behind it starts there."""
        failed = failure(wanted.index, error)
        if isinstance(error, OffsetOutOfRange):
            partition = self._find(wanted.topic, wanted.index)
            return failed._replace(log_start_offset=partition.log_start_offset)
        return failed
