"""The files of one log as a whole: how segments begin, are made durable, cut off, swapped and closed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from uuid import UUID

from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition
from ottla.log import snapshots
from ottla.log.admission import needs_inspection
from ottla.log.epoch_cache import EpochCache
from ottla.log.flush import FlushJob, FlushState
from ottla.log.log_config import LogConfig
from ottla.log.log_types import Hole
from ottla.log.names import DELETED, EPOCH_CHECKPOINT
from ottla.log.producer_state import ProducerState
from ottla.log.replay import producers_at
from ottla.log.roll_rule import RollRule
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.log.verification import Verifications
from ottla.protocol.errors import KafkaStorageError

logger = logging.getLogger(__name__)


class LogFiles:
    """One replica's files and what they amount to."""

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
        holes: Sequence[Hole] = (),
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
        """Everything below it survives a power cut."""
        self.producers = ProducerState(log_start_offset) if producers is None else producers
        self.epochs = EpochCache() if epochs is None else epochs
        self.verifications = Verifications()
        self.holes = tuple(holes)
        """What recovery had to cut out when the log was opened."""
        self.is_damaged = is_damaged
        """Whether it had to cut out or off more than half an append."""
        self.on_truncate: Callable[[LogFiles, int], None] | None = None
        """Called with the new end after the recovery point was lowered, before anything is cut off.

        Whatever the disk says of offsets above that end has to be lowered durably first.
        """
        self.truncations = 0
        """How often the log was truncated: what was found out about it before may be wrong afterwards."""
        self.is_closed = False
        self._segments = segments
        self._flush = FlushState(clock.wall_ms(), recovery_point)
        self._roll_rule = RollRule(config)
        self.config = config

    @property
    def config(self) -> LogConfig:
        """The topic's configuration; may be replaced at any time."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self.inspects = needs_inspection(config)
        self._segments.active.index_interval_bytes = config.index_interval_bytes
        self._roll_rule.reset(config)

    @property
    def segments(self) -> list[Segment]:
        """All segments by base offset, the active one last; not to be changed by others."""
        return self._segments.all

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""
        return self._segments.active

    @property
    def sealed(self) -> list[Segment]:
        """All segments but the active one, oldest first."""
        return self._segments.sealed

    @property
    def size_bytes(self) -> int:
        """Bytes of all .log files."""
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
            active = self._segments.start_new(self.log_end_offset, self._config, now_ms)
        except OSError as error:
            raise self.storage.write_failed(f"rolling {self.path}", error) from error
        self._flush.segment_created()
        self._roll_rule.reset(self._config)
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
            snapshots.snapshot_path(self.path, end), self.producers.encode(), sync=False
        )
        self.producers.snapshot_offset = end

    # Flushing
    def needs_flush(self, now_ms: int) -> bool:
        """Return whether flush.messages or flush.ms is reached, or a sealed segment waits for its fsync."""
        unflushed = self.log_end_offset - self.recovery_point
        if unflushed <= 0 or self._flush.is_running:
            return False
        return (
            unflushed >= self._config.flush_messages
            or now_ms - self._flush.last_ms >= self._config.flush_ms
            or self.recovery_point < self.active.base_offset
        )

    def begin_flush(self) -> FlushJob | None:
        """Capture what there is to fsync; None if there is nothing, or a flush is under way already."""
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
        """Take note of a job that was run: advance the recovery point, or take the directory offline."""
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
        """Move the log's start up to `offset`, and return it; segments below go with the next retention.

        It survives a crash once the log directory has written its checkpoint of log starts.
        """
        if offset > self.log_start_offset:
            self.log_start_offset = min(offset, self.log_end_offset)
            self.epochs.truncate_from_start(self.log_start_offset)
        return self.log_start_offset

    def truncate_to(self, offset: int) -> None:
        """Cut off everything from `offset` on; a batch that contains it goes whole."""
        self._check_writable()
        if offset >= self.log_end_offset:
            return
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        try:
            end = self.segments[self._segments.index_of(offset)].boundary_at(offset)
            self._prepare_truncation(end)
            self._segments.drop_above(end)
            self.active.truncate_to(end)
            self.active.open_file().fsync()  # what was cut off must not come back between what follows
            self.log_end_offset = max(end, self.log_start_offset)
            entries = self.storage.disk.list_dir(self.path)
            offsets = snapshots.snapshot_offsets(entries)
            snapshots.remove_above(self.storage.disk, self.path, offsets, self.log_end_offset)
            self.storage.disk.fsync_dir(self.path)
            self.producers = producers_at(self._segments, offsets, self.log_end_offset)
        except OSError as error:
            raise self._cut_failed(error) from error
        self.epochs.truncate_from_end(self.log_end_offset)
        self._roll_rule.reset(self._config)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and go on, empty, at `offset`."""
        self._check_writable()
        self._prepare_truncation(offset)
        try:
            self._segments.drop_all()
            offsets = snapshots.snapshot_offsets(self.storage.disk.list_dir(self.path))
            snapshots.remove_above(self.storage.disk, self.path, offsets, -1)
            self._segments.start_new(offset, self._config, self.clock.wall_ms())
            self.storage.disk.fsync_dir(self.path)
        except OSError as error:
            raise self._cut_failed(error) from error
        self._flush.segment_created()
        self.log_start_offset = self.log_end_offset = offset
        self.producers = ProducerState(offset)
        self.epochs.clear()
        self._roll_rule.reset(self._config)

    def _prepare_truncation(self, end_offset: int) -> None:
        self.recovery_point = min(end_offset, self.recovery_point)
        self._flush.truncated(self.recovery_point)
        self.truncations += 1
        if self.on_truncate is not None:
            self.on_truncate(self, end_offset)

    def _cut_failed(self, error: OSError) -> KafkaStorageError:
        """Half a truncation is worse than a failed append: nothing may be written after it."""
        self.storage.take_offline(f"truncating {self.path}: {error}")
        return KafkaStorageError(f"truncating {self.path}: {error}")

    # Retention and compaction
    def remove_segments(self, segments: Sequence[Segment], reason: str) -> list[str]:
        """Take the oldest segments out; the log then starts where the rest does.

        Their files are renamed to .deleted, for the caller to remove later; returns those names.
        """
        if not segments:
            return []
        logger.info("%s: removing %d segments: %s", self.topic_partition, len(segments), reason)
        disk = self.storage.disk
        try:
            renamed = self._segments.remove(segments)
            for segment in segments:
                path = snapshots.snapshot_path(self.path, segment.base_offset)
                if disk.exists(path):
                    disk.rename(path, path + DELETED)
                    renamed.append(path + DELETED)
        except OSError as error:
            raise self.storage.write_failed(f"removing segments of {self.path}", error) from error
        finally:
            self.delete_records_before(self.segments[0].base_offset)
        return renamed

    def replace_segments(self, old: Sequence[Segment], new: Sequence[Segment]) -> list[str]:
        """Put compacted segments in the place of `old`, crash-safe; see segments.py.

        `new` were created as .cleaned, sealed and fsynced. ValueError, and nothing happens, unless `old`
        are sealed segments of this log, next to each other. Returns names to remove, as above.
        """
        try:
            end = max((segment.next_offset for segment in old), default=0)
            snapshots.remove_below(self.storage.disk, self.path, end)
            return self._segments.replace(old, new)
        except OSError as error:
            raise self.storage.write_failed(f"swapping segments of {self.path}", error) from error

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that were idle for longer than producer.id.expiration.ms."""
        self.producers.expire(now_ms, expiration_ms)

    # Closing
    def close(self, *, clean: bool) -> None:
        """Let go of all files. If `clean`, first write what a start without recovery needs; not fsynced."""
        if self.is_closed:
            return
        try:
            if clean:
                self._write_for_clean_start()
        except OSError as error:
            raise self.storage.write_failed(f"closing {self.path}", error) from error
        finally:
            self.is_closed = True
            self._segments.close()

    def _write_for_clean_start(self) -> None:
        for segment in self.segments:
            segment.write_indexes()
        if self.producers.snapshot_offset != self.log_end_offset:
            self._take_snapshot()
        if self._flush.epochs_written != self.epochs.version:
            self.storage.disk.write_file(f"{self.path}/{EPOCH_CHECKPOINT}", self.epochs.encode(), sync=False)
