"""The clocks of a simulated host: monotonic time is the loop's, wall time may be wrong."""

from __future__ import annotations

from ottla.testing.sim_loop import SimLoop

EPOCH_MS = 1_760_000_000_000
"""When every simulation begins."""


class SimClock:
    """A host's clocks; `skew_ms` is how far its wall clock is off, and may be changed at any time."""

    def __init__(self, loop: SimLoop, skew_ms: int = 0) -> None:
        self.skew_ms = skew_ms
        self._loop = loop

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch, as this host believes."""
        return EPOCH_MS + int(self._loop.now * 1000) + self.skew_ms

    def mono_ms(self) -> int:
        """Return milliseconds since the start of the simulation."""
        return int(self._loop.now * 1000)
