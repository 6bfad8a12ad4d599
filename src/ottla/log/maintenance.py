"""The background tasks of a log directory: retention, compaction, flush.ms, checkpoints, expiry, file
removal.

    task          interval                                        what
    retention     log.retention.check.interval.ms                 segments that exceed a limit (retention.py)
    compaction    log.cleaner.backoff.ms; none while dirty        the log with the highest dirty ratio
    flush         1 s, or the shortest flush.ms                   logs that are unflushed for too long, and
                                                                  sealed segments
    checkpoints   log.flush.offset.checkpoint.interval.ms         recovery points, log starts, high watermarks
    producers     10 min                                          those idle for producer.id.expiration.ms
    files         1 s                                             `.deleted` files that are due
    deleted logs  1 min                                           their directories

A task that fails is logged and runs again after its interval. All of them share the event loop with clients:
long operations run in threads, and an iteration over thousands of logs yields to the loop every few dozen.
Nothing is written while the log directory is offline.

Files are removed file.delete.delay.ms after they left a log. Our readers keep descriptors and would not
notice; the delay is for people and tools that copy a directory, as in Kafka. Unlinking a large file takes
many milliseconds, so it runs in a thread. Files that are left at a stop are removed when their log is opened
next.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from ottla.common.clock import Clock
from ottla.common.yielding import LOGS_PER_SLICE, in_slices
from ottla.log.compaction.log_cleaner import CleanerSettings, LogCleaner
from ottla.log.directories.flusher import Flusher
from ottla.log.directories.log_directory import LogDirectory
from ottla.log.disk import Disk
from ottla.log.log import Log
from ottla.log.retention import apply_retention
from ottla.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

MAX_FILES_PER_CALL = 256
"""How many files one call removes at most."""


class FileRemover:
    """Files that wait to be removed."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._waiting: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def remove_later(self, paths: Iterable[str], delay_ms: int) -> None:
        """Remove these files after `delay_ms`."""
        due_ms = self._clock.mono_ms() + delay_ms
        for path in paths:
            heapq.heappush(self._waiting, (due_ms, path))

    async def remove_due(self) -> int:
        """Remove the files that are due, up to a limit; return how many were removed."""
        now_ms = self._clock.mono_ms()
        due: list[str] = []
        while self._waiting and self._waiting[0][0] <= now_ms and len(due) < MAX_FILES_PER_CALL:
            due.append(heapq.heappop(self._waiting)[1])
        if due:
            await asyncio.to_thread(self._remove, due)
        return len(due)

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            try:
                self._disk.remove(path)
            except OSError as error:
                logger.warning("cannot remove %s, will retry at the next start: %s", path, error)


_FIRST_RUN_MS = 30_000
_TICK_MS = 1000
_MIN_TICK_MS = 10
_EXPIRY_CHECK_MS = 600_000
_PURGE_MS = 60_000
_CONCURRENT_FLUSHES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceSettings:
    """The broker configs of the maintenance tasks."""

    retention_check_interval_ms: int = 300_000
    checkpoint_interval_ms: int = 60_000
    producer_expiration_ms: int = 86_400_000
    cleaner_enabled: bool = True
    cleaner_threads: int = 1
    cleaner_backoff_ms: int = 15_000
    cleaner: CleanerSettings = field(default_factory=CleanerSettings)


def last_stable_offset(log: Log, high_watermark: int) -> int:
    """Return where the first transaction without a committed marker starts; the high watermark if there is
    none.
    """
    first = log.producers.transactions.first_unstable_offset(high_watermark)
    return high_watermark if first is None else min(first, high_watermark)


