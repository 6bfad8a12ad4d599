"""Removes files some time after they were taken out of a log (file.delete.delay.ms).

Readers of ours keep descriptors, not names, and would not notice; the delay is for people and tools that
copy a directory, and Kafka has it. Unlinking a large file takes a file system many milliseconds, so
it happens in a thread. Files that are still waiting at the stop are removed when their log is opened next.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Iterable

from ottla.common.clock import Clock
from ottla.log.disk import Disk

logger = logging.getLogger(__name__)

BATCH = 256
"""How many files one call removes at most."""


class FileRemover:
    """Files that wait for their removal."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._waiting: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def remove_later(self, paths: Iterable[str], delay_ms: int) -> None:
        """Remove these files once `delay_ms` have passed."""
        due_ms = self._clock.mono_ms() + delay_ms
        for path in paths:
            heapq.heappush(self._waiting, (due_ms, path))

    async def remove_due(self) -> int:
        """Remove what is due, a bounded number at a time; return how many files that were."""
        now_ms = self._clock.mono_ms()
        due: list[str] = []
        while self._waiting and self._waiting[0][0] <= now_ms and len(due) < BATCH:
            due.append(heapq.heappop(self._waiting)[1])
        if due:
            await asyncio.to_thread(self._remove, due)
        return len(due)

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            try:
                self._disk.remove(path)
            except OSError as error:
                logger.warning("cannot remove %s; it is tried again at the next start: %s", path, error)
