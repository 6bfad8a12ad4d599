"""Taking records in the caller's own thread: the synchronous consumer, when nothing else is to be done.

What was fetched is plain memory behind a lock, so a thread may take from it, and wait for more, without
troubling the loop: that would cost two switches of threads for every call. As soon as a call has more to do
than to hand out records (an error is to be raised, a commit is due, partitions come or go), it is left to
the loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

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