class LogMaintenance:
    """Runs the tasks of one log directory; an `async with` service."""

    def __init__(
        self,
        directory: LogDirectory,
        flusher: Flusher,
        clock: Clock,
        settings: MaintenanceSettings | None = None,
        *,
        high_watermark: Callable[[Log], int] = lambda log: log.log_end_offset,
        is_replicated: Callable[[Log], bool] = lambda log: True,
    ) -> None:
        self.settings = settings or MaintenanceSettings()
        self.remover = FileRemover(directory.storage.disk, clock)
        self.cleaner = LogCleaner(
            directory.storage,
            directory.checkpoints,
            directory.logs.values,
            clock,
            stable_offset=lambda log: last_stable_offset(log, high_watermark(log)),
            is_replicated=is_replicated,
            remove_later=self.remover.remove_later,
            settings=self.settings.cleaner,
        )
        self._directory = directory
        self._flusher = flusher
        self._clock = clock
        self._high_watermark = high_watermark
        self._stopping = asyncio.Event()
        self._wake_cleaners = asyncio.Event()
        self._cleaners: set[int] = set()
        """The cleaner tasks that run, by number: those below `cleaner_threads`, and others until they end."""
        self._tasks: asyncio.TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> LogMaintenance:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def start(self) -> None:
        """Start all tasks."""
        self._task = asyncio.create_task(self._run(), name="log maintenance")

    async def stop(self) -> None:
        """Stop all tasks; a running compaction is cancelled, and what it swapped in stays."""
        self._stopping.set()
        self._wake_cleaners.set()
        self.cleaner.stop()
        if self._task is not None:
            await self._task

    def change_settings(self, settings: MaintenanceSettings) -> None:
        """Use other settings from now on: cleaners start, end and wake accordingly."""
        self.settings = settings
        self.cleaner.settings = settings.cleaner
        if self._stopping.is_set():
            return
        self._start_cleaners()
        woken, self._wake_cleaners = self._wake_cleaners, asyncio.Event()
        woken.set()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:

            def every(task: Callable[[], Awaitable[int | None]], interval: Callable[[], int]) -> None:
                tasks.create_task(self._repeat(task, interval), name=f"log maintenance {task.__name__}")

            every(self.delete_old_segments, lambda: self.settings.retention_check_interval_ms)
            every(self.flush, lambda: _TICK_MS)
            every(self.write_checkpoints, lambda: self.settings.checkpoint_interval_ms)
            every(self.expire_producers, lambda: _EXPIRY_CHECK_MS)
            every(self.remove_files, lambda: _TICK_MS)
            every(self.purge_deleted, lambda: _PURGE_MS)
            self._tasks = tasks
            self._start_cleaners()

    def _start_cleaners(self) -> None:
        """Start the cleaner tasks that are missing; those that are too many end by themselves."""
        if self._tasks is None or not self.settings.cleaner_enabled:
            return
        for number in range(self.settings.cleaner_threads):
            if number not in self._cleaners:
                self._cleaners.add(number)
                self._tasks.create_task(self._clean(number), name=f"log cleaner {number}")

    async def _clean(self, number: int) -> None:
        """Compact logs until the cleaner threads are reduced to `number` or fewer, or maintenance stops."""
        wait_ms = min(self.settings.cleaner_backoff_ms, _FIRST_RUN_MS)
        while True:
            await self._wait_for(self._wake_cleaners, wait_ms)
            if self._stopping.is_set() or number >= self.settings.cleaner_threads:
                break
            await self._run_once(self.compact)
            wait_ms = self.settings.cleaner_backoff_ms
        self._cleaners.discard(number)

    async def _repeat(self, task: Callable[[], Awaitable[int | None]], interval: Callable[[], int]) -> None:
        """Run `task` repeatedly; it may return the time until its next run."""
        wait_ms = min(interval(), _FIRST_RUN_MS)
        while not await self._wait_for(self._stopping, wait_ms):
            wait_ms = interval()
            wait_ms = await self._run_once(task) or wait_ms

    async def _run_once(self, task: Callable[[], Awaitable[int | None]]) -> int | None:
        """Run `task` once, unless the directory is offline; log a failure."""
        if self._directory.storage.offline_reason is not None:
            return None
        try:
            return await task()
        except (KafkaError, OSError) as error:
            logger.error("%s failed: %s", task.__name__, error)
        except Exception:
            logger.exception("%s failed", task.__name__)
        return None

    async def _wait_for(self, event: asyncio.Event, wait_ms: int) -> bool:
        """Wait for `event`, `wait_ms` at most; return whether it came."""
        try:
            await asyncio.wait_for(event.wait(), max(wait_ms, 0) / 1000)
            return True
        except TimeoutError:
            return False

    # Tasks
    async def delete_old_segments(self) -> None:
        """Delete the segments that exceed a retention limit, except in logs that are being compacted."""
        async for log in in_slices(list(self._directory.logs.values()), LOGS_PER_SLICE):
            if log.topic_partition in self.cleaner.in_progress:
                continue
            await self._retain(log)

    async def _retain(self, log: Log) -> None:
        while not log.is_closed:
            try:
                renamed = apply_retention(log, self._high_watermark(log), self._clock.wall_ms())
            except (KafkaError, OSError) as error:
                logger.error("retention of %s failed: %s", log.topic_partition, error)
                return
            if not renamed:
                return
            self.remover.remove_later(renamed, log.config.file_delete_delay_ms)
            await asyncio.sleep(0)

    async def compact(self) -> None:
        """Compact logs until none is due."""
        while await self.cleaner.clean_dirtiest():
            pass

    async def flush(self) -> int:
        """Flush the logs that are due; return the time until the next check, as flush.ms may be shorter than
        a tick.
        """
        now_ms = self._clock.wall_ms()
        shortest_ms = _TICK_MS
        due: list[Log] = []
        async for log in in_slices(list(self._directory.logs.values()), LOGS_PER_SLICE):
            shortest_ms = min(shortest_ms, log.config.flush_ms)
            if not log.is_closed and log.needs_flush(now_ms):
                due.append(log)
        for start in range(0, len(due), _CONCURRENT_FLUSHES):
            some = due[start : start + _CONCURRENT_FLUSHES]
            flushes = (self._flusher.flush_up_to(log, log.log_end_offset) for log in some)
            for log, result in zip(some, await asyncio.gather(*flushes, return_exceptions=True), strict=True):
                if isinstance(result, Exception) and not log.is_closed:
                    logger.error("flushing %s failed: %s", log.topic_partition, result)
        return max(shortest_ms, _MIN_TICK_MS)

    async def write_checkpoints(self) -> None:
        """Write recovery points, log starts and high watermarks."""
        high_watermarks = {
            partition: self._high_watermark(log) for partition, log in self._directory.logs.items()
        }
        await asyncio.to_thread(self._directory.capture_checkpoints(high_watermarks))

    async def expire_producers(self) -> None:
        """Drop producers that have been idle for too long."""
        now_ms = self._clock.wall_ms()
        async for log in in_slices(list(self._directory.logs.values()), LOGS_PER_SLICE):
            log.expire_producers(now_ms, self.settings.producer_expiration_ms)

    async def remove_files(self) -> None:
        """Remove the files of deleted segments."""
        while await self.remover.remove_due():
            pass

    async def purge_deleted(self) -> None:
        """Remove the directories of deleted logs."""
        await asyncio.to_thread(self._directory.purge_deleted)
