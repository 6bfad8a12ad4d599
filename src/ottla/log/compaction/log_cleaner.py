"""Select the log with the highest dirty ratio and compact it: the part of compaction that runs on the loop.

Copying runs in a thread, and Python threads share the interpreter lock. `Throttle` makes the copying thread
sleep briefly every millisecond, so that the loop never waits longer than that, and limits it to
log.cleaner.io.max.bytes.per.second.

A damaged log is not tried again until the broker restarts; the error is logged once and kept in
`uncleanable`. A full disk, or a log that changed during the copy, only ends the job.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Event
from uuid import UUID

from ottla.common.clock import Clock
from ottla.common.ids import TopicPartition
from ottla.common.yielding import LOGS_PER_SLICE, in_slices
from ottla.log.compaction.job import CannotCompact, CompactionJob, LogChanged
from ottla.log.compaction.offset_map import DEFAULT_LOAD_FACTOR
from ottla.log.compaction.policy import CleanableStats, compute_cleanable_stats
from ottla.log.directories.directory_checkpoints import DirectoryCheckpoints
from ottla.log.log import Log
from ottla.log.storage import Storage
from ottla.protocol.errors import KafkaError, KafkaStorageError

logger = logging.getLogger(__name__)

_YIELD_S = 0.0002
_MAX_PAUSE_S = 1.0
"""How soon a change of log.cleaner.io.max.bytes.per.second is noticed by a cleaner that waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The log.cleaner.* configs that a job needs."""

    dedupe_buffer_bytes: int = 128 << 20
    """Per thread."""
    load_factor: float = DEFAULT_LOAD_FACTOR
    max_bytes_per_second: float = float("inf")


class CleaningStopped(Exception):
    """The broker is stopping."""


class Throttle:
    """Limits the copying thread, which calls it after every batch."""

    def __init__(self, clock: Clock, stopping: Event, max_bytes_per_second: Callable[[], float]) -> None:
        self._clock = clock
        self._stopping = stopping
        self._max_bytes_per_second = max_bytes_per_second
        self._rate = max_bytes_per_second()
        self._started_ms = self._last_ms = clock.mono_ms()
        self._bytes = 0

    def __call__(self, size: int) -> None:
        """Sleep if it is time to; raise CleaningStopped if the broker is stopping."""
        self._bytes += size
        now_ms = self._clock.mono_ms()
        if now_ms == self._last_ms:
            return
        ahead_s = self._ahead_s()
        while ahead_s > _MAX_PAUSE_S:
            self._pause(_MAX_PAUSE_S)
            ahead_s = self._ahead_s()
        self._pause(max(_YIELD_S, ahead_s))
        self._last_ms = self._clock.mono_ms()

    def _ahead_s(self) -> float:
        """Return how long to pause to keep to the rate, which may have changed since the last call."""
        rate, now_ms = self._max_bytes_per_second(), self._clock.mono_ms()
        if rate != self._rate:
            self._rate, self._started_ms, self._bytes = rate, now_ms, 0
        return self._bytes / rate - (now_ms - self._started_ms) / 1000

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise CleaningStopped


class LogCleaner:
    """Compacts the logs of one log directory."""

    def __init__(
        self,
        storage: Storage,
        checkpoints: DirectoryCheckpoints,
        logs: Callable[[], Iterable[Log]],
        clock: Clock,
        *,
        stable_offset: Callable[[Log], int],
        is_replicated: Callable[[Log], bool],
        remove_later: Callable[[Iterable[str], int], None],
        settings: CleanerSettings | None = None,
    ) -> None:
        self.settings = settings or CleanerSettings()
        self.uncleanable: dict[tuple[TopicPartition, UUID | None], str] = {}
        self.in_progress: set[TopicPartition] = set()
        self._storage = storage
        self._logs = logs
        self._clock = clock
        self._stable_offset = stable_offset
        self._is_replicated = is_replicated
        self._remove_later = remove_later
        self._stopping = Event()
        self._checkpoints = checkpoints

    def stop(self) -> None:
        """Cancel the running jobs."""
        self._stopping.set()

    def cleanable_stats(self, log: Log) -> CleanableStats:
        """Return how much of `log` is dirty."""
        return compute_cleanable_stats(
            log.sealed,
            log.config,
            active_base_offset=log.active.base_offset,
            log_start_offset=log.log_start_offset,
            cleaned_to=self._checkpoints.cleaned_to.get(log.topic_partition),
            # A record must not be dropped before the one that supersedes it is durable.
            stable_offset=min(self._stable_offset(log), log.recovery_point),
            now_ms=self._clock.wall_ms(),
        )

    async def clean_dirtiest(self) -> bool:
        """Compact the log with the highest dirty ratio; False if none is due or the broker is stopping."""
        found = await self._find_dirtiest()
        if found is None or self._stopping.is_set():
            return False
        log, stats = found
        self.in_progress.add(log.topic_partition)
        try:
            return await self._try_clean(log, stats)
        finally:
            self.in_progress.discard(log.topic_partition)

    async def _find_dirtiest(self) -> tuple[Log, CleanableStats] | None:
        best: tuple[Log, CleanableStats] | None = None
        async for log in in_slices(list(self._logs()), LOGS_PER_SLICE):
            if not log.config.is_compacted or log.topic_partition in self.in_progress:
                continue
            if (log.topic_partition, log.topic_id) in self.uncleanable:
                continue
            try:
                stats = self.cleanable_stats(log)
            except (KafkaError, OSError) as error:
                self._mark_uncleanable(log, error)
                continue
            worth = stats.is_worth_cleaning(log.config.min_cleanable_dirty_ratio)
            if worth and (best is None or stats.ratio > best[1].ratio):
                best = log, stats
        return best

    async def _try_clean(self, log: Log, stats: CleanableStats) -> bool:
        """Compact `log`; False if that failed for a transient reason."""
        try:
            await self._clean(log, stats)
            return True
        except CleaningStopped:
            return False
        except (LogChanged, FileNotFoundError) as change:
            logger.info("%s changed while it was being compacted, retrying: %s", log.topic_partition, change)
            return False
        except KafkaStorageError:
            return False
        except OSError as error:
            if not log.is_closed:
                self._storage.write_failed(f"compacting {log.topic_partition}", error)
            return False
        except (KafkaError, CannotCompact) as error:
            self._mark_uncleanable(log, error)
            return True

    async def _clean(self, log: Log, stats: CleanableStats) -> None:
        settings = self.settings
        started_ms = self._clock.mono_ms()
        job = CompactionJob(
            log,
            stats,
            producers=dict(log.producers.producers),
            now_ms=self._clock.wall_ms(),
            keep_deletes=not self._is_replicated(log),
            map_bytes=settings.dedupe_buffer_bytes,
            load_factor=settings.load_factor,
            throttle=Throttle(self._clock, self._stopping, lambda: self.settings.max_bytes_per_second),
        )
        await asyncio.to_thread(job.prepare)
        for group in list(job.groups()):
            cleaned = await asyncio.to_thread(job.copy, group)
            if cleaned is not None:
                self._remove_later(job.swap_in(group, cleaned), log.config.file_delete_delay_ms)
        job.check_unchanged()
        self._checkpoints.cleaned_to[log.topic_partition] = job.end_offset
        await asyncio.to_thread(self._checkpoints.capture_cleaned_to())
        logger.info(
            "compacted %s up to offset %d: %d bytes in, %d out, %d keys, %d ms%s",
            log.topic_partition, job.end_offset, job.stats.bytes_read, job.stats.bytes_written,
            job.keys, self._clock.mono_ms() - started_ms,
            f"; {job.stats.undecodable_batches} batches cannot be decoded and were kept"
            if job.stats.undecodable_batches else "",
        )  # fmt: skip

    def _mark_uncleanable(self, log: Log, error: Exception) -> None:
        self.uncleanable[log.topic_partition, log.topic_id] = str(error)
        logger.error(
            "cannot compact %s, it will grow until it is repaired and the broker is restarted: %s",
            log.topic_partition, error,
        )  # fmt: skip
