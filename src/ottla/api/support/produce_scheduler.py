"""Produce requests that take more than one turn of the loop.

The work of a request is a generator of steps. It appends batch after batch, and yields where its turn is
over (None), where something has to be done in a thread (a function), or where it has to wait (an awaitable):
what that returns or raises comes back from the yield. Nearly all requests yield nothing and are done at once.

Later requests of a connection wait for its earlier ones: what a producer sends is appended in the order in
which it was sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from inspect import isawaitable
from typing import Any, TypeVar

T = TypeVar("T")

Wanted = Callable[[], Any] | Awaitable[Any] | None
Steps = Generator[Wanted, Any, T]

THREADS = 2
NAP_S = 0.0002
_DONE: Any = object()


def nap() -> None:
    """Let the loop have its turn: Python threads take turns of five milliseconds, of their own accord."""
    time.sleep(NAP_S)


class ProduceScheduler:
    """Runs the steps of all requests, and knows those that are not done yet."""

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

    async def _run(self, steps: Steps[None], wanted: Wanted, before: asyncio.Task[None] | None) -> None:
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
