"""Delay the first batch of an unknown producer if its sequence number is not 0.

Problem: librdkafka may send batch 2 before it retries batch 1, if batch 1 failed during a leader change. The
new leader does not know the producer, and must accept any sequence number of an unknown producer, since its
state may have expired. If it accepts batch 2 first, batch 1 can never be appended, and librdkafka still
reports it as delivered (decision 65; with Kafka's brokers, too: confluent-kafka-go #921).

Solution: reject such a batch with NOT_LEADER_OR_FOLLOWER, which makes clients resend all pending batches in
order. Accept it if it arrives again after HELD_BACK_MS: then the earlier state has expired.

At most MAX_PRODUCERS producers are tracked; further ones are rejected until there is room, which takes about
a second. An entry is never evicted while its producer retries: otherwise no producer would ever be accepted.
"""

from __future__ import annotations

import logging
from typing import NamedTuple
from uuid import UUID

from ottla.protocol.errors import NotLeaderOrFollower
from ottla.protocol.records.batch import BatchHeader

logger = logging.getLogger(__name__)

HOLD_MS = 1_000
MAX_PRODUCERS = 20_000
"""The maximum number of tracked producers, at 350 bytes each."""
ABANDONED_MS = 10_000
"""An entry whose producer has not retried for this long may be evicted."""
LOG_EVERY_MS = 60_000

Topic = UUID | str | None


class _First(NamedTuple):
    epoch: int
    seen_ms: int


class FirstSequenceGuard:
    """When unknown producers were first seen with a sequence number other than 0."""

    def __init__(self) -> None:
        self._first: dict[tuple[Topic, int, int], _First] = {}
        """In the order in which they were first seen."""
        self._logged_ms: int | None = None

    def check(self, topic: Topic, index: int, header: BatchHeader, now_ms: int) -> None:
        """Reject a first batch whose sequence number is not 0, unless it was rejected HELD_BACK_MS ago."""
        place = (topic, index, header.producer_id)
        first = self._first.get(place)
        if first is None or first.epoch != header.producer_epoch:
            self._first.pop(place, None)
            first = _First(header.producer_epoch, now_ms)
            if self._has_room(now_ms):
                self._first[place] = first
        if now_ms - first.seen_ms < HOLD_MS:
            raise NotLeaderOrFollower(
                f"producer {header.producer_id} starts with sequence number {header.base_sequence}: "
                "resend all pending batches in order"
            )
        del self._first[place]

    def _has_room(self, now_ms: int) -> bool:
        """Return whether one more producer can be tracked, evicting an abandoned entry if need be."""
        if len(self._first) < MAX_PRODUCERS:
            return True
        oldest = next(iter(self._first))
        if now_ms - self._first[oldest].seen_ms >= ABANDONED_MS:
            del self._first[oldest]
            return True
        if self._logged_ms is None or now_ms - self._logged_ms >= LOG_EVERY_MS:
            self._logged_ms = now_ms
            logger.warning(
                "more than %d unknown producers start with a sequence number above 0: "
                "some are delayed by more than %d ms",
                MAX_PRODUCERS, HOLD_MS,
            )  # fmt: skip
        return False
