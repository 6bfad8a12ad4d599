"""Taking records in the caller's own thread: the synchronous consumer, when nothing else is to be done.

What was fetched is plain memory behind a lock, so a thread may take from it, and wait for more, without
troubling the loop: that would cost two switches of threads for every call. As soon as a call has more to do
than to hand out records (an error is to be raised, a commit is due, partitions come or go), it is left to
the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ottla.wire.in_flight import DeadlineTimer

# Wakes the calls that wait for records: an event with a deadline, and little more than one future.

RESOLUTION_S = 0.001


class WakeupEvent:
    """Is set when there may be something to hand out; who waits takes it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_set = False
        self._waiting: dict[asyncio.Future[bool], float | None] = {}
        """Those who wait, each with its deadline."""
        self._alarm = DeadlineTimer(loop, self._send_away)

    def set(self) -> None:
        """Wake those who wait, or whoever waits next."""
        self._is_set = True
        for each in self._waiting:
            if not each.done():
                each.set_result(True)

    async def wait(self, deadline: float | None) -> bool:
        """Wait until it is set, and take that; return False if the deadline (of the loop's clock) passes."""
        if not self._is_set:
            waiting: asyncio.Future[bool] = self._loop.create_future()
            self._waiting[waiting] = deadline
            if deadline is not None:
                self._alarm.set(deadline)
            try:
                if not await waiting:
                    return False
            finally:
                del self._waiting[waiting]
        self._is_set = False
        return True

    def close(self) -> None:
        """Take the alarm back."""
        self._alarm.cancel()

    def _send_away(self) -> None:
        """Send those away whose time is over; look again when the next one's is."""
        now = self._loop.time()
        to_come: list[float] = []
        for waiting, deadline in self._waiting.items():
            if deadline is None or waiting.done():
                continue
            if deadline - now < RESOLUTION_S:  # the alarm may come a little early
                waiting.set_result(False)
            else:
                to_come.append(deadline)
        if to_come:
            self._alarm.set(min(to_come))


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
        """Forget a lock; nothing happens if it was released."""
        self._locks.discard(lock)

    def wake(self) -> None:
        """Release all locks, each once; from the loop."""
        while self._locks:
            try:
                self._locks.pop().release()
            except KeyError:  # its thread has just given up
                return


def take_here(
    core: ConsumerCore, take: Callable[[], T], timeout_s: float | None
) -> tuple[T | None, float | None]:
    """Take what is there, or comes in time, in this thread.

    Return what was found (nothing, when the time is over), and how much time is left; None if the loop has
    to be asked, because there is more to do, or because nobody wants to wait: who asks in a tight loop must
    let it have its turn.
    """
    ends_at_ms = None if timeout_s is None else core.clock.mono_ms() + timeout_s * 1000
    left_s = timeout_s
    while core.group is None and not core.collector.is_held:
        lock = core.waiting_threads.add()  # first: what comes while we look is not missed
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
