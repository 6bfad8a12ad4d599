"""Limit how many connections per second an address may open.

A connection over the limit is not served: it is closed after the throttle time, one window at most. It does
not count, so that a client that keeps trying is served at the rate of its quota.
"""

from __future__ import annotations

from ottla.security.quota_entities import QuotaMap, address_quota
from ottla.security.quota_rates import QuotaWindows, TokenBucket

MAX_ADDRESSES = 10_000
"""How many addresses are remembered."""


class AddressQuotas:
    """The rate of new connections of each address that has a quota."""

    def __init__(self, quotas: QuotaMap, windows: QuotaWindows) -> None:
        self._quotas = quotas
        self._windows = windows
        self._buckets: dict[str, TokenBucket] = {}

    def change_quotas(self, quotas: QuotaMap) -> None:
        """Apply other quotas; what was measured stays."""
        self._quotas = quotas

    def connected(self, address: str, now_ms: int) -> int:
        """Record a new connection; return the throttle time if it must not be served."""
        bound = address_quota(self._quotas, address)
        if bound is None:
            return 0
        bucket = self._buckets.get(address)
        if bucket is None:
            bucket = self._buckets[address] = self._new(bound, now_ms)
        bucket.bound = bound
        throttle_ms = bucket.take(1, now_ms)
        if throttle_ms:
            bucket.take(-1, now_ms)
        return min(throttle_ms, self._windows.window_ms)

    def _new(self, bound: float, now_ms: int) -> TokenBucket:
        if len(self._buckets) >= MAX_ADDRESSES:
            self._buckets = {each: used for each, used in self._buckets.items() if not used.is_idle(now_ms)}
        return TokenBucket(bound, self._windows.total_ms, now_ms)
