"""Producers that seem to begin in the middle: their true beginning is given a moment to arrive first.

A log takes any sequence number from a producer that it does not know, since what it knew may have expired.
But a producer may be unknown because its very first batch was refused: by a broker that did not lead any
more, or not yet. If the second batch is accepted then, the first can never be written, and librdkafka even
reports it as delivered, because the one after it was. It does send them in the wrong order now and then, just
when the leader changes (decision 0065; with Kafka's brokers, too: confluent-kafka-go #921).

So a batch with which an unknown producer does not begin at 0 is refused at first, with an error after which
clients send what they have again, in order. If it comes again later than HELD_BACK_MS, it is the beginning.

Of more than MOST producers the others wait until those before them are through, which takes a second or so.
None is forgotten while it waits: if producers took each other's place, none would ever get through.
"""

from __future__ import annotations

import logging
from typing import NamedTuple
from uuid import UUID

from ottla.protocol.errors import NotLeaderOrFollower
from ottla.protocol.records.batch import BatchHeader

logger = logging.getLogger(__name__)

HELD_BACK_MS = 1_000
MOST = 20_000
"""How many are remembered, in 350 bytes each; the others wait for their turn."""
ABANDONED_MS = 10_000
"""One that has not come again for so long makes room for another."""
LOG_EVERY_MS = 60_000

Topic = UUID | str | None


class _First(NamedTuple):
    epoch: int
    seen_ms: int


class FirstSequenceGuard:
    """When producers that a log does not know were first seen with a sequence number other than 0."""

    def __init__(self) -> None:
        self._first: dict[tuple[Topic, int, int], _First] = {}
        """In the order in which they were first seen."""
        self._logged_ms: int | None = None

    def check(self, topic: Topic, index: int, header: BatchHeader, now_ms: int) -> None:
        """Refuse such a batch of a producer that the log does not know, unless it has waited."""
        place = (topic, index, header.producer_id)
        first = self._first.get(place)
        if first is None or first.epoch != header.producer_epoch:
            self._first.pop(place, None)
            first = _First(header.producer_epoch, now_ms)
            if self._has_room(now_ms):
                self._first[place] = first
        if now_ms - first.seen_ms < HELD_BACK_MS:
            raise NotLeaderOrFollower(
                f"producer {header.producer_id} begins with sequence number {header.base_sequence}: "
                "what comes before it may be on its way"
            )
        del self._first[place]

    def _has_room(self, now_ms: int) -> bool:
        """Return whether one more can be remembered; if need be, in the place of one that was abandoned."""
        if len(self._first) < MOST:
            return True
        oldest = next(iter(self._first))
        if now_ms - self._first[oldest].seen_ms >= ABANDONED_MS:
            del self._first[oldest]
            return True
        if self._logged_ms is None or now_ms - self._logged_ms >= LOG_EVERY_MS:
            self._logged_ms = now_ms
            logger.warning(
                "more than %d unknown producers begin in the middle at once: some wait longer than %d ms",
                MOST, HELD_BACK_MS,
            )  # fmt: skip
        return False
