"""Limit what all connections together may hold, and queue the ones that must wait.

A budget is granted while anything is left of it, so it is exceeded by at most one grant: the largest frame
always fits in the end. Connections that find it exhausted wait in FIFO order; new ones do not overtake.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from threading import get_ident

Waiter = Callable[[], None]


class Budget:
    """A limit on an amount in use, with a FIFO queue of waiters; a negative limit means no limit.

    Belongs to the running event loop.
    """

    __slots__ = ("_admitting", "_loop", "_thread", "_waiters", "is_full", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit if limit >= 0 else sys.maxsize
        self.used = 0
        self.is_full = False  # for callers that are not next in the queue
        self._waiters: dict[Waiter, None] = {}
        self._admitting = False
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()

    @property
    def waiting(self) -> int:
        """Return the number of waiters."""
        return len(self._waiters)

    @property
    def is_scarce(self) -> bool:
        """Return whether more than a quarter is in use, so that slow senders should not get any."""
        return self.used * 4 > self.limit

    def take(self, amount: int) -> None:
        """Use `amount`; check `is_full` first."""
        self.used += amount
        if self.used >= self.limit:
            self.is_full = True

    def release(self, amount: int) -> None:
        """Return what was taken. Thread-safe: a frame is freed in the thread that drops its last view."""
        if get_ident() != self._thread:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self.release, amount)
            return
        self.used -= amount
        if self.is_full and self.used < self.limit and not self._admitting:
            if self._waiters:
                # Later: this may be running inside a destructor, anywhere.
                self._admitting = True
                self._loop.call_soon(self._admit)
            else:
                self.is_full = False

    def wait(self, waiter: Waiter) -> None:
        """Call `waiter` when it may take; a waiter that is already queued keeps its place."""
        self._waiters[waiter] = None

    def cancel_wait(self, waiter: Waiter) -> None:
        """Remove `waiter` from the queue."""
        if waiter in self._waiters:
            del self._waiters[waiter]
            self._update()

    def change_limit(self, limit: int) -> None:
        """Set another limit, which takes effect with the next grant."""
        self.limit = limit if limit >= 0 else sys.maxsize
        self._update()

    def _admit(self) -> None:
        try:
            while self._waiters and self.used < self.limit:
                waiter = next(iter(self._waiters))
                del self._waiters[waiter]
                self.is_full = False
                waiter()
        finally:
            self._admitting = False
            self._update()

    def _update(self) -> None:
        if self._waiters and self.used < self.limit and not self._admitting:
            self._admitting = True
            self._loop.call_soon(self._admit)
        self.is_full = bool(self._waiters) or self.used >= self.limit


class LargeFrame(bytearray):
    """The memory of one frame, charged to a budget until the last view of it is gone."""

    __slots__ = ("_budget", "_charged")

    def __init__(self, budget: Budget, size: int) -> None:
        self._budget = budget
        self._charged = 0
        super().__init__(size)
        self._charged = size
        budget.take(size)

    def __del__(self) -> None:
        self._budget.release(self._charged)
