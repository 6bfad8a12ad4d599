"""Limit how many connections per second a broker accepts, on all listeners and on one.

A connection over the rate is not refused: it waits for its turn (`max.connection.creation.rate`, KIP-612).
The listener between brokers, where it is not the only one, waits for its own rate alone: clients that connect
too often do not keep the brokers apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.common.units import MAX_INT
from ottla.security.quota_rates import QuotaWindows, TokenBucket


class ConnectionRates:
    """The rates of new connections; MAX_INT for any number."""

    def __init__(self, windows: QuotaWindows) -> None:
        self._windows = windows
        self._of_broker: TokenBucket | None = None
        self._of_listeners: dict[str, TokenBucket] = {}
        self._protected: str | None = None

    def change_rates(
        self, broker: int, listeners: Mapping[str, int], protected: str | None, now_ms: int
    ) -> None:
        """Apply other rates; `protected` is the listener that the rate of the broker does not limit."""
        self._protected = protected
        self._of_broker = self._changed(self._of_broker, broker, now_ms)
        buckets = {
            name: self._changed(self._of_listeners.get(name), rate, now_ms)
            for name, rate in listeners.items()
        }
        self._of_listeners = {name: bucket for name, bucket in buckets.items() if bucket is not None}

    def connected(self, listener_name: str, now_ms: int) -> int:
        """Record a new connection; return for how many milliseconds it has to wait."""
        wait_ms = 0
        if self._of_broker is not None and listener_name != self._protected:
            wait_ms = self._of_broker.take(1, now_ms)
        own = self._of_listeners.get(listener_name)
        return wait_ms if own is None else max(wait_ms, own.take(1, now_ms))

    def _changed(self, bucket: TokenBucket | None, rate: int, now_ms: int) -> TokenBucket | None:
        if rate >= MAX_INT:
            return None
        if bucket is None:
            return TokenBucket(rate, self._windows.total_ms, now_ms)
        bucket.throttle_ms(now_ms)  # what was gathered until now, at the old rate
        bucket.bound = rate
        return bucket
