"""What a log remembers of its idempotent producers, so that a retried batch is not written twice.

For each producer id: its epoch, its last five batches (a client has at most five requests in
flight), and the transaction that it has open. The rules are Kafka's:

- a batch with the sequence numbers of one of the last five is a duplicate: the answer is the offset
  that it got then;
- otherwise it must start one after the last batch (after 2^31 - 1 comes 0), at 0 in a new epoch;
- an epoch older than the newest one seen is fenced;
- of a producer that is not known (new, or forgotten after producer.id.expiration.ms), any sequence
  number is accepted: its earlier records may have been deleted.

State is a function of the log: `replay` of every batch since a snapshot gives it back.

Snapshot file `<offset>.snapshot`, big-endian: the state just before `offset`
    at  size  field
     0     2  version, 1
     2     4  CRC32C of everything after this field
     6     4  number of entries
    10        per batch that is remembered, 46 bytes, the oldest of a producer first:
     0     8  producer id
     8     2  producer epoch
    10     4  last sequence number, -1 if none
    14     8  last offset, -1 if none
    22     4  last offset - first offset
    26     8  timestamp
    34     4  epoch of the transaction coordinator, -1 if none
    38     8  first offset of the open transaction, -1 if none

Kafka writes one entry per producer, of its last batch, and when it reads a file the last entry of a producer
counts: so it reads ours as one of its own. We read all of them, and know the same duplicates after a
restart as before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from ottla.protocol.errors import (
    CorruptMessage,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
)
from ottla.protocol.record_batch import BatchHeader
from ottla.protocol.records import decode_records

BATCHES_KEPT = 5
MAX_PRODUCERS = 10_000
"""Per partition; beyond it those that wrote least recently are forgotten, as if they had expired.

A snapshot is encoded on the loop, at every roll: of so many, with five batches each, in about 40 ms.
"""

_SEQUENCE_MASK = 0x7FFFFFFF
_HEAD = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1
_CRC_FROM = 6
_MARKER_VALUE = Struct(">hi")


class CorruptSnapshot(Exception):
    """A snapshot file is torn, or its bits have changed."""


class BatchMark(NamedTuple):
    """One of the last batches of a producer."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The base offset that the batch got."""
        return self.last_offset - self.offset_delta


_NO_MARKS = (BatchMark(-1, -1, -1, 0, -1),)


class ProducerEntry:
    """The state of one producer id."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "txn_first_offset")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: tuple[BatchMark, ...] = ()
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.txn_first_offset = -1

    @property
    def last_sequence(self) -> int:
        """The last sequence number of this epoch, -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        """The last offset that it wrote in this epoch, -1 if there is none."""
        return self.batches[-1].last_offset if self.batches else -1


