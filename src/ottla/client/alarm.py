"""One timer for many deadlines: it rings at the earliest, and whoever is rung at looks who is late.

It is not taken back when somebody waits no longer: most stop waiting long before their deadline, and an alarm
that rings for nobody costs less than one that is set and cancelled each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    """Calls `on_ring` at the earliest of the deadlines that it was told of; then it is to be told anew."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_ring: Callable[[], None]) -> None:
        self._loop = loop
        self._on_ring = on_ring
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    def ring_by(self, deadline: float) -> None:
        """Ring at a time of the loop's clock, or before."""
        if self._timer is None or deadline < self._rings_at:
            self.cancel()
            self._rings_at = deadline
            self._timer = self._loop.call_at(deadline, self._ring)

    def cancel(self) -> None:
        """Do not ring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._on_ring()
