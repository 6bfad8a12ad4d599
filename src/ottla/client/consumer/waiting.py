"""How calls wait for records: on the event loop, or in the caller's thread.

On the loop they wait for a `WakeupEvent`. In the synchronous consumer a thread takes records itself
(`take_here`): fetched records are plain memory behind a lock, and a round trip through the loop would cost
two thread switches per call. As soon as a call has more to do than to return records (raise an error,
commit, rebalance), it goes through the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from ottla.wire.in_flight import DeadlineTimer

RESOLUTION_S = 0.001


class WakeupEvent:
    """An event with a deadline, set when there may be records; `wait` clears it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_set = False
        self._waiting: dict[asyncio.Future[bool], float | None] = {}
        """The waiting calls, each with its deadline."""
        self._timer = DeadlineTimer(loop, self._expire)

    def set(self) -> None:
        """Wake the waiting calls, or the next one that waits."""
        self._is_set = True
        for each in self._waiting:
            if not each.done():
                each.set_result(True)

    async def wait(self, deadline: float | None) -> bool:
        """Wait until it is set, and clear it; return False if the deadline (of the loop's clock) passes."""
        if not self._is_set:
            waiting: asyncio.Future[bool] = self._loop.create_future()
            self._waiting[waiting] = deadline
            if deadline is not None:
                self._timer.set(deadline)
            try:
                if not await waiting:
                    return False
            finally:
                del self._waiting[waiting]
        self._is_set = False
        return True

    def close(self) -> None:
        """Cancel the timer."""
        self._timer.cancel()

    def _expire(self) -> None:
        """End the calls whose deadline has passed; set the timer for the next one."""
        now = self._loop.time()
        pending = [
            (deadline, waiting)
            for waiting, deadline in self._waiting.items()
            if deadline is not None and not waiting.done()
        ]
        for deadline, waiting in sorted(pending, key=lambda each: each[0]):
            if deadline - now >= RESOLUTION_S:  # below that: the timer may fire a little early
                self._timer.set(deadline)
                return
            waiting.set_result(False)


if TYPE_CHECKING:
    from ottla.client.consumer.core import ConsumerCore

T = TypeVar("T")


class WaitingThreads:
    """The threads that wait for records, each with a lock that is released when there may be some."""

    def __init__(self) -> None:
        self._locks: set[threading.Lock] = set()

    def add(self) -> threading.Lock:
        """Return a lock that is taken until the next `wake`."""
        lock = threading.Lock()
        lock.acquire()
        self._locks.add(lock)
        return lock

    def remove(self, lock: threading.Lock) -> None:
        """Remove a lock, released or not."""
        self._locks.discard(lock)

    def wake(self) -> None:
        """Release all locks, each once; from the loop."""
        while self._locks:
            try:
                self._locks.pop().release()
            except KeyError:  # its thread has just removed it
                return


def take_here(
    core: ConsumerCore, take: Callable[[], T], timeout_s: float | None
) -> tuple[T | None, float | None]:
    """Take records in this thread; wait for some until the timeout.

    Return the result (empty at the timeout) and the time that is left; None as the result if the call must
    go through the loop: there is more to do, or the timeout is 0 (a tight loop of calls must let it run).
    """
    ends_at_ms = None if timeout_s is None else core.clock.mono_ms() + timeout_s * 1000
    left_s = timeout_s
    while core.group is None and not core.collector.is_held:
        lock = core.waiting_threads.add()  # first, so that records that come meanwhile wake this thread
        try:
            found = take()
            if found or left_s == 0:
                return found or None, left_s
            is_woken = lock.acquire(timeout=-1 if left_s is None else left_s)
        finally:
            core.waiting_threads.remove(lock)
        if not is_woken:
            return found, 0.0
        left_s = None if ends_at_ms is None else max(ends_at_ms - core.clock.mono_ms(), 0.0) / 1000
    return None, left_s


async def wait_for(event: asyncio.Event, timeout_s: float | None) -> None:
    """Wait until an event is set or the timeout has passed (None: no timeout)."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
