"""One partition as a follower copies it: append what the leader sent, or truncate where the logs part.

Nothing here waits. Whether an answer still counts is decided when it is used, not when it was asked for:
in the meantime the partition may have got another leader, or have been truncated.
"""

from __future__ import annotations

import logging

from ottla.log.log import Log
from ottla.protocol.errors import ERRORS, KafkaError, OffsetOutOfRange, UnknownServerError
from ottla.protocol.fetch_client import Fetched, FetchPartitionRequest, Topic
from ottla.protocol.records.batch import decode_header
from ottla.replication.leader_epochs import EpochEnd, answers_this_epoch, truncation_offset
from ottla.replication.partition import Partition
from ottla.wire.backoff import Backoff
from ottla.wire.fetch_session import FetchPosition

log = logging.getLogger(__name__)

FIRST_DELAY_MS = 50


class FollowerState:
    """A partition that follows one leader in one leader epoch."""

    __slots__ = ("failures", "is_in_sync", "leader_epoch", "not_before_ms", "partition", "topic")

    def __init__(self, partition: Partition, leader_epoch: int) -> None:
        self.partition = partition
        self.topic = Topic(partition.topic_partition.topic, partition.topic_id)
        self.leader_epoch = leader_epoch
        self.is_in_sync = False
        """Whether the image counts this replica as in sync; others may be throttled."""
        self.failures = 0
        self.not_before_ms = 0
        """When to fetch again after an error."""

    @property
    def needs_flush(self) -> bool:
        """Whether the log has what a fetch would claim is on the disk, and is not."""
        written = self.partition.log
        return written.config.flush_messages == 1 and written.recovery_point < written.log_end_offset

    def next_fetch(self, max_bytes: int) -> FetchPosition:
        """Return what to ask for: whatever follows our last record, which had this epoch.

        A log whose records are all deleted still knows the epoch of the last one, until it is opened again.
        """
        written = self.partition.log
        end = written.log_end_offset
        is_empty = end == written.log_start_offset
        last_epoch = written.epochs.latest_epoch if is_empty else written.epoch_for_offset(end - 1)
        request = FetchPartitionRequest(
            end, self.leader_epoch, max_bytes, last_epoch, written.log_start_offset
        )
        return FetchPosition(self.topic, self.partition.topic_partition.partition, request)

    def take(self, asked: FetchPartitionRequest, result: Fetched) -> int:
        """Use the leader's answer; return how many bytes were appended. KafkaErrors: try again later."""
        partition = self.partition
        written = partition.log
        if (
            partition.is_leader
            or not answers_this_epoch(asked.leader_epoch, partition.leader_epoch)
            or asked.offset != written.log_end_offset
        ):
            return 0
        if result.error_code:
            self._take_error(result)
            return 0
        if result.diverging_epoch is not None:
            self._truncate(EpochEnd(*result.diverging_epoch), result.log_start_offset)
            return 0
        if len(result.records):
            _append(written, result.records, result.log_start_offset)
            partition.copied(len(result.records))
        partition.commit(min(result.high_watermark, written.log_end_offset))
        if result.log_start_offset > written.log_start_offset:
            written.delete_records_before(min(result.log_start_offset, partition.high_watermark))
        return len(result.records)

    def _take_error(self, result: Fetched) -> None:
        """Start anew if the leader no longer has what we need, or we have nothing; raise any other error."""
        partition, written = self.partition, self.partition.log
        error = ERRORS.get(result.error_code, UnknownServerError)  # type: ignore[call-overload]
        if error is OffsetOutOfRange and result.log_start_offset >= 0:
            is_empty = written.log_start_offset == written.log_end_offset
            if is_empty or result.log_start_offset > written.log_end_offset:
                self._start_anew(result.log_start_offset)
                return
        raise error(f"the leader of {partition.topic_partition} answers so")

    def _start_anew(self, leader_log_start: int) -> None:
        """Drop everything and copy the leader's log from its start."""
        partition, written = self.partition, self.partition.log
        log.warning(
            "%s: the leader, whose log starts at %d, has nothing of ours, which has offsets %d to %d (high "
            "watermark %d): starting anew there",
            partition.topic_partition, leader_log_start, written.log_start_offset, written.log_end_offset,
            partition.high_watermark,
        )  # fmt: skip
        written.truncate_fully_and_start_at(leader_log_start)
        partition.truncated()

    def _truncate(self, leaders: EpochEnd, leader_log_start: int) -> None:
        partition, written = self.partition, self.partition.log
        own = EpochEnd(*written.end_offset_for_epoch(leaders.epoch))
        before, high_watermark = written.log_end_offset, partition.high_watermark
        target = truncation_offset(leaders, own, before, high_watermark)
        if target < written.log_start_offset and leader_log_start >= 0:
            # The logs parted before ours starts: what the leader has there may be newer than our deletion.
            self._start_anew(leader_log_start)
            return
        written.truncate_to(target)
        partition.truncated()
        log.log(
            logging.WARNING if written.log_end_offset < high_watermark else logging.INFO,
            "%s: truncated from %d to %d (high watermark %d), where the leader's epoch %d ends",
            partition.topic_partition, before, written.log_end_offset, high_watermark, leaders.epoch,
        )  # fmt: skip


def _append(written: Log, records: memoryview, leader_log_start: int) -> None:
    """Append, also if the log ends in the middle of the first batch: if all before that is deleted."""
    first = decode_header(records)
    end = written.log_end_offset
    is_all_deleted = end in (written.log_start_offset, leader_log_start)
    if is_all_deleted and first.base_offset < end <= first.last_offset:
        written.truncate_fully_and_start_at(first.base_offset)
        written.append_as_follower(records)
        written.delete_records_before(max(end, leader_log_start))
    else:
        written.append_as_follower(records)


def retry_later(following: FollowerState, error: KafkaError, now_ms: int, longest_ms: int) -> None:
    """Leave a partition alone for a while, each time longer."""
    backoff = Backoff(FIRST_DELAY_MS, max(FIRST_DELAY_MS, longest_ms), jitter=0)
    before_ms = backoff.pause_ms(following.failures) if following.failures else 0
    following.failures += 1
    delay_ms = backoff.pause_ms(following.failures)
    following.not_before_ms = now_ms + int(delay_ms)
    if before_ms < delay_ms == backoff.max_ms:  # not the first few: brokers learn of changes one by one
        log.warning("%s cannot be copied: %r", following.partition.topic_partition, error)
