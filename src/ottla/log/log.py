"""One replica's log: segments of batches, with producer state and leader epochs.

Everything here runs on the event loop and returns at once; only `FlushJob.run`, and the functions that
`timestamp_lookup` and `max_timestamp_lookup` return, run in a thread. An append is one write(2) to the page
cache. flush.py makes it durable; loading/recovery.py repairs the log after a crash.

Errors: KafkaStorageError when the disk fails. After a full disk the log is as it was before the append, and
the next append is tried normally. After any other failed write or fsync the whole log directory rejects
writes until the broker restarts (see storage.py). Reads continue in both cases; a read that fails raises
KafkaStorageError and changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition
from ottla.log import lookup
from ottla.log.epoch_cache import EpochCache
from ottla.log.file_names import DELETED, EPOCH_CHECKPOINT, SNAPSHOT, file_name
from ottla.log.flush import FlushJob, FlushState
from ottla.log.holes import remaining_holes, save_holes
from ottla.log.loading.replay import aborted_entry, producers_at
from ottla.log.log_config import LogConfig
from ottla.log.log_types import AppendResult, LogRead, TimestampOffset, UnreadableRange
from ottla.log.lookup import aborted_between
from ottla.log.producers import producer_state
from ottla.log.producers.failed_appends import FailedAppends
from ottla.log.producers.producer_state import UNKNOWN, ProducerState
from ottla.log.producers.verification import Verifications
from ottla.log.segment import Segment, TornAppend
from ottla.log.segments import RollRule, Segments
from ottla.log.transaction_index import AbortedTransaction
from ottla.log.validator import check_header, check_size, needs_validation, validate_batch
from ottla.protocol.errors import KafkaStorageError, OffsetOutOfRange
from ottla.protocol.records.batch import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    check_crc,
    decode_header,
    iter_batches,
    stamp,
)
from ottla.protocol.records.control import Marker, decode_marker, encode_marker

logger = logging.getLogger(__name__)


T = TypeVar("T")
_NO_FAILED_APPENDS = FailedAppends()
"""Shared by the logs in which no append has failed."""


class Log:
    """One replica's log: append, read, look up, roll, flush, truncate."""

    _failed_appends = _NO_FAILED_APPENDS

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: LogConfig,
        segments: Segments,
        clock: Clock,
        *,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        producers: ProducerState | None = None,
        epochs: EpochCache | None = None,
        holes: Sequence[UnreadableRange] = (),
        is_damaged: bool = False,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.clock = clock
        self.storage = segments.storage
        self.path = segments.directory
        self.log_start_offset = log_start_offset
        self.log_end_offset = max(segments.active.next_offset, log_start_offset)
        self.recovery_point = recovery_point
        """Everything below it survives a power failure."""
        self.producers = ProducerState(log_start_offset) if producers is None else producers
        self.epochs = EpochCache() if epochs is None else epochs
        self.verifications = Verifications()
        self.holes = tuple(holes)
        """Offsets that recovery removed between intact batches, now or at an earlier start."""
        self.is_damaged = is_damaged
        """Whether recovery removed more than a partial append."""
        self.on_truncate: Callable[[Log, int], None] | None = None
        """Called with the new end after the recovery point was lowered, before anything is truncated.

        Entries on disk about offsets above that end must be lowered durably first.
        """
        self.truncation_count = 0
        """The number of truncations: what was derived from the log before one may be wrong after it."""
        self.is_closed = False
        self._segments = segments
        self._flush = FlushState(clock.wall_ms(), recovery_point)
        self._roll_rule = RollRule(config)
        self.set_config(config)

    def set_config(self, config: LogConfig) -> None:
        """Replace the topic's configuration, which may happen at any time."""
        self.config = config
        self.validates_records = needs_validation(config)
        self._segments.active.index_interval_bytes = config.index_interval_bytes
        self._roll_rule.reset(config)

    @property
    def segments(self) -> list[Segment]:
        """Return all segments by base offset, the active one last; callers must not change the list."""
        return self._segments.all

    @property
    def active(self) -> Segment:
        """Return the segment that is appended to."""
        return self._segments.active

    @property
    def sealed(self) -> list[Segment]:
        """Return all segments but the active one, oldest first."""
        return self._segments.sealed

    @property
    def size_bytes(self) -> int:
        """Return the size of all .log files."""
        return self._segments.size_bytes

    # Rolling
    def _check_writable(self) -> None:
        self.storage.check_writable()
        if self.is_closed:
            raise KafkaStorageError(f"{self.path} is closed")

    def roll(self) -> None:
        """Seal the active segment and start a new one, unless the active one is empty."""
        self._check_writable()
        if self.active.size_bytes:
            self._roll(self.clock.wall_ms())

    def _roll(self, now_ms: int) -> Segment:
        sealed = self._segments.active
        try:
            active = self._segments.start_new(self.log_end_offset, self.config, now_ms)
        except OSError as error:
            raise self.storage.write_failed(f"rolling {self.path}", error) from error
        self._flush.segment_created()
        self._roll_rule.reset(self.config)
        try:
            sealed.seal()
            self._take_snapshot()
        except OSError as error:
            # The indexes stay in memory until a flush can write them, and recovery can do without.
            self.storage.write_failed(f"sealing {sealed.files.path('.log')}", error)
        return active

    def _take_snapshot(self) -> None:
        end = self.log_end_offset
        self.producers.end_offset = end
        self.storage.disk.write_file(
            producer_state.snapshot_path(self.path, end), self.producers.encode(), sync=False
        )
        self.producers.snapshot_offset = end

    # Flushing
    def needs_flush(self, now_ms: int) -> bool:
        """Return whether flush.messages or flush.ms is reached, or a sealed segment is not fsynced."""
        unflushed = self.log_end_offset - self.recovery_point
        if unflushed <= 0 or self._flush.is_running:
            return False
        return (
            unflushed >= self.config.flush_messages
            or now_ms - self._flush.last_ms >= self.config.flush_ms
            or self.recovery_point < self.active.base_offset
        )

    def begin_flush(self) -> FlushJob | None:
        """Capture what to fsync; None if there is nothing, or a flush is running."""
        if self.recovery_point >= self.log_end_offset or self._flush.is_running:
            return None
        self._check_writable()
        try:
            return self._flush.begin(
                self.storage,
                self.segments,
                self.epochs,
                end_offset=self.log_end_offset,
                now_ms=self.clock.wall_ms(),
            )
        except OSError as error:
            raise self.storage.write_failed(f"flushing {self.path}", error) from error

    def finish_flush(self, job: FlushJob, error: OSError | None) -> None:
        """Handle the end of a flush: advance the recovery point, or take the directory offline."""
        self._flush.is_running = False
        if self.is_closed:
            return
        if error is not None and job.is_synced:
            self.storage.write_failed(f"flushing {self.path}", error)
        elif error is not None:
            self.storage.flush_failed(f"flushing {self.path}", error)
        elif self._flush.finish(job):
            self.recovery_point = max(self.recovery_point, job.end_offset)

    # Cutting off
    def delete_records_before(self, offset: int) -> int:
        """Advance the log start offset to `offset`, and return it; retention deletes the segments below it.

        It survives a crash once the log directory has written its checkpoint of log start offsets.
        """
        if offset > self.log_start_offset:
            self.log_start_offset = min(offset, self.log_end_offset)
            self.epochs.truncate_from_start(self.log_start_offset)
        return self.log_start_offset

    def truncate_to(self, offset: int) -> None:
        """Remove everything from `offset` on; a batch that contains it is removed completely."""
        self._check_writable()
        if offset >= self.log_end_offset:
            return
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        try:
            end = self.segments[self._segments.index_of(offset)].batch_boundary(offset)
            self._prepare_truncation(end)
            self._segments.drop_above(end)
            self.active.truncate_to(end)
            self.active.open_file().fsync()  # truncated bytes must not reappear between new ones
            self.log_end_offset = max(end, self.log_start_offset)
            entries = self.storage.disk.list_dir(self.path)
            offsets = producer_state.snapshot_offsets(entries)
            producer_state.remove_snapshots_above(self.storage.disk, self.path, offsets, self.log_end_offset)
            self._forget_holes()
            self.storage.disk.fsync_dir(self.path)
            self.producers = producers_at(self._segments, offsets, self.log_end_offset)
        except OSError as error:
            raise self._truncation_failed(error) from error
        self.epochs.truncate_from_end(self.log_end_offset)
        self._roll_rule.reset(self.config)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything and continue, empty, at `offset`."""
        self._check_writable()
        self._prepare_truncation(offset)
        try:
            self._segments.drop_all()
            offsets = producer_state.snapshot_offsets(self.storage.disk.list_dir(self.path))
            producer_state.remove_snapshots_above(self.storage.disk, self.path, offsets, -1)
            self._segments.start_new(offset, self.config, self.clock.wall_ms())
            self.log_start_offset = self.log_end_offset = offset
            self._forget_holes()
            self.storage.disk.fsync_dir(self.path)
        except OSError as error:
            raise self._truncation_failed(error) from error
        self._flush.segment_created()
        self.producers = ProducerState(offset)
        self.epochs.clear()
        self._roll_rule.reset(self.config)

    def _prepare_truncation(self, end_offset: int) -> None:
        self.recovery_point = min(end_offset, self.recovery_point)
        self._flush.on_truncate(self.recovery_point)
        self.truncation_count += 1
        if self.on_truncate is not None:
            self.on_truncate(self, end_offset)

    def _forget_holes(self) -> None:
        """Forget the holes that nothing follows any more."""
        holes = remaining_holes(self.holes, range(self.log_start_offset, self.log_end_offset))
        if holes != self.holes:
            save_holes(self.storage.disk, self.path, holes)
            self.holes = holes

    def _truncation_failed(self, error: OSError) -> KafkaStorageError:
        """Take the directory offline: after a partial truncation nothing may be written."""
        self.storage.take_offline(f"truncating {self.path}: {error}")
        return KafkaStorageError(f"truncating {self.path}: {error}")

    # Retention and compaction
    def remove_segments(self, segments: Sequence[Segment], reason: str) -> list[str]:
        """Remove the oldest segments; the log then starts where the rest does.

        Their files are renamed to .deleted, for the caller to remove later; returns those names.
        """
        if not segments:
            return []
        logger.info("%s: removing %d segments: %s", self.topic_partition, len(segments), reason)
        disk = self.storage.disk
        try:
            renamed = self._segments.remove(segments)
            for segment in segments:
                path = producer_state.snapshot_path(self.path, segment.base_offset)
                if disk.exists(path):
                    disk.rename(path, path + DELETED)
                    renamed.append(path + DELETED)
        except OSError as error:
            raise self.storage.write_failed(f"removing segments of {self.path}", error) from error
        finally:
            self.delete_records_before(self.segments[0].base_offset)
        return renamed

    def replace_segments(self, old: Sequence[Segment], new: Sequence[Segment]) -> list[str]:
        """Replace `old` by compacted segments, crash-safe; see segments.py.

        `new` were created as .cleaned, sealed and fsynced. Raises ValueError, and changes nothing, unless
        `old` are adjacent sealed segments of this log. Returns the names of the files to remove later.
        """
        try:
            end = max((segment.next_offset for segment in old), default=0)
            producer_state.remove_snapshots_below(self.storage.disk, self.path, end)
            return self._segments.replace(old, new)
        except OSError as error:
            raise self.storage.write_failed(f"swapping segments of {self.path}", error) from error

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Drop producers that were idle for longer than producer.id.expiration.ms."""
        self.producers.expire(now_ms, expiration_ms)

    # Closing
    def close(self, *, clean: bool) -> None:
        """Close all files. If `clean`, first write what a start without recovery needs; not fsynced."""
        if self.is_closed:
            return
        try:
            if clean:
                self.write_clean_shutdown_files()
        except OSError as error:
            raise self.storage.write_failed(f"closing {self.path}", error) from error
        finally:
            self.is_closed = True
            self._segments.close()

    def write_clean_shutdown_files(self) -> None:
        """Write what opening the log without recovery needs; not fsynced. Raises OSError."""
        for segment in self.segments:
            segment.write_indexes()
        if self.producers.snapshot_offset != self.log_end_offset:
            self._take_snapshot()
        if self._flush.epochs_written != self.epochs.version:
            self.storage.disk.write_file(f"{self.path}/{EPOCH_CHECKPOINT}", self.epochs.encode(), sync=False)

    def unwritten_files(self) -> dict[str, bytes]:
        """Return what `write_clean_shutdown_files` has still to write, by file name."""
        end = self.producers.end_offset = self.log_end_offset
        return {
            **{
                file_name(segment.base_offset, kind): contents
                for segment in self.segments
                for kind, contents in segment.unwritten_indexes().items()
            },
            file_name(end, SNAPSHOT): self.producers.encode(),
            EPOCH_CHECKPOINT: self.epochs.encode(),
        }

    def take_over(self, former: Log) -> None:
        """Continue what was only in the memory of the log that this one is a copy of."""
        self.verifications = former.verifications
        self.truncation_count = former.truncation_count
        self._failed_appends = former._failed_appends

    # Appending
    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        leader_epoch: int,
        now_ms: int,
        is_validated: bool = False,
        marker: Marker | None = None,
    ) -> AppendResult:
        """Append one batch that `check_batch` has accepted, as the leader; it is stamped in place.

        `is_validated` says that `validate_records` has been called (see validator.py); `marker` is the
        content of a control batch, if that is known.
        """
        config = self.config
        if len(batch) > config.max_message_bytes and not header.is_control:
            check_size(len(batch), config)
        append_time = -1
        if self.validates_records and (not is_validated or config.uses_log_append_time):
            batch, header, append_time = validate_batch(
                batch, header, config, now_ms, is_validated=is_validated
            )
        elif (
            header.attributes & LOG_APPEND_TIME_BIT
            or header.max_timestamp - now_ms > config.timestamp_after_max_ms
        ):
            check_header(header, config, now_ms)
        if header.producer_id >= 0:
            producers = self.producers
            if self._failed_appends is not _NO_FAILED_APPENDS:
                repeated = self._failed_appends.check(header, producers, self.clock.mono_ms())
            else:
                repeated = producers.check(header)
            if repeated is not None:
                first, last = repeated.first_offset, repeated.last_offset
                stored_time = repeated.timestamp if config.uses_log_append_time else -1
                return AppendResult(first, last, stored_time, self.log_start_offset, True)
            if header.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) == TRANSACTIONAL_BIT:
                self.verifications.check(header, self.producers)
            if header.base_sequence >= 0 and header.producer_id not in producers.producers:
                self._check_producer_limit(header.producer_id)
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        stamp(batch, base_offset, leader_epoch)
        try:
            self._write(batch, last_offset, header.max_timestamp, now_ms)
        except KafkaStorageError:
            self._record_failed_append(header)
            raise
        if leader_epoch != self.epochs.latest_epoch:
            self.epochs.assign(leader_epoch, base_offset)
        if header.producer_id >= 0:
            self._update_producer(header, batch, last_offset, now_ms, marker)
        return AppendResult(base_offset, last_offset, append_time, self.log_start_offset, False)

    def append_marker(self, marker: Marker, leader_epoch: int, now_ms: int) -> AppendResult:
        """Append a transaction marker, as the leader."""
        self.producers.check_marker(marker)
        batch = encode_marker(marker, now_ms)
        return self.append(batch, decode_header(batch), leader_epoch, now_ms, True, marker)

    def _check_producer_limit(self, producer_id: int) -> None:
        """Reject a client's new producer if the broker remembers too many."""
        if self.storage.producer_limit is not None:
            self.storage.producer_limit.admit(producer_id)

    def _record_failed_append(self, header: BatchHeader) -> None:
        if header.producer_id >= 0:
            if self._failed_appends is _NO_FAILED_APPENDS:
                self._failed_appends = FailedAppends()
            self._failed_appends.add(header, self.producers, self.clock.mono_ms())

    def append_as_follower(self, batches: memoryview) -> None:
        """Append what the leader sent, with its offsets and epochs; an incomplete last batch is ignored."""
        now_ms = self.clock.wall_ms()
        for header, batch in iter_batches(batches):
            check_crc(batch, header)
            if header.base_offset < self.log_end_offset:
                raise OffsetOutOfRange(
                    f"the leader sent offset {header.base_offset}, the log ends at {self.log_end_offset}"
                )
            self._write(batch, header.last_offset, header.max_timestamp, now_ms)
            self.epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self._update_producer(header, batch, header.last_offset, UNKNOWN)

    def _write(self, batch: memoryview, last_offset: int, timestamp: int, now_ms: int) -> None:
        if self.is_closed or self.storage.offline_reason is not None:
            self._check_writable()
        segment, rule = self._segments.all[-1], self._roll_rule
        try:
            if (
                timestamp > rule.after_ms
                or last_offset > rule.after_offset
                or segment.size_bytes + len(batch) > self.config.segment_bytes
            ) and rule.is_due(segment, len(batch), last_offset, timestamp, now_ms):
                segment = self._roll(now_ms)
            segment.append_stamped(batch, last_offset, timestamp)
        except OSError as error:
            raise self._append_failed(error) from error
        self.log_end_offset = last_offset + 1

    def _append_failed(self, error: OSError) -> KafkaStorageError:
        what = f"appending to {self.path}"
        if isinstance(error, TornAppend):
            self.storage.take_offline(f"{what}: {error}")
        return self.storage.append_failed(what, error)

    def _update_producer(
        self,
        header: BatchHeader,
        batch: memoryview,
        last_offset: int,
        appended_ms: int,
        marker: Marker | None = None,
    ) -> None:
        if self._failed_appends is not _NO_FAILED_APPENDS:
            self._failed_appends.forget(header.producer_id)
        if header.attributes & TRANSACTIONAL_BIT:
            self.verifications.clear(header.producer_id)
        if not header.attributes & CONTROL_BIT:
            self.producers.update(header, last_offset, header.max_timestamp, appended_ms)
            return
        marker = marker or decode_marker(header, batch)
        if marker is None:
            return
        ended = self.producers.end_transaction(marker, last_offset, header.max_timestamp)
        if ended is not None and not ended.is_commit:
            try:
                self.active.append_aborted(aborted_entry(ended, self.producers))
            except OSError as error:
                # It counts already, and is written with the next one, or after a crash from the log.
                self.storage.write_failed(f"indexing an aborted transaction of {self.path}", error)

    # Reading
    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool = True) -> LogRead:
        """Return whole batches from the one that contains `offset` up to `end_offset`; see `read_batches`."""
        log_end = self.log_end_offset
        if not self.log_start_offset <= offset <= log_end:
            raise OffsetOutOfRange(f"offset {offset} is outside of {self.log_start_offset} to {log_end}")
        if end_offset > log_end:
            end_offset = log_end
        if offset >= end_offset:
            return LogRead(b"", offset)
        try:
            return lookup.read_batches(self._segments, offset, max_bytes, end_offset, at_least_one)
        except OSError as error:
            raise KafkaStorageError(f"reading {self.path}: {error}") from error

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in [offset, end_offset), by their first offsets."""
        return self._read(lambda: aborted_between(self._segments, offset, end_offset))

    def timestamp_lookup(self, timestamp_ms: int) -> lookup.Find:
        """Return a function that finds the first record at or after `timestamp_ms`; call it in a thread."""
        return self._lookup(
            lambda: lookup.first_at_or_after(self._segments, timestamp_ms, self.log_start_offset)
        )

    def max_timestamp_lookup(self) -> lookup.Find:
        """Return a function that finds the first record with the largest timestamp; call it in a thread."""
        return self._lookup(lambda: lookup.latest(self._segments, self.log_start_offset))

    def _lookup(self, begin: Callable[[], lookup.Find]) -> lookup.Find:
        find = self._read(begin)
        return lambda: self._read(find)

    def _read(self, how: Callable[[], T]) -> T:
        try:
            return how()
        except OSError as error:
            raise KafkaStorageError(f"reading {self.path}: {error}") from error

    def offset_for_time(self, timestamp_ms: int) -> TimestampOffset | None:
        """Return the first record at or after `timestamp_ms`, or None; see `timestamp_lookup`."""
        return self.timestamp_lookup(timestamp_ms)()

    def timestamp_from(self, offset: int, end_offset: int) -> int | None:
        """Return the timestamp of the first record in [offset, end_offset), or None."""
        start = max(offset, self.log_start_offset)
        return self._read(lambda: lookup.timestamp_from(self._segments, start, end_offset))

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """Return the first record with the largest timestamp, or None; see `max_timestamp_lookup`."""
        return self.max_timestamp_lookup()()

    def epoch_for_offset(self, offset: int) -> int:
        """Return the leader epoch that `offset` was written in, -1 if it is unknown."""
        return self.epochs.epoch_for_offset(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (the largest epoch <= `epoch`, its end offset); (-1, -1) if it is unknown."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)
