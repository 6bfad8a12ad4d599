"""The end of a log: who waits for it to grow, and what of it is not committed yet."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.replication.purgatory import Watcher

MOST_KEPT = 1_000
"""Appends whose sizes are remembered one by one."""


class EndOfLog:
    """The end of a log, as followers watch it; consumers watch the high watermark, by the partition."""

    __slots__ = ("_grown_bytes", "watchers")

    def __init__(self) -> None:
        self.watchers: dict[Watcher, int | None] = {}
        self._grown_bytes = 0

    @property
    def last_stable_offset(self) -> int:
        """Return the end of everything: followers copy open transactions too."""
        return sys.maxsize

    def grown(self, size_bytes: int) -> None:
        """Tell those who watch, once for all that is appended in this turn of the loop."""
        if not self._grown_bytes:
            asyncio.get_running_loop().call_soon(self._tell)
        self._grown_bytes += size_bytes

    def _tell(self) -> None:
        size_bytes, self._grown_bytes = self._grown_bytes, 0
        for watcher in list(self.watchers):
            watcher.grown(size_bytes)


class Uncommitted:
    """How large the appends are that are not committed yet: consumers wait for bytes, not for offsets."""

    __slots__ = ("_appends",)

    def __init__(self) -> None:
        self._appends: deque[tuple[int, int]] = deque()  # end offset and size of each

    def add(self, end_offset: int, size_bytes: int) -> None:
        """Take note of an append; beyond MOST_KEPT they are counted together."""
        if len(self._appends) >= MOST_KEPT:
            size_bytes += self._appends.pop()[1]
        self._appends.append((end_offset, size_bytes))

    def commit(self, high_watermark: int) -> int:
        """Forget what is committed now, and return how many bytes that is."""
        size_bytes, appends = 0, self._appends
        while appends and appends[0][0] <= high_watermark:
            size_bytes += appends.popleft()[1]
        return size_bytes

    def clear(self) -> None:
        """Forget everything."""
        self._appends.clear()
