"""Bounds how many idempotent producers the logs of a broker remember, without ever forgetting one too early.

If a producer is forgotten before producer.id.expiration.ms has passed, a batch that it sends again is stored
twice. So at the bound new producers are refused, with an error that clients retry until there is room again:
when others expire, or their topics are deleted.

An entry is one producer of one partition: 0.4 KiB after its first batch, 1.3 KiB with five. What a leader has
accepted its followers take in, bound or not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.common.clock import Clock
from ottla.protocol.errors import KafkaStorageError

logger = logging.getLogger(__name__)

MAX_PRODUCERS = 250_000
"""Unless ottla.producer.ids.max says otherwise."""
RECOUNT_MS = 1_000
"""How often all logs are counted at most while there is no room."""
LOG_EVERY_MS = 60_000

_ADMITTED_PER_COUNT = 1_000


class ProducerLimit:
    """Admits new producers to the logs of one directory as long as there is room."""

    def __init__(self, count: Callable[[], int], clock: Clock, max_producers: int = MAX_PRODUCERS) -> None:
        self.count = count
        """Return how many entries there are: what is sent by leaders, loaded and expired is not told."""
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
            f"producer {producer_id} is new, and this broker remembers {self.max_producers} producers, as "
            "many as it may (ottla.producer.ids.max)"
        )

    def _recount(self) -> None:
        now_ms = self._clock.mono_ms()
        if self._counted_ms is None or self._room == 0 or now_ms - self._counted_ms >= RECOUNT_MS:
            self._counted_ms = now_ms
            # -1: none is left, as opposed to 0: those of the last count are used up.
            self._room = min(self.max_producers - self.count(), _ADMITTED_PER_COUNT) or -1

    def _log_refusals(self) -> None:
        now_ms = self._clock.mono_ms()
        if self._logged_ms is None or now_ms - self._logged_ms >= LOG_EVERY_MS:
            self._logged_ms = now_ms
            logger.error(
                "new idempotent producers are refused: %d are remembered, ottla.producer.ids.max is %d (%d "
                "batches refused so far). Let programs keep their producer instead of making a new one each "
                "time, lower producer.id.expiration.ms, or raise ottla.producer.ids.max (about 1 KiB each)",
                self.count(), self.max_producers, self.rejections,
            )  # fmt: skip
