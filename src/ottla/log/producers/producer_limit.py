"""Limit how many idempotent producers a broker's logs remember, without dropping one too early.

Problem: if a producer is dropped before producer.id.expiration.ms, a batch that it resends is stored twice.

Solution: at the limit, new producers are rejected with an error that clients retry until there is room again:
when others expire, or their topics are deleted. An entry is one producer of one partition: 0.4 KiB after its
first batch, 1.3 KiB with five. A follower accepts what its leader has accepted, regardless of the limit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.common.clock import Clock
from ottla.protocol.errors import KafkaStorageError

logger = logging.getLogger(__name__)

MAX_PRODUCERS = 250_000
"""The default of ottla.producer.ids.max."""
RECOUNT_MS = 1_000
"""The minimum interval between counts of all logs while there is no room."""
LOG_INTERVAL_MS = 60_000

_ADMITTED_PER_COUNT = 1_000


class ProducerLimit:
    """Admits new producers to the logs of one directory while there is room."""

    def __init__(self, count: Callable[[], int], clock: Clock, max_producers: int = MAX_PRODUCERS) -> None:
        self.count = count
        """Return the number of entries: those replicated, loaded or expired are not reported here."""
        self.max_producers = max_producers
        self.rejections = 0
        self._clock = clock
        self._room = 0
        self._counted_ms: int | None = None
        self._logged_ms: int | None = None

    def change_limit(self, max_producers: int) -> None:
        """Use another limit from now on; producers that are known already stay."""
        self.max_producers = max_producers
        self._room, self._counted_ms = 0, None

    def admit(self, producer_id: int) -> None:
        """Make room for a producer that a log does not know; KafkaStorageError if there is none."""
        if self._room <= 0:
            self._recount()
        if self._room > 0:
            self._room -= 1
            return
        self.rejections += 1
        self._log_refusals()
        raise KafkaStorageError(
            f"cannot accept the new producer {producer_id}: this broker already tracks "
            f"{self.max_producers} producers (ottla.producer.ids.max)"
        )

    def _recount(self) -> None:
        now_ms = self._clock.mono_ms()
        if self._counted_ms is None or self._room == 0 or now_ms - self._counted_ms >= RECOUNT_MS:
            self._counted_ms = now_ms
            # -1 means that no room is left; 0 means that the room of the last count is used up.
            self._room = min(self.max_producers - self.count(), _ADMITTED_PER_COUNT) or -1

    def _log_refusals(self) -> None:
        now_ms = self._clock.mono_ms()
        if self._logged_ms is None or now_ms - self._logged_ms >= LOG_INTERVAL_MS:
            self._logged_ms = now_ms
            logger.error(
                "rejecting new idempotent producers: %d are tracked, ottla.producer.ids.max is %d (%d "
                "batches rejected so far). Reuse producers in applications instead of creating many, "
                "lower producer.id.expiration.ms, or raise ottla.producer.ids.max (about 1 KiB each)",
                self.count(), self.max_producers, self.rejections,
            )  # fmt: skip
