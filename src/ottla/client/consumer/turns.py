"""What has to happen while the application asks for records, and at no other time.

Between two calls the application works on what it was given. Only when it comes back are those records
dealt with, so only then may partitions be taken away and their offsets be committed. A membership that
has to do so hands over a step and waits; the next call (or the one that is waiting for records) runs it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

from ottla.client.consumer.mistakes import WrongUse
from ottla.client.errors import ClientClosed

Step = Callable[[], Coroutine[Any, Any, None]]

_calling: ContextVar[asyncio.Task[Any] | None] = ContextVar("calling", default=None)
"""The step on whose behalf something is called: a listener, in whichever thread, and what it calls."""


class Turns:
    """The steps that wait for the application."""

    def __init__(self, on_wait: Callable[[], None]) -> None:
        self._on_wait = on_wait
        self._waiting: deque[tuple[Step, asyncio.Future[None]]] = deque()
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False

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

    @property
    def are_inside(self) -> bool:
        """Whether the caller is a listener that the step under way has called."""
        return self._running is not None and _calling.get() is self._running

    async def run(self, deadline: float | None = None) -> bool:
        """Run the steps that wait; raise what they raise. Called by whoever asks for records.

        Return whether all are done by the deadline. One that is under way goes on, and the next call waits.
        """
        if self.are_inside:
            raise WrongUse("a rebalance listener cannot ask for records: the call that does waits for it")
        loop = asyncio.get_running_loop()
        while self.are_due:
            if self._running is None:
                step, done = self._waiting.popleft()
                self._running = loop.create_task(_call(step), name="ottla rebalance")
                self._running.add_done_callback(lambda _, done=done: _finish(done))  # type: ignore[misc]
            task = self._running
            left_s = None if deadline is None else max(deadline - loop.time(), 0)
            await asyncio.wait([task], timeout=left_s)
            if not task.done():
                return False
            if self._running is task:
                self._running = None
            if task.cancelled() and self._is_closed:
                raise ClientClosed("the consumer is closed")
            task.result()
        return True

    async def close(self) -> None:
        """Give up what is under way."""
        self._is_closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None


async def _call(step: Step) -> None:
    _calling.set(asyncio.current_task())
    await step()


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
