"""What a log remembers of its idempotent producers, so that a retried batch is not written twice.

For each producer id: its epoch, its last five batches (a client has at most five requests in
flight), and the transaction that it has open. The rules are Kafka's:

- a batch with the sequence numbers of one of the last five is a duplicate: the answer is the offset
  that it got then;
- otherwise it must start one after the last batch (after 2^31 - 1 comes 0), at 0 in a new epoch;
- an epoch older than the newest one seen is fenced;
- of a producer that is not known (new, or forgotten after producer.id.expiration.ms), any sequence
  number is accepted: its earlier records may have been deleted (but see api/late_beginnings.py);
- a marker is refused from a coordinator that has been replaced. With transaction version 2 it carries an
  epoch that no batch of its transaction has, and fences them: one that comes late cannot end a later
  transaction, nor can a late batch begin one that nobody will end (KIP-890).

Nobody is forgotten earlier, however many there are: producer_limit.py bounds how many are let in.

State is a function of the log: `replay` of every batch since a snapshot gives it back. The file of a
snapshot is in producer_snapshot.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.log.open_transactions import EndedTransaction, OpenTransactions
from ottla.log.producer_entry import BATCHES_KEPT, BatchMark, ProducerEntry
from ottla.log.producer_snapshot import SEQUENCE_MASK, decode_snapshot, encode_snapshot
from ottla.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from ottla.protocol.records.batch import BatchHeader
from ottla.protocol.records.control import Marker, decode_marker

FIRST_WITH_EPOCH_PER_TRANSACTION = 2
"""The transaction version from which on a marker's epoch is larger than that of its transaction."""


