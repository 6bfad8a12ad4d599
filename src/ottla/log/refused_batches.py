"""Batches that could not be written, so that those behind them wait for their turn.

A producer has several requests under way. When the disk is full for the first of them, the next would be
answered "out of order": some clients then give up the idempotence of everything that they have under way,
and send it again under a new epoch, so that it is there twice. (And the first batches of a producer that
nobody knows yet would even be accepted without the very first.) As long as the batch that failed has not come
again, the ones behind it are told the same as it was: the disk.
"""

from __future__ import annotations

from ottla.log.producer_entry import BatchMark
from ottla.log.producer_state import ProducerState
from ottla.protocol.errors import KafkaStorageError, OutOfOrderSequenceNumber
from ottla.protocol.record_batch import BatchHeader

MOST_PRODUCERS = 1_000


class RefusedBatches:
    """The producers of one log whose last batch could not be written. Falsy if there are none."""

    def __init__(self) -> None:
        self._first: dict[int, tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._first)

    def check(self, header: BatchHeader, producers: ProducerState) -> BatchMark | None:
        """Do what `producers.check` does, but hold back what comes before its turn."""
        refused = self._first.get(header.producer_id)
        if refused is None or refused[0] != header.producer_epoch or refused[1] == header.base_sequence:
            return producers.check(header)
        try:
            repeated = producers.check(header)
        except OutOfOrderSequenceNumber as error:
            raise _held_back(header) from error
        if repeated is None:
            raise _held_back(header)
        return repeated

    def refuse(self, header: BatchHeader) -> None:
        """Take note of a batch that could not be written."""
        if len(self._first) >= MOST_PRODUCERS:
            self._first.clear()
        if header.base_sequence >= 0:
            self._first[header.producer_id] = (header.producer_epoch, header.base_sequence)

    def forget(self, producer_id: int) -> None:
        """A batch of this producer was written: it goes on from there."""
        self._first.pop(producer_id, None)


def _held_back(header: BatchHeader) -> KafkaStorageError:
    return KafkaStorageError(
        f"a batch of producer {header.producer_id} before sequence number {header.base_sequence} could not "
        "be written"
    )
