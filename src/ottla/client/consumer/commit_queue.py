"""Commits in the background: one after the other, in the order in which they were asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ottla.client.consumer.commits import Commits, Offsets
from ottla.client.errors import ClientError
from ottla.protocol.errors import KafkaError

log = logging.getLogger(__name__)

CommitCallback = Callable[[Offsets, Exception | None], None]


class CommitQueue:
    """The commits that nobody waits for, and a clock that says when it is time for one."""

    def __init__(self, commits: Commits, interval_ms: int, on_due: Callable[[], None]) -> None:
        self._commits = commits
        self._interval_s = interval_ms / 1000
        self._on_due = on_due
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._last: asyncio.Task[None] | None = None
        self._posted: set[asyncio.Task[None]] = set()

    def post(self, offsets: Offsets, on_done: CommitCallback | None = None) -> asyncio.Task[None]:
        """Commit after what was posted before; `on_done` gets the offsets and the error."""
        task = self._loop.create_task(self._commit(offsets, on_done, self._last), name="ottla commit")
        self._last = task
        self._posted.add(task)
        task.add_done_callback(self._posted.discard)
        return task

    def is_due(self) -> bool:
        """Return whether it is time to commit again, and begin to wait for the next time."""
        if self._timer is not None:
            return False
        self.start_clock()
        return not self._posted

    def start_clock(self) -> None:
        """Say, after the interval, that it is time to commit."""
        self._timer = self._loop.call_later(self._interval_s, self._ring)

    async def finish(self, timeout_s: float) -> None:
        """Wait for what was posted."""
        if self._posted:
            await asyncio.wait(self._posted, timeout=timeout_s)

    async def close(self) -> None:
        """Give up what was posted."""
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._posted)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ring(self) -> None:
        self._timer = None
        self._on_due()

    async def _commit(
        self, offsets: Offsets, on_done: CommitCallback | None, before: asyncio.Task[None] | None
    ) -> None:
        if before is not None and not before.done():
            await asyncio.wait([before])
        error: Exception | None = None
        try:
            await self._commits.commit(offsets)
        except (KafkaError, ClientError) as failure:
            error = failure
            log.warning("offsets were not committed: %s", error)
        if on_done is not None:
            try:
                on_done(offsets, error)
            except Exception:
                log.exception("a callback of a commit failed")
