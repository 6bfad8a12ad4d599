"""Request latencies by API and version: monotonic counters, read by the metrics.

`total` is the time from reading the request to its response. `local` is the part that was spent on the event
loop; in the rest the request waited for replicas, records or other group members.
"""

from __future__ import annotations

from bisect import bisect_left

BOUNDS_S = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""Upper bounds of the buckets, in seconds; there is one more, for everything above."""


class RequestTimes:
    """The requests of one version of one API. `of_followers`: the Fetch requests of other brokers."""

    __slots__ = ("api", "buckets", "local_s", "of_followers", "version", "waited_s")

    def __init__(self, api: str, version: int, of_followers: RequestTimes | None = None) -> None:
        self.api = api
        """Kafka's name: `Produce`; `FetchConsumer` and `FetchFollower` are one API."""
        self.version = version
        self.of_followers = of_followers
        self.buckets = [0] * (len(BOUNDS_S) + 1)
        self.local_s = 0.0
        self.waited_s = 0.0

    def answered(self, local_s: float, total_s: float) -> None:
        """Count one request. (The dispatcher does the same inline for those that did not wait.)"""
        self.local_s += local_s
        self.waited_s += total_s - local_s
        self.buckets[bisect_left(BOUNDS_S, total_s)] += 1

    @property
    def total_s(self) -> float:
        """The total time of all requests."""
        return self.local_s + self.waited_s

    @property
    def count(self) -> int:
        """The number of requests."""
        return sum(self.buckets)


UNCOUNTED = RequestTimes("", 0)
"""For requests that are not counted."""


def quantile(buckets: list[int], q: float) -> float:
    """Return the approximate quantile `q` of the latencies in seconds; 0 without any."""
    wanted, seen = q * sum(buckets), 0
    for index, count in enumerate(buckets):
        if count and seen + count >= wanted:
            if index == len(BOUNDS_S):
                return BOUNDS_S[-1]
            below = BOUNDS_S[index - 1] if index else 0.0
            return below + (BOUNDS_S[index] - below) * (wanted - seen) / count
        seen += count
    return 0.0
