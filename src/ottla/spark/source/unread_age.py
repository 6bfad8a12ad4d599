"""The age of the oldest record that a query has not read: how many seconds it is behind."""

from __future__ import annotations

import logging

from ottla.client.admin.lag import record_times
from ottla.client.errors import ClientError
from ottla.common.clock import Clock
from ottla.protocol.errors import KafkaError
from ottla.spark.cluster_session import ClusterSession
from ottla.spark.source.offsets import Positions

log = logging.getLogger(__name__)

EVERY_MS = 2_000
"""To know the age of a record, its batch is fetched: not for every batch of a query."""
MAX_PARTITIONS = 32


class UnreadAge:
    """Measures the age, at most every two seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._measured_ms: int | None = None
        self._oldest_ms: int | None = None

    def seconds(
        self,
        session: ClusterSession,
        positions: Positions,
        ends: Positions,
    ) -> float | None:
        """Return the age of the oldest record after these positions; 0 if there is none, None if unknown."""
        unread = {each: at for each, at in positions.items() if ends.get(each, at) > at}
        if not unread:
            self._oldest_ms = None
            return 0.0
        now_ms = self._clock.mono_ms()
        if self._measured_ms is None or now_ms - self._measured_ms >= EVERY_MS or self._oldest_ms is None:
            self._measured_ms = now_ms
            self._oldest_ms = self._measure(session, unread, ends)
        if self._oldest_ms is None:
            return None
        return round(max(0, self._clock.wall_ms() - self._oldest_ms) / 1000, 3)

    def _measure(
        self,
        session: ClusterSession,
        unread: Positions,
        ends: Positions,
    ) -> int | None:
        worst = sorted(unread, key=lambda each: unread[each] - ends[each])[:MAX_PARTITIONS]
        try:
            times = session.run(record_times(session.cluster, {each: unread[each] for each in worst}, ends))
        except (KafkaError, ClientError) as error:
            log.debug("cannot read the age of unread records: %s", error)
            return None
        return min((each for each in times.values() if each is not None), default=None)
