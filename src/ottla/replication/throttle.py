"""Keeps partitions that are being moved from taking all of the network: a rate for those that are named.

A topic's `leader.replication.throttled.replicas` and `follower.replication.throttled.replicas` name replicas;
the broker's `...throttled.rate` is how many bytes a second those of them that are not in sync may take
together. A replica that is in sync is never slowed down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.common.clock import Clock
from ottla.common.units import MAX_LONG

EVERY = "*"
BURST_MS = 1_000
"""How much may be taken at once after a pause, in time."""


class Rate:
    """Bytes a second, on average. What was taken is counted afterwards, so it may go over once."""

    def __init__(self, bytes_per_second: Callable[[], int], clock: Clock) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._left = 0.0
        self._filled_ms = clock.mono_ms() - BURST_MS

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self._rate() < MAX_LONG

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing more may be taken now."""
        if not self.is_limited:
            return False
        self._fill()
        return self._left <= 0

    def take(self, size_bytes: int) -> None:
        """Count what was taken."""
        if self.is_limited:
            self._fill()
            self._left -= size_bytes

    def _fill(self) -> None:
        now_ms, rate = self._clock.mono_ms(), self._rate()
        passed_ms = min(now_ms - self._filled_ms, BURST_MS)
        self._left = min(self._left + passed_ms * rate / 1000, rate * BURST_MS / 1000)
        self._filled_ms = now_ms


def names_replica(throttled: Sequence[str], partition: int, node_id: int) -> bool:
    """Return whether a topic's list of throttled replicas names this one."""
    return bool(throttled) and (
        tuple(throttled) == (EVERY,)
        or any(tuple(map(int, item.split(":"))) == (partition, node_id) for item in throttled)
    )
