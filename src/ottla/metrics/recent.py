"""Event loop lag, and the request latencies of the last one to two minutes.

Counters are cumulative, and a quantile over all requests since the start says little about now. So snapshots
of the counters of one to two minutes ago are kept, and quantiles are computed over the difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from ottla.api.support.request_times import BOUNDS_S, RequestTimes

POLL_INTERVAL_S = 0.25
ROTATE_EVERY_S = 60.0
OF_FETCH = ("FetchConsumer", "FetchFollower")

Counts = dict[str, list[int]]


class Recent:
    """Measures the event loop lag four times a second, from `start` to `stop`."""

    def __init__(self, times: Callable[[], Iterable[RequestTimes]]) -> None:
        self._times = times
        self._older: Counts = {}
        self._newer: Counts = {}
        self.loop_lag_s = 0.0
        self._largest_s, self._largest_before_s = 0.0, 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._rotate_at = 0.0

    @property
    def largest_loop_lag_s(self) -> float:
        """The largest event loop lag of the last one to two minutes."""
        return max(self._largest_s, self._largest_before_s)

    def start(self) -> None:
        """Begin to look."""
        now = asyncio.get_running_loop().time()
        self._rotate_at = now + ROTATE_EVERY_S
        self._schedule(now)

    def stop(self) -> None:
        """End it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def recent_counts(self, api: str, buckets: list[int]) -> list[int]:
        """Return how much `buckets` have grown since the older snapshot."""
        before = self._older.get(api)
        return buckets if before is None else [now - then for now, then in zip(buckets, before, strict=True)]

    def rotate(self) -> None:
        """Take a new snapshot, and drop the older one."""
        self._older, self._newer = self._newer, self._counted()
        self._largest_before_s, self._largest_s = self._largest_s, 0.0

    def _counted(self) -> Counts:
        counts: Counts = {}
        for times in self._times():
            for name in (times.api, "Fetch") if times.api in OF_FETCH else (times.api,):
                before = counts.get(name, [0] * (len(BOUNDS_S) + 1))
                counts[name] = [one + more for one, more in zip(before, times.buckets, strict=True)]
        return counts

    def _schedule(self, now: float) -> None:
        due = now + POLL_INTERVAL_S
        self._timer = asyncio.get_running_loop().call_at(due, self._measure, due)

    def _measure(self, due: float) -> None:
        now = asyncio.get_running_loop().time()
        self.loop_lag_s = max(0.0, now - due)
        self._largest_s = max(self._largest_s, self.loop_lag_s)
        if now >= self._rotate_at:
            self._rotate_at = now + ROTATE_EVERY_S
            self.rotate()
        self._schedule(now)
