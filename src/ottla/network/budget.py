"""What all connections together may hold, and the line that forms when it is used up.

A budget is granted as long as anything of it is left, so it is overdrawn by at most one grant:
the largest frame always fits in the end. Whoever finds it full waits in line, first come first
served; newcomers do not overtake.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from threading import get_ident

Waiter = Callable[[], None]


class Budget:
    """A limit on an amount held, and the line before it; a negative limit is none. For the running loop."""

    __slots__ = ("_admitting", "_loop", "_thread", "_waiters", "held", "is_full", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit if limit >= 0 else sys.maxsize
        self.held = 0
        self.is_full = False  # for whoever is not next in line
        self._waiters: dict[Waiter, None] = {}
        self._admitting = False
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()

    @property
    def waiting(self) -> int:
        """How many wait in line."""
        return len(self._waiters)

    @property
    def is_used(self) -> bool:
        """Whether a good part is held, so that it should go to those who mean it."""
        return self.held * 4 > self.limit

    def take(self, amount: int) -> None:
        """Hold `amount`; ask `is_full` first."""
        self.held += amount
        if self.held >= self.limit:
            self.is_full = True

    def release(self, amount: int) -> None:
        """Give back what was taken. Safe from any thread: a frame dies where its last view does."""
        if get_ident() != self._thread:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self.release, amount)
            return
        self.held -= amount
        if self.is_full and self.held < self.limit and not self._admitting:
            if self._waiters:
                # Not now: this may be running inside a destructor, anywhere.
                self._admitting = True
                self._loop.call_soon(self._admit)
            else:
                self.is_full = False

    def wait(self, waiter: Waiter) -> None:
        """Call `waiter` when it is its turn to take; asking again keeps its place in line."""
        self._waiters[waiter] = None

    def forget(self, waiter: Waiter) -> None:
        """Drop `waiter` from the line."""
        if waiter in self._waiters:
            del self._waiters[waiter]
            self._settle()

    def change_limit(self, limit: int) -> None:
        """Set another limit; takes effect with the next grant."""
        self.limit = limit if limit >= 0 else sys.maxsize
        self._settle()

    def _admit(self) -> None:
        try:
            while self._waiters and self.held < self.limit:
                waiter = next(iter(self._waiters))
                del self._waiters[waiter]
                self.is_full = False
                waiter()
        finally:
            self._admitting = False
            self._settle()

    def _settle(self) -> None:
        if self._waiters and self.held < self.limit and not self._admitting:
            self._admitting = True
            self._loop.call_soon(self._admit)
        self.is_full = bool(self._waiters) or self.held >= self.limit


class LargeFrame(bytearray):
    """A frame's memory, charged to a budget until the last view of it is gone."""

    __slots__ = ("_budget", "_charged")

    def __init__(self, budget: Budget, size: int) -> None:
        self._budget = budget
        self._charged = 0
        super().__init__(size)
        self._charged = size
        budget.take(size)

    def __del__(self) -> None:
        self._budget.release(self._charged)
