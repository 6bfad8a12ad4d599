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
    __slots__ = ("deadline", "handle", "is_patient", "wakes_at")

    handle: asyncio.TimerHandle

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.wakes_at = deadline
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
            entry = self._entries[key] = _Entry(deadline)
            self._sleep(key, entry, deadline)
            return
        entry.deadline = deadline
        entry.is_patient = False
        if deadline < entry.wakes_at:
            entry.handle.cancel()
            self._sleep(key, entry, deadline)

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
            self._sleep(key, entry, entry.deadline)
        elif now - entry.deadline > LATE_S and not entry.is_patient:
            entry.is_patient = True
            self._sleep(key, entry, now + PATIENCE_S)
        else:
            del self._entries[key]
            self._fire(key)

    def _sleep(self, key: TimerKey, entry: _Entry, until: float) -> None:
        # The time is kept here: what uvloop returns for a timer that is due at once cannot tell it.
        entry.wakes_at = until
        entry.handle = self._loop.call_at(until, self._look, key)
