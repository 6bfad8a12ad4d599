"""Replicate one partition as a follower: append what the leader sent, or truncate where the logs diverge.

Nothing here waits. Whether a response is still valid is decided when it is used, not when it was requested:
in the meantime the partition may have another leader, or have been truncated.
"""

from __future__ import annotations

import logging

from ottla.log.log import Log
from ottla.protocol.errors import ERRORS, KafkaError, OffsetOutOfRange, UnknownServerError
from ottla.protocol.fetch_client import Fetched, FetchPartitionRequest, Topic
from ottla.protocol.records.batch import decode_header
from ottla.replication.leader_epochs import EpochEnd, is_current_epoch, truncation_offset
from ottla.replication.partition import Partition
from ottla.wire.backoff import Backoff
from ottla.wire.fetch_session import FetchPosition

logger = logging.getLogger(__name__)

MIN_BACKOFF_MS = 50


class FollowerState:
    """A partition that follows one leader in one leader epoch."""

    __slots__ = ("failures", "is_in_sync", "leader_epoch", "partition", "retry_at_ms", "topic")

    def __init__(self, partition: Partition, leader_epoch: int) -> None:
        self.partition = partition
        self.topic = Topic(partition.topic_partition.topic, partition.topic_id)
        self.leader_epoch = leader_epoch
        self.is_in_sync = False
        """Whether the image lists this replica in the ISR; others may be throttled."""
        self.failures = 0
        self.retry_at_ms = 0
        """When to fetch again after an error."""

    @property
    def needs_flush(self) -> bool:
        """Return whether the log has unflushed records that a fetch would report as durable."""
        log = self.partition.log
        return log.config.flush_messages == 1 and log.recovery_point < log.log_end_offset

    def next_fetch(self, max_bytes: int) -> FetchPosition:
        """Return the next fetch: from the end of the log, or of its intact part, with the epoch of the last
        record.

        A log whose records are all deleted still knows the epoch of the last one, until it is reopened.
        """
        log = self.partition.log
        end = self._end_offset
        is_empty = end == log.log_start_offset
        last_epoch = log.epochs.latest_epoch if is_empty else log.epoch_for_offset(end - 1)
        request = FetchPartitionRequest(end, self.leader_epoch, max_bytes, last_epoch, log.log_start_offset)
        return FetchPosition(self.topic, self.partition.topic_partition.partition, request)

    def apply_result(self, requested: FetchPartitionRequest, result: Fetched) -> int:
        """Apply the leader's response; return the number of bytes appended. On a KafkaError, retry later."""
        partition = self.partition
        log = partition.log
        if (
            partition.is_leader
            or not is_current_epoch(requested.leader_epoch, partition.leader_epoch)
            or requested.offset != self._end_offset
        ):
            return 0
        if result.error_code:
            self._handle_error(result)
            return 0
        if result.diverging_epoch is not None:
            self._truncate(EpochEnd(*result.diverging_epoch), result.log_start_offset)
            return 0
        if requested.offset < log.log_end_offset:
            self._truncate_at_hole(requested.offset)
        if len(result.records):
            _append(log, result.records, result.log_start_offset)
            partition.add_replicated(len(result.records))
        partition.commit(min(result.high_watermark, log.log_end_offset))
        if result.log_start_offset > log.log_start_offset:
            log.delete_records_before(min(result.log_start_offset, partition.high_watermark))
        return len(result.records)

    def _handle_error(self, result: Fetched) -> None:
        """Restart at the leader's log start if the logs have nothing in common; raise any other error."""
        partition, log = self.partition, self.partition.log
        error = ERRORS.get(result.error_code, UnknownServerError)  # type: ignore[call-overload]
        if error is OffsetOutOfRange and result.log_start_offset >= 0:
            is_empty = log.log_start_offset == log.log_end_offset
            if is_empty or result.log_start_offset > self._end_offset:
                self._restart_at(result.log_start_offset)
                return
        raise error(f"error from the leader of {partition.topic_partition}")

    def _restart_at(self, leader_log_start: int) -> None:
        """Drop everything and copy the leader's log from its start."""
        partition, log = self.partition, self.partition.log
        is_loss = log.log_start_offset < partition.high_watermark
        logger.log(
            logging.ERROR if is_loss else logging.WARNING,
            "%s: restarting at the leader's log start %d: the logs have nothing in common (local offsets %d "
            "to %d, high watermark %d)",
            partition.topic_partition, leader_log_start, log.log_start_offset, log.log_end_offset,
            partition.high_watermark,
        )  # fmt: skip
        partition.events.count_truncation(partition.high_watermark, log.log_start_offset)
        log.truncate_fully_and_start_at(leader_log_start)
        partition.on_truncated()

    @property
    def _end_offset(self) -> int:
        """Return where the intact part of the log ends.

        Recovery keeps batches after a hole if no other broker seems to have them. Once there is a leader, its
        log counts: with the hole this replica would join the ISR, and would lead one day.
        """
        log = self.partition.log
        if log.holes and not self.is_in_sync:
            for hole in log.holes:
                if hole.next_offset > log.log_start_offset:
                    return max(hole.first_offset, log.log_start_offset)
        return log.log_end_offset

    def _truncate_at_hole(self, offset: int) -> None:
        """Remove what follows a hole: the leader sends all of it."""
        log, end = self.partition.log, self.partition.log.log_end_offset
        log.truncate_to(offset)
        self.partition.on_truncated()
        logger.warning(
            "%s: truncated from offset %d to %d: what is damaged there is copied from the leader",
            self.partition.topic_partition, end, offset,
        )  # fmt: skip

    def _truncate(self, leaders: EpochEnd, leader_log_start: int) -> None:
        partition, log = self.partition, self.partition.log
        own = EpochEnd(*log.end_offset_for_epoch(leaders.epoch))
        before, high_watermark = log.log_end_offset, partition.high_watermark
        target = truncation_offset(leaders, own, before, high_watermark)
        if target < log.log_start_offset and leader_log_start >= 0:
            # The logs diverge before ours starts: what the leader has there may be newer than our deletion.
            self._restart_at(leader_log_start)
            return
        log.truncate_to(target)
        partition.on_truncated()
        partition.events.count_truncation(high_watermark, log.log_end_offset)
        lost = max(0, high_watermark - log.log_end_offset)
        logger.log(
            logging.ERROR if lost else logging.INFO,
            "%s: truncated from offset %d to %d (high watermark %d), the end of epoch %d on the leader; "
            "%d committed records are lost here",
            partition.topic_partition, before, log.log_end_offset, high_watermark, leaders.epoch, lost,
            extra={"event": "truncated", "lost_records": lost},
        )  # fmt: skip


