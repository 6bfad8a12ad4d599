"""Remember batches that could not be written, and reject the producer's later batches until they are resent.

Problem: a producer has several requests in flight. If the disk is full for the first one, the next would be
rejected as out of order. Some clients then start a new epoch and resend everything that is in flight, which
stores it twice. (The first batches of an unknown producer would even be accepted without the very first.)

Solution: until the failed batch is resent, later ones get the same error: a storage error.

A failure holds only for the producer state in which it happened. Once that state changes, by an append, by
what a leader sent, or by a truncation, the producer continues from there. A batch that is not resent is
waited for WAIT_MS. With more than MAX_PRODUCERS producers none is dropped: while one may wait, any batch that
is not its producer's next one is treated as following a failed one.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ottla.log.producers.producer_state import BatchMetadata, ProducerState
from ottla.protocol.errors import KafkaStorageError, OutOfOrderSequenceNumber
from ottla.protocol.records.batch import BatchHeader

logger = logging.getLogger(__name__)

MAX_PRODUCERS = 1_000
"""How many are remembered for one log."""
WAIT_MS = 120_000
"""The default delivery.timeout.ms of clients."""

_UNKNOWN = -2


class _FailedAppend(NamedTuple):
    epoch: int
    sequence: int
    last_offset: int
    """The producer's last offset when the append failed: if it differs now, the state has changed."""
    failed_ms: int


class FailedAppends:
    """The producers of one log whose last append failed."""

    def __init__(self) -> None:
        self._by_producer: dict[int, _FailedAppend] = {}
        """The oldest failure first."""
        self._overflow_ms: int | None = None
        """When there was last no room for a failure."""

    def check(self, header: BatchHeader, producers: ProducerState, now_ms: int) -> BatchMetadata | None:
        """Do what `producers.check` does, but reject batches that follow a failed one."""
        if not self._is_behind(header, producers, now_ms):
            return producers.check(header)
        try:
            repeated = producers.check(header)
        except OutOfOrderSequenceNumber as error:
            raise _earlier_batch_failed(header) from error
        if repeated is None and not self._is_next(header, producers):
            raise _earlier_batch_failed(header)
        return repeated

    def add(self, header: BatchHeader, producers: ProducerState, now_ms: int) -> None:
        """Add a batch that could not be written."""
        if header.base_sequence < 0:
            return
        producer_id = header.producer_id
        self._by_producer.pop(producer_id, None)
        if len(self._by_producer) >= MAX_PRODUCERS:
            oldest = next(iter(self._by_producer))
            if now_ms - self._by_producer[oldest].failed_ms < WAIT_MS:
                self._overflow_ms = now_ms
                return
            del self._by_producer[oldest]
        last_offset = _last_offset(producers, producer_id)
        self._by_producer[producer_id] = _FailedAppend(
            header.producer_epoch, header.base_sequence, last_offset, now_ms
        )

    def forget(self, producer_id: int) -> None:
        """Drop a producer of which a batch was written."""
        self._by_producer.pop(producer_id, None)

    def _is_behind(self, header: BatchHeader, producers: ProducerState, now_ms: int) -> bool:
        """Return whether a batch may follow a failed one."""
        if self._overflow_ms is not None and now_ms - self._overflow_ms >= WAIT_MS:
            self._overflow_ms = None
        producer_id = header.producer_id
        failed = self._by_producer.get(producer_id)
        if failed is None:
            return self._overflow_ms is not None
        if failed.last_offset != _last_offset(producers, producer_id):
            del self._by_producer[producer_id]
            return self._overflow_ms is not None
        if now_ms - failed.failed_ms >= WAIT_MS:
            del self._by_producer[producer_id]
            logger.warning(
                "producer %d did not resend its failed batch (sequence number %d) within %d s; accepting its "
                "later batches",
                producer_id, failed.sequence, WAIT_MS // 1000,
            )  # fmt: skip
            return self._overflow_ms is not None
        return failed.epoch == header.producer_epoch and failed.sequence != header.base_sequence

    def _is_next(self, header: BatchHeader, producers: ProducerState) -> bool:
        """Return whether a batch that `producers` accept is certainly the next of its producer."""
        if header.producer_id in self._by_producer:
            return False
        return header.base_sequence <= 0 or header.producer_id in producers.producers


def _last_offset(producers: ProducerState, producer_id: int) -> int:
    entry = producers.producers.get(producer_id)
    return _UNKNOWN if entry is None else entry.last_offset


def _earlier_batch_failed(header: BatchHeader) -> KafkaStorageError:
    return KafkaStorageError(
        f"a batch of producer {header.producer_id} before sequence number {header.base_sequence} could not "
        "be written; resend it first"
    )
