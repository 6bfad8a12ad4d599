"""Time, injected: wall time for timestamps and retention, monotonic time for deadlines."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What code that needs the time is given."""

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch; may jump."""
        ...

    def mono_ms(self) -> int:
        """Return milliseconds that only ever grow; for deadlines."""
        ...


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def mono_ms(self) -> int:
        """Return milliseconds since some point in the past."""
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until a test sets it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        """Return the time it was set to."""
        return self.now_ms

    def mono_ms(self) -> int:
        """Return the time it was set to."""
        return self.now_ms

    def advance(self, by_ms: int) -> None:
        """Let time pass."""
        self.now_ms += by_ms