def _append(log: Log, records: memoryview, leader_log_start: int) -> None:
    """Append, also if the log ends inside the first batch because everything before that is deleted."""
    first = decode_header(records)
    end = log.log_end_offset
    is_all_deleted = end in (log.log_start_offset, leader_log_start)
    if is_all_deleted and first.base_offset < end <= first.last_offset:
        log.truncate_fully_and_start_at(first.base_offset)
        log.append_as_follower(records)
        log.delete_records_before(max(end, leader_log_start))
    else:
        log.append_as_follower(records)


def schedule_retry(
    follower_state: FollowerState, error: KafkaError, now_ms: int, max_backoff_ms: int
) -> None:
    """Fetch a partition again after a delay that doubles with every error."""
    backoff = Backoff(MIN_BACKOFF_MS, max(MIN_BACKOFF_MS, max_backoff_ms), jitter=0)
    before_ms = backoff.pause_ms(follower_state.failures) if follower_state.failures else 0
    follower_state.failures += 1
    backoff_ms = backoff.pause_ms(follower_state.failures)
    follower_state.retry_at_ms = now_ms + int(backoff_ms)
    if before_ms < backoff_ms == backoff.max_ms:  # not the first few: brokers learn of changes one by one
        logger.warning("cannot replicate %s, retrying: %r", follower_state.partition.topic_partition, error)
