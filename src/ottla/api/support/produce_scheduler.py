"""Run Produce requests in slices, and keep those of a connection in order.

The work of a request is a generator of steps. It appends batch after batch, and yields None to let the event
loop run other work, a function that has to run in a thread, or an awaitable that it has to wait for: the
result or exception is the value of the yield. Nearly all requests yield nothing and finish at once.

Later requests of a connection wait for its earlier ones: batches are appended in the order in which the
producer sent them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from inspect import isawaitable
from typing import Any, TypeVar

T = TypeVar("T")

Awaited = Callable[[], Any] | Awaitable[Any] | None
Steps = Generator[Awaited, Any, T]

THREADS = 2
_DONE: Any = object()


class ProduceScheduler:
    """Runs the steps of all requests, and tracks the unfinished ones."""

    def __init__(self) -> None:
        self._unfinished: dict[object, asyncio.Task[None]] = {}
        self._threads = ThreadPoolExecutor(THREADS, "ottla-produce")

    def run(self, owner: object, steps: Steps[None]) -> asyncio.Task[None] | None:
        """Run the steps of a request by `owner`; return None when they are done, else a task for the rest."""
        wanted = None
        before = self._unfinished.get(owner) if self._unfinished else None
        if before is None:
            wanted = next(steps, _DONE)
            if wanted is _DONE:
                return None
        task = asyncio.get_running_loop().create_task(self._run(steps, wanted, before))
        self._unfinished[owner] = task
        task.add_done_callback(lambda _: self._forget(owner, task))
        return task

    async def _run(self, steps: Steps[None], wanted: Awaited, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        loop = asyncio.get_running_loop()
        try:
            while True:
                outcome = None
                try:
                    if wanted is None:
                        await asyncio.sleep(0)
                    elif isawaitable(wanted):
                        outcome = await wanted
                    else:
                        outcome = await loop.run_in_executor(self._threads, wanted)
                except Exception as error:
                    wanted = steps.throw(error)
                else:
                    wanted = steps.send(outcome)
        except StopIteration:
            pass

    def _forget(self, owner: object, task: asyncio.Task[None]) -> None:
        if self._unfinished.get(owner) is task:
            del self._unfinished[owner]
