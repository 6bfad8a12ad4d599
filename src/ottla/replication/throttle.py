"""Limit the bandwidth of partitions that are being moved.

A topic's `leader.replication.throttled.replicas` and `follower.replication.throttled.replicas` list replicas;
the broker's `...throttled.rate` is the total rate, in bytes per second, of those that are not in sync. A
replica that is in sync is never throttled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.common.clock import Clock
from ottla.common.units import MAX_LONG

ALL_REPLICAS = "*"
BURST_MS = 1_000
"""How much may be sent at once after a pause, as a duration."""


class Rate:
    """An average rate in bytes per second. Bytes are counted afterwards, so it may be exceeded once."""

    def __init__(self, bytes_per_second: Callable[[], int], clock: Clock) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._tokens = 0.0
        self._filled_ms = clock.mono_ms() - BURST_MS

    @property
    def is_limited(self) -> bool:
        """Return whether there is a limit."""
        return self._rate() < MAX_LONG

    @property
    def is_exhausted(self) -> bool:
        """Return whether nothing more may be sent now."""
        if not self.is_limited:
            return False
        self._fill()
        return self._tokens <= 0

    def record(self, size_bytes: int) -> None:
        """Count bytes that were sent or received."""
        if self.is_limited:
            self._fill()
            self._tokens -= size_bytes

    def _fill(self) -> None:
        now_ms, rate = self._clock.mono_ms(), self._rate()
        passed_ms = min(now_ms - self._filled_ms, BURST_MS)
        self._tokens = min(self._tokens + passed_ms * rate / 1000, rate * BURST_MS / 1000)
        self._filled_ms = now_ms


def includes_replica(throttled: Sequence[str], partition: int, node_id: int) -> bool:
    """Return whether a topic's list of throttled replicas contains this one."""
    return bool(throttled) and (
        tuple(throttled) == (ALL_REPLICAS,)
        or any(tuple(map(int, item.split(":"))) == (partition, node_id) for item in throttled)
    )