class ProducerState:
    """All producers of one log, up to `end_offset`."""

    __slots__ = ("_producers", "end_offset", "snapshot_offset", "transactions")

    def __init__(self, end_offset: int = 0) -> None:
        self._producers: dict[int, ProducerEntry] = {}
        self.transactions = OpenTransactions()
        self.end_offset = end_offset
        self.snapshot_offset = -1
        """Of the newest snapshot that is on disk."""

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def producers(self) -> Mapping[int, ProducerEntry]:
        """Every producer by its id."""
        return self._producers

    # Deciding
    def check(self, header: BatchHeader) -> BatchMark | None:
        """Return None if the batch may be appended, or the earlier batch that it repeats; or raise."""
        entry = self._producers.get(header.producer_id)
        if entry is None:
            return None
        if header.producer_epoch != entry.epoch:
            self._check_new_epoch(entry, header)
        elif header.base_sequence >= 0 and not header.is_control:
            sequence = header.base_sequence
            if sequence != (entry.last_sequence + 1) & SEQUENCE_MASK:
                return self._find_duplicate(entry, header)
        if entry.txn_first_offset >= 0 and not header.is_transactional:
            raise InvalidTxnState(f"producer {header.producer_id} has a transaction open")
        return None

    def _check_new_epoch(self, entry: ProducerEntry, header: BatchHeader) -> None:
        if header.producer_epoch < entry.epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id} has epoch {header.producer_epoch}, {entry.epoch} was seen"
            )
        if header.base_sequence > 0:
            raise OutOfOrderSequenceNumber(
                f"producer {header.producer_id} starts epoch {header.producer_epoch} "
                f"with sequence number {header.base_sequence}, not 0"
            )

    def _find_duplicate(self, entry: ProducerEntry, header: BatchHeader) -> BatchMark:
        first, last = header.base_sequence, header.last_sequence
        for mark in entry.batches:
            if mark.first_sequence == first and mark.last_sequence == last:
                return mark
        raise OutOfOrderSequenceNumber(
            f"producer {header.producer_id} sent sequence number {first} after {entry.last_sequence}"
        )

    def check_marker(self, marker: Marker) -> None:
        """Raise why a marker may not be appended."""
        entry = self._producers.get(marker.producer_id)
        if entry is None:
            return
        must_be_new = (
            marker.transaction_version >= FIRST_WITH_EPOCH_PER_TRANSACTION and entry.txn_first_offset >= 0
        )
        if marker.producer_epoch < entry.epoch or (must_be_new and marker.producer_epoch == entry.epoch):
            raise InvalidProducerEpoch(
                f"the marker of producer {marker.producer_id} has epoch {marker.producer_epoch}, "
                f"{entry.epoch} was seen"
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"coordinator epoch {marker.coordinator_epoch} < {entry.coordinator_epoch}"
            )

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether a producer has a transaction open here, in this epoch."""
        entry = self._producers.get(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch

    # Replaying
    def update(self, header: BatchHeader, last_offset: int, timestamp: int) -> None:
        """Take in a data batch that was appended with this last offset."""
        producer_id = header.producer_id
        entry = self._producers.get(producer_id) or self._add(producer_id, header.producer_epoch)
        if entry.epoch != header.producer_epoch:
            entry.take_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        first = header.base_sequence
        last = (first + delta) & SEQUENCE_MASK if first >= 0 else first
        entry.batches = (
            *entry.batches[1 - BATCHES_KEPT :],
            BatchMark(first, last, last_offset, delta, timestamp),
        )
        entry.last_timestamp = timestamp
        if entry.txn_first_offset < 0 and header.is_transactional:
            entry.txn_first_offset = last_offset - delta
            self.transactions.begin(producer_id, last_offset - delta)

    def end_transaction(self, marker: Marker, offset: int, timestamp: int) -> EndedTransaction | None:
        """Take in a marker that was appended; return the transaction that it ends, None if it had no records.

        Copied, or compacted, a log can have markers of epochs long gone: those end nothing any more.
        """
        producer_id = marker.producer_id
        entry = self._producers.get(producer_id) or self._add(producer_id, marker.producer_epoch)
        entry.take_epoch(marker.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = timestamp
        entry.txn_first_offset = -1
        return self.transactions.end(producer_id, offset, marker.is_commit)

    def replay(self, header: BatchHeader, batch: memoryview | None) -> EndedTransaction | None:
        """Take in a batch of the log, as it is in the log; of control batches `batch` itself is needed.

        Returns the transaction that it ends, if it does.
        """
        ended = None
        if header.producer_id >= 0:
            if not header.is_control:
                self.update(header, header.last_offset, header.max_timestamp)
            elif batch is not None:
                marker = decode_marker(header, batch)
                if marker is not None:
                    ended = self.end_transaction(marker, header.last_offset, header.max_timestamp)
        self.end_offset = header.next_offset
        return ended

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that were idle for `expiration_ms`, unless they have a transaction open."""
        idle_since = now_ms - expiration_ms
        expired = [
            producer_id
            for producer_id, entry in self._producers.items()
            if entry.last_timestamp <= idle_since and entry.txn_first_offset < 0
        ]
        for producer_id in expired:
            del self._producers[producer_id]

    def first_open_offset(self) -> int | None:
        """Return where the oldest open transaction starts, or None."""
        return self.transactions.first_open_offset

    def _add(self, producer_id: int, epoch: int) -> ProducerEntry:
        entry = self._producers[producer_id] = ProducerEntry(epoch)
        return entry

    # Snapshots
    def encode(self) -> bytes:
        """Return the snapshot file's contents."""
        return encode_snapshot(self._producers)

    @classmethod
    def decode(cls, data: bytes, end_offset: int) -> ProducerState:
        """Return the state that `encode` wrote; CorruptSnapshot if it is not whole."""
        state = cls(end_offset)
        state._producers = decode_snapshot(data)
        started = [
            (e.txn_first_offset, key) for key, e in state._producers.items() if e.txn_first_offset >= 0
        ]
        for first_offset, producer_id in sorted(started):
            state.transactions.begin(producer_id, first_offset)
        return state
