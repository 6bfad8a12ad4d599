"""What has to happen while the application asks for records, and at no other time.

Between two calls the application works on what it was given. Only when it comes back are those records
dealt with, so only then may partitions be taken away and their offsets be committed. A membership that
has to do so hands over a step and waits; the next call (or the one that is waiting for records) runs it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

Step = Callable[[], Coroutine[Any, Any, None]]


class Turns:
    """The steps that wait for the application."""

    def __init__(self, on_wait: Callable[[], None]) -> None:
        self._on_wait = on_wait
        self._waiting: deque[tuple[Step, asyncio.Future[None]]] = deque()
        self._running: asyncio.Task[None] | None = None

    @property
    def are_due(self) -> bool:
        """Whether a step waits, or is under way."""
        return bool(self._waiting) or self._running is not None

    async def take(self, step: Step) -> None:
        """Have a step run when the application asks for records; return when it is done, or has failed."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((step, done))
        self._on_wait()
        try:
            await done
        finally:
            if (step, done) in self._waiting:
                self._waiting.remove((step, done))

    async def run(self) -> None:
        """Run the steps that wait; raise what they raise. Called by whoever asks for records."""
        while self.are_due:
            if self._running is None:
                step, done = self._waiting.popleft()
                self._running = asyncio.create_task(step(), name="ottla rebalance")
                self._running.add_done_callback(lambda _, done=done: _finish(done))  # type: ignore[misc]
            task = self._running
            try:
                await asyncio.shield(task)  # who waits may give up; the step goes on, and the next one waits
            finally:
                if task.done() and self._running is task:
                    self._running = None

    async def close(self) -> None:
        """Give up what is under way."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
