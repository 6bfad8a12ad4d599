"""Verify a transaction with its coordinator before its first batch is appended (KIP-890).

Problem: a batch that arrives after its transaction has ended would open a transaction in the log that is
never ended, and hold back every read_committed consumer.

Solution: a producer's first transactional batch is appended only after its coordinator has confirmed that the
partition is part of the open transaction. The response may be outdated: if the transaction's marker is
appended before it arrives, it is void. So a verification is dropped with every marker, and with the first
batch, after which the log itself knows the transaction. While a verification is pending, the lowest sequence
number seen is remembered: if the first batch fails, a second one must not be appended before the first is
resent.
"""

from __future__ import annotations

from ottla.log.producers.producer_state import ProducerState
from ottla.protocol.errors import InvalidTxnState, OutOfOrderSequenceNumber
from ottla.protocol.records.batch import BatchHeader

MAX_VERIFICATIONS = 10_000
"""Per partition; beyond it the oldest is dropped, and its batch rejected."""


class Verification:
    """One producer's transaction whose coordinator is being, or was, asked."""

    __slots__ = ("has_epoch_per_transaction", "is_verified", "lowest_sequence", "producer_epoch")

    def __init__(self, producer_epoch: int, sequence: int, has_epoch_per_transaction: bool) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.has_epoch_per_transaction = has_epoch_per_transaction
        self.is_verified = False

    def confirm(self) -> None:
        """Record that the partition is part of the transaction."""
        self.is_verified = True


class Verifications:
    """The verifications of one log."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(
        self, producer_id: int, producer_epoch: int, sequence: int, *, has_epoch_per_transaction: bool = False
    ) -> Verification:
        """Return the verification that must be confirmed before a batch may be appended."""
        known = self._by_producer.get(producer_id)
        if known is not None and known.producer_epoch == producer_epoch:
            known.lowest_sequence = min(known.lowest_sequence, sequence)
            return known
        if len(self._by_producer) >= MAX_VERIFICATIONS:
            del self._by_producer[next(iter(self._by_producer))]
        begun = Verification(producer_epoch, sequence, has_epoch_per_transaction)
        self._by_producer[producer_id] = begun
        return begun

    def check(self, header: BatchHeader, producers: ProducerState) -> None:
        """Raise if a transactional batch, which is no duplicate, may not be appended."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        if producers.has_open_transaction(producer_id, epoch):
            return
        verification = self._by_producer.get(producer_id)
        if verification is None or not verification.is_verified or verification.producer_epoch != epoch:
            raise InvalidTxnState(
                f"the partition is not known to be part of a transaction of producer {producer_id}"
            )
        entry = producers.producers.get(producer_id)
        is_first = entry is None or not entry.batches
        if header.base_sequence > verification.lowest_sequence or (
            verification.has_epoch_per_transaction and is_first and header.base_sequence > 0
        ):
            raise OutOfOrderSequenceNumber(
                f"producer {producer_id} begins a transaction with sequence number {header.base_sequence}"
            )

    def clear(self, producer_id: int) -> None:
        """Drop a verification: the log knows the transaction now, or it has ended."""
        self._by_producer.pop(producer_id, None)