class ProducerState:
    """All producers of one log, up to `end_offset`."""

    __slots__ = ("_producers", "end_offset", "snapshot_offset")

    def __init__(self, end_offset: int = 0) -> None:
        self._producers: dict[int, ProducerEntry] = {}
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
            if sequence != (entry.last_sequence + 1) & _SEQUENCE_MASK:
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

    # Replaying
    def update(self, header: BatchHeader, last_offset: int, timestamp: int) -> None:
        """Take in a data batch that was appended with this last offset."""
        producer_id = header.producer_id
        entry = self._producers.get(producer_id) or self._add(producer_id, header.producer_epoch)
        if entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches = ()
        delta = header.last_offset_delta
        first = header.base_sequence
        last = (first + delta) & _SEQUENCE_MASK if first >= 0 else first
        entry.batches = (
            *entry.batches[1 - BATCHES_KEPT :],
            BatchMark(first, last, last_offset, delta, timestamp),
        )
        entry.last_timestamp = timestamp
        if entry.txn_first_offset < 0 and header.is_transactional:
            entry.txn_first_offset = last_offset - delta

    def end_transaction(self, header: BatchHeader, coordinator_epoch: int) -> None:
        """Take in the marker that ends a producer's transaction."""
        entry = self._producers.get(header.producer_id) or self._add(
            header.producer_id, header.producer_epoch
        )
        if entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches = ()
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        entry.txn_first_offset = -1

    def replay(self, header: BatchHeader, batch: memoryview | None) -> None:
        """Take in a batch of the log; `batch` itself is needed only for control batches."""
        if header.producer_id >= 0:
            if not header.is_control:
                self.update(header, header.last_offset, header.max_timestamp)
            elif batch is not None and header.record_count:
                self.end_transaction(header, marker_coordinator_epoch(batch))
        self.end_offset = header.next_offset

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
        starts = [entry.txn_first_offset for entry in self._producers.values() if entry.txn_first_offset >= 0]
        return min(starts, default=None)

    def _add(self, producer_id: int, epoch: int) -> ProducerEntry:
        if len(self._producers) >= MAX_PRODUCERS:
            self._forget_some()
        entry = self._producers[producer_id] = ProducerEntry(epoch)
        return entry

    def _forget_some(self) -> None:
        """Forget a tenth of the producers at once, which costs one sort: those that wrote least recently."""
        idle = ((e.last_offset, key) for key, e in self._producers.items() if e.txn_first_offset < 0)
        for _, producer_id in sorted(idle)[: max(1, MAX_PRODUCERS // 10)]:
            del self._producers[producer_id]

    # Snapshots
    def encode(self) -> bytes:
        """Return the snapshot file's contents."""
        body = bytearray(_HEAD.size)
        count = 0
        for producer_id, entry in self._producers.items():
            epoch, coordinator_epoch, txn = entry.epoch, entry.coordinator_epoch, entry.txn_first_offset
            marks = entry.batches or _NO_MARKS
            for _, sequence, offset, delta, time in (*marks[:-1], (*marks[-1][:-1], entry.last_timestamp)):
                body += _ENTRY.pack(producer_id, epoch, sequence, offset, delta, time, coordinator_epoch, txn)
            count += len(marks)
        _HEAD.pack_into(body, 0, _VERSION, 0, count)
        _HEAD.pack_into(body, 0, _VERSION, crc32c(memoryview(body)[_CRC_FROM:]), count)
        return bytes(body)

    @classmethod
    def decode(cls, data: bytes, end_offset: int) -> ProducerState:
        """Return the state that `encode` wrote; CorruptSnapshot if it is not whole."""
        if len(data) < _HEAD.size:
            raise CorruptSnapshot(f"{len(data)} bytes are too few")
        version, crc, count = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise CorruptSnapshot(f"version {version} is unknown")
        if crc32c(memoryview(data)[_CRC_FROM:]) != crc or len(data) != _HEAD.size + count * _ENTRY.size:
            raise CorruptSnapshot("the checksum or the length is wrong")
        state = cls(end_offset)
        for fields in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :]):
            state._restore(*fields)
        return state

    def _restore(
        self,
        producer_id: int,
        epoch: int,
        last_sequence: int,
        last_offset: int,
        offset_delta: int,
        timestamp: int,
        coordinator_epoch: int,
        txn_first_offset: int,
    ) -> None:
        entry = self._producers.get(producer_id)
        if entry is None or entry.epoch != epoch:
            entry = self._producers[producer_id] = ProducerEntry(epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        entry.txn_first_offset = txn_first_offset
        if last_offset >= 0:
            first = (last_sequence - offset_delta) & _SEQUENCE_MASK if last_sequence >= 0 else last_sequence
            mark = BatchMark(first, last_sequence, last_offset, offset_delta, timestamp)
            entry.batches = (*entry.batches[1 - BATCHES_KEPT :], mark)


def marker_coordinator_epoch(batch: memoryview) -> int:
    """Return the coordinator epoch in a control batch; -1 if it says none."""
    try:
        for record in decode_records(batch):
            if record.value is not None and len(record.value) >= _MARKER_VALUE.size:
                return int(_MARKER_VALUE.unpack_from(record.value)[1])
    except (CorruptMessage, InvalidRecord):
        pass
    return -1
