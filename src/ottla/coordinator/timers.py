"""Timers of a state machine, many and mostly pushed back before they run out.

Pushing a timer back costs a dictionary entry: the loop's own timer stays where it was, looks at the
deadline when it fires, and sleeps on if that has moved.

A timer that fires late says that the loop was held up, or the process paused; signs of life may be
lying in the sockets. So it looks again a moment later, when those have been read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.coordinator.effects import TimerKey

LATE_S = 0.2
PATIENCE_S = 0.5


class _Entry:
    __slots__ = ("deadline", "handle", "is_patient")

    def __init__(self, deadline: float, handle: asyncio.TimerHandle) -> None:
        self.deadline = deadline
        self.handle = handle
        self.is_patient = False


class Timers:
    """Calls `fire(key)` when the timer `key` has run out."""

    def __init__(self, fire: Callable[[TimerKey], None]) -> None:
        self._fire = fire
        self._loop = asyncio.get_running_loop()
        self._entries: dict[TimerKey, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def set(self, key: TimerKey, after_ms: int) -> None:
        """Let the timer run out in `after_ms`, whatever it was set to before."""
        deadline = self._loop.time() + after_ms / 1000
        entry = self._entries.get(key)
        if entry is None:
            self._entries[key] = _Entry(deadline, self._loop.call_at(deadline, self._look, key))
            return
        entry.deadline = deadline
        entry.is_patient = False
        if deadline < entry.handle.when():
            entry.handle.cancel()
            entry.handle = self._loop.call_at(deadline, self._look, key)

    def cancel(self, key: TimerKey) -> None:
        """Let the timer never run out."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            entry.handle.cancel()

    def clear(self) -> None:
        """Cancel all of them."""
        for entry in self._entries.values():
            entry.handle.cancel()
        self._entries.clear()

    def _look(self, key: TimerKey) -> None:
        entry = self._entries[key]
        now = self._loop.time()
        if entry.deadline > now:
            entry.handle = self._loop.call_at(entry.deadline, self._look, key)
        elif now - entry.deadline > LATE_S and not entry.is_patient:
            entry.is_patient = True
            entry.handle = self._loop.call_at(now + PATIENCE_S, self._look, key)
        else:
            del self._entries[key]
            self._fire(key)
