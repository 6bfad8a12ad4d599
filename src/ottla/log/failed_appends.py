"""Batches that could not be written, so that those behind them wait for their turn.

A producer has several requests under way. When the disk is full for the first of them, the next would be
answered "out of order": some clients then give up the idempotence of everything that they have under way,
and send it again under a new epoch, so that it is there twice. (And the first batches of a producer that
nobody knows yet would even be accepted without the very first.) As long as the batch that failed has not come
again, the ones behind it are told the same as it was: the disk.

A refusal counts only for the state of the producer that it was made in. Once that state has changed, by an
append, by what a leader sent, or by a truncation, the producer goes on from there. A batch that does not come
again is waited for WAIT_MS. With more than MAX_PRODUCERS producers none is forgotten: while one may wait,
any batch that is not the next of its producer counts as one behind a refused one.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ottla.log.producer_state import BatchMetadata, ProducerState
from ottla.protocol.errors import KafkaStorageError, OutOfOrderSequenceNumber
from ottla.protocol.records.batch import BatchHeader

logger = logging.getLogger(__name__)

MAX_PRODUCERS = 1_000
"""How many are remembered for one log."""
WAIT_MS = 120_000
"""As long as clients try to deliver a batch, unless they are told otherwise (delivery.timeout.ms)."""

_UNKNOWN = -2


class _Refused(NamedTuple):
    epoch: int
    sequence: int
    last_offset: int
    """The producer's last offset when the batch was refused: its state has changed if that has."""
    at_ms: int


class FailedAppends:
    """The producers of one log whose last batch could not be written. Falsy if there are none."""

    def __init__(self) -> None:
        self._first: dict[int, _Refused] = {}
        """The longest refused one first."""
        self._overflow_ms: int | None = None
        """When a refusal last found no room here."""

    def __bool__(self) -> bool:
        return bool(self._first) or self._overflow_ms is not None

    def check(self, header: BatchHeader, producers: ProducerState, now_ms: int) -> BatchMetadata | None:
        """Do what `producers.check` does, but hold back what comes before its turn."""
        if not self._is_behind(header, producers, now_ms):
            return producers.check(header)
        try:
            repeated = producers.check(header)
        except OutOfOrderSequenceNumber as error:
            raise _held_back(header) from error
        if repeated is None and not self._is_next(header, producers):
            raise _held_back(header)
        return repeated

    def refuse(self, header: BatchHeader, producers: ProducerState, now_ms: int) -> None:
        """Take note of a batch that could not be written."""
        if header.base_sequence < 0:
            return
        producer_id = header.producer_id
        self._first.pop(producer_id, None)
        if len(self._first) >= MAX_PRODUCERS:
            oldest = next(iter(self._first))
            if now_ms - self._first[oldest].at_ms < WAIT_MS:
                self._overflow_ms = now_ms
                return
            del self._first[oldest]
        last_offset = _last_offset(producers, producer_id)
        self._first[producer_id] = _Refused(header.producer_epoch, header.base_sequence, last_offset, now_ms)

    def forget(self, producer_id: int) -> None:
        """A batch of this producer was written: it goes on from there."""
        self._first.pop(producer_id, None)

    def _is_behind(self, header: BatchHeader, producers: ProducerState, now_ms: int) -> bool:
        """Return whether a batch may be one behind a refused one."""
        if self._overflow_ms is not None and now_ms - self._overflow_ms >= WAIT_MS:
            self._overflow_ms = None
        producer_id = header.producer_id
        refused = self._first.get(producer_id)
        if refused is None:
            return self._overflow_ms is not None
        if refused.last_offset != _last_offset(producers, producer_id):
            del self._first[producer_id]
            return self._overflow_ms is not None
        if now_ms - refused.at_ms >= WAIT_MS:
            del self._first[producer_id]
            logger.warning(
                "a batch of producer %d, refused for want of room, did not come again within %d s (sequence "
                "number %d); its batches are not held back any more",
                producer_id, WAIT_MS // 1000, refused.sequence,
            )  # fmt: skip
            return self._overflow_ms is not None
        return refused.epoch == header.producer_epoch and refused.sequence != header.base_sequence

    def _is_next(self, header: BatchHeader, producers: ProducerState) -> bool:
        """Return whether a batch that `producers` accept is surely the next of its producer."""
        if header.producer_id in self._first:
            return False
        return header.base_sequence <= 0 or header.producer_id in producers.producers


def _last_offset(producers: ProducerState, producer_id: int) -> int:
    entry = producers.producers.get(producer_id)
    return _UNKNOWN if entry is None else entry.last_offset


def _held_back(header: BatchHeader) -> KafkaStorageError:
    return KafkaStorageError(
        f"a batch of producer {header.producer_id} before sequence number {header.base_sequence} could not "
        "be written"
    )
