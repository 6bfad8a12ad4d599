"""Measure rates and compute throttle times, with a token bucket for each client.

The bucket is filled at the rate of the quota. A request takes what it costs, even more than there is; then
the bucket is overdrawn, and the throttle time is how long it takes until it is not. That is Kafka's formula
for a client that keeps sending: what is too much, divided by the quota. Kafka measures the rate over eleven
windows of one second instead, which allows a burst of ten seconds, and another one whenever the first leaves
the windows (decision 150).
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.security.quota_entities import Meter, QuotaKey, QuotaMap, QuotaTable


class QuotaWindows(NamedTuple):
    """How much a client may use at once: quota.window.num and quota.window.size.seconds."""

    samples: int = 11
    window_ms: int = 1_000

    @property
    def total_ms(self) -> int:
        """Return the length of all windows."""
        return self.samples * self.window_ms


MAX_THROTTLE_MS = 2**31 - 1
"""The largest throttle time that a response can carry; a tiny quota would allow longer ones."""


class TokenBucket:
    """The use of one quota: `bound` per second, and what that is in `burst_ms` at once."""

    __slots__ = ("_burst_s", "_filled_ms", "_tokens", "bound")

    def __init__(self, bound: float, burst_ms: int, now_ms: int) -> None:
        self.bound = bound
        self._burst_s = burst_ms / 1000
        self._tokens = bound * self._burst_s
        self._filled_ms = now_ms

    def take(self, amount: float, now_ms: int) -> int:
        """Take tokens, even if there are not enough; return the throttle time."""
        self._fill(now_ms)
        self._tokens -= amount
        return 0 if self._tokens >= 0 else self._missing_ms()

    def throttle_ms(self, now_ms: int) -> int:
        """Return how long it takes until the bucket is not overdrawn any more."""
        self._fill(now_ms)
        return 0 if self._tokens >= 0 else self._missing_ms()

    def is_idle(self, now_ms: int) -> bool:
        """Return whether it is full."""
        self._fill(now_ms)
        return self._tokens >= self.bound * self._burst_s

    def _missing_ms(self) -> int:
        return min(MAX_THROTTLE_MS, round(-self._tokens / self.bound * 1000))

    def _fill(self, now_ms: int) -> None:
        filled = self._tokens + self.bound * (now_ms - self._filled_ms) / 1000
        self._tokens = min(self.bound * self._burst_s, filled)
        self._filled_ms = now_ms


MAX_CLIENTS = 10_000
"""How many pairs of user and client id are remembered for one key."""
MAX_CLIENT_ID_CHARS = 300
"""Longer client ids are measured together if they begin alike: strangers must not fill memory with text."""


class Measurements:
    """What is measured for one key: a bucket for each entity whose quota applies."""

    def __init__(self, key: QuotaKey, burst_ms: int) -> None:
        self.key = key
        self._burst_ms = burst_ms
        self._table = QuotaTable({}, key)
        self._found: dict[tuple[str, str], TokenBucket | None] = {}
        self._meters: dict[Meter, TokenBucket] = {}

    def change_quotas(self, quotas: QuotaMap) -> None:
        """Apply other quotas; what was measured stays."""
        self._table = QuotaTable(quotas, self.key)
        self._found.clear()
        if not self._table:
            self._meters.clear()

    def find(self, user: str, client_id: str, now_ms: int) -> TokenBucket | None:
        """Return the measurement for a client, or None if no quota applies to it."""
        try:
            return self._found[user, client_id]
        except KeyError:
            return self._find(user, client_id, now_ms)

    def _find(self, user: str, client_id: str, now_ms: int) -> TokenBucket | None:
        if len(client_id) > MAX_CLIENT_ID_CHARS:
            return self.find(user, client_id[:MAX_CLIENT_ID_CHARS], now_ms)
        if len(self._found) >= MAX_CLIENTS:
            self._found.clear()
            self._meters = {each: meter for each, meter in self._meters.items() if not meter.is_idle(now_ms)}
        quota = self._table.find(user, client_id)
        meter: TokenBucket | None = None
        if quota is not None:
            bound, name = quota
            meter = self._meters.get(name)
            if meter is None:
                meter = self._meters[name] = TokenBucket(bound, self._burst_ms, now_ms)
            meter.bound = bound
        self._found[user, client_id] = meter
        return meter
