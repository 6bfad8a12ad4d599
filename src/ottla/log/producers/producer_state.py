"""Remember a log's idempotent producers and open transactions, so that a retried batch is not written twice.

For each producer id: its epoch, its last five batches (a client has at most five requests in flight), and its
open transaction. The rules are Kafka's:

- a batch with the sequence numbers of one of the last five is a duplicate: the response has the original
  offset;
- otherwise it must start one after the last batch (0 follows 2^31 - 1), or at 0 in a new epoch;
- an epoch older than the newest one seen is fenced;
- of an unknown producer (new, or expired after producer.id.expiration.ms) any sequence number is accepted:
  its earlier records may have been deleted (but see api/support/first_sequence_guard.py);
- a marker from a replaced coordinator is rejected. With transaction version 2 a marker has an epoch that no
  batch of its transaction has, and fences them: a late marker cannot end a later transaction, and a late
  batch cannot begin one that is never ended (KIP-890).

No producer is dropped earlier, however many there are; producer_limit.py limits how many are admitted.

Everything below the first unstable offset is decided: its transactions have ended, with committed markers. A
transaction whose marker is in the log but above the high watermark still holds back read_committed consumers:
a failover could remove the marker, and what was readable must stay readable. Transactions begin in the order
of their offsets, so a dictionary keeps the oldest one first.

State is a function of the log: `replay` of every batch since a snapshot restores it. A snapshot is written at
every roll and at a clean shutdown.

    `<offset>.snapshot`, big-endian: the state just before `offset`
    at  size  field
     0     2  version, 1
     2     4  CRC32C of everything after this field
     6     4  number of entries
    10        per remembered batch, 46 bytes, a producer's oldest first:
     0     8  producer id
     8     2  producer epoch
    10     4  last sequence number, -1 if none
    14     8  last offset, -1 if none
    22     4  last offset - first offset
    26     8  timestamp
    34     4  epoch of the transaction coordinator, -1 if none
    38     8  first offset of the open transaction, -1 if none

Kafka writes one entry per producer, for its last batch, and when it reads a file the last entry of a producer
wins: so it can read ours. We read all of them, and detect the same duplicates after a restart as before it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from struct import Struct
from typing import NamedTuple

from ottla.log.disk import DirEntry, Disk
from ottla.log.file_names import CORRUPT, SNAPSHOT, file_name, offset_of
from ottla.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from ottla.protocol.records.batch import BatchHeader
from ottla.protocol.records.checksum import crc32c
from ottla.protocol.records.control import Marker, decode_marker

logger = logging.getLogger(__name__)


MAX_UNCOMMITTED = 100_000
"""How many ended transactions are remembered until their markers are committed; the oldest is dropped
first.
"""


class EndedTransaction(NamedTuple):
    """A transaction from its first record to its marker."""

    producer_id: int
    first_offset: int
    marker_offset: int
    is_commit: bool


class OpenTransactions:
    """The open transactions of one log by producer, and those whose markers are not committed yet."""

    __slots__ = ("_open", "_uncommitted")

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._uncommitted: deque[EndedTransaction] = deque(maxlen=MAX_UNCOMMITTED)

    def __len__(self) -> int:
        return len(self._open)

    def __bool__(self) -> bool:
        return bool(self._open or self._uncommitted)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Add a producer's first transactional batch."""
        self._open[producer_id] = first_offset

    def end(self, producer_id: int, marker_offset: int, is_commit: bool) -> EndedTransaction | None:
        """Add a marker; return the transaction that it ends, or None if it has no records here."""
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return None
        ended = EndedTransaction(producer_id, first_offset, marker_offset, is_commit)
        self._uncommitted.append(ended)
        return ended

    @property
    def first_open_offset(self) -> int | None:
        """Return where the oldest transaction without a marker starts; None if all have one."""
        return next(iter(self._open.values())) if self._open else None

    def forget_committed(self, high_watermark: int) -> None:
        """Drop ended transactions whose markers are below the high watermark."""
        waiting = self._uncommitted
        while waiting and waiting[0].marker_offset < high_watermark:
            waiting.popleft()

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return where the first transaction without a committed marker starts; None if there is none."""
        self.forget_committed(high_watermark)
        first = self.first_open_offset
        for ended in self._uncommitted:
            if first is None or ended.first_offset < first:
                first = ended.first_offset
        return first


BATCHES_KEPT = 5
UNKNOWN = -1
GRACE_MS = 3_600_000
"""How long a producer with old timestamps is kept at least if that time is unknown."""


class BatchMetadata(NamedTuple):
    """One of the last batches of a producer."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """Return the base offset of the batch."""
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """The state of one producer id."""

    __slots__ = (
        "appended_ms", "batches", "coordinator_epoch", "epoch", "last_timestamp", "txn_first_offset"
    )  # fmt: skip

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.appended_ms = UNKNOWN
        """When its last batch was appended; unknown if it was copied from the leader, or loaded."""
        self.batches: tuple[BatchMetadata, ...] = ()
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.txn_first_offset = -1

    @property
    def last_sequence(self) -> int:
        """Return the last sequence number of this epoch, -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        """Return the last offset that it wrote in this epoch, -1 if there is none."""
        return self.batches[-1].last_offset if self.batches else -1

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; in a new one, sequence numbers start again."""
        if self.epoch != epoch:
            self.epoch = epoch
            self.batches = ()


FIRST_WITH_EPOCH_PER_TRANSACTION = 2
"""The first transaction version in which a marker's epoch is larger than that of its transaction."""


class ProducerState:
    """All producers of one log, up to `end_offset`."""

    __slots__ = ("_producers", "end_offset", "snapshot_offset", "transactions")

    def __init__(self, end_offset: int = 0) -> None:
        self._producers: dict[int, ProducerEntry] = {}
        self.transactions = OpenTransactions()
        self.end_offset = end_offset
        self.snapshot_offset = -1
        """The offset of the newest snapshot on disk."""

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def producers(self) -> Mapping[int, ProducerEntry]:
        """Return every producer by its id."""
        return self._producers

    # Deciding
    def check(self, header: BatchHeader) -> BatchMetadata | None:
        """Return None if the batch may be appended, or the earlier batch that it duplicates; or raise."""
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

    def _find_duplicate(self, entry: ProducerEntry, header: BatchHeader) -> BatchMetadata:
        first, last = header.base_sequence, header.last_sequence
        for batch in entry.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        raise OutOfOrderSequenceNumber(
            f"producer {header.producer_id} sent sequence number {first} after {entry.last_sequence}"
        )

    def check_marker(self, marker: Marker) -> None:
        """Raise if a marker may not be appended."""
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
        """Return whether a producer has an open transaction in this epoch."""
        entry = self._producers.get(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch

    # Replaying
    def update(
        self, header: BatchHeader, last_offset: int, timestamp: int, appended_ms: int = UNKNOWN
    ) -> None:
        """Add a data batch that was appended with this last offset."""
        producer_id = header.producer_id
        entry = self._producers.get(producer_id) or self._add(producer_id, header.producer_epoch)
        if entry.epoch != header.producer_epoch:
            entry.set_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        first = header.base_sequence
        last = (first + delta) & SEQUENCE_MASK if first >= 0 else first
        entry.batches = (
            *entry.batches[1 - BATCHES_KEPT :],
            BatchMetadata(first, last, last_offset, delta, timestamp),
        )
        entry.last_timestamp = timestamp
        entry.appended_ms = appended_ms
        if entry.txn_first_offset < 0 and header.is_transactional:
            entry.txn_first_offset = last_offset - delta
            self.transactions.begin(producer_id, last_offset - delta)

    def end_transaction(self, marker: Marker, offset: int, timestamp: int) -> EndedTransaction | None:
        """Add an appended marker; return the transaction that it ends, None if it had no records.

        A copied or compacted log can contain markers of old epochs: those end nothing.
        """
        producer_id = marker.producer_id
        entry = self._producers.get(producer_id) or self._add(producer_id, marker.producer_epoch)
        entry.set_epoch(marker.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = timestamp
        entry.txn_first_offset = -1
        return self.transactions.end(producer_id, offset, marker.is_commit)

    def replay(self, header: BatchHeader, batch: memoryview | None) -> EndedTransaction | None:
        """Add a batch as it is in the log; for control batches `batch` itself is needed.

        Returns the transaction that it ends, if any.
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
        """Drop producers that were idle for `expiration_ms`, unless they have an open transaction.

        Records may bear old timestamps, as those of a backfill do: a producer that writes them is not idle.
        """
        idle_since = now_ms - expiration_ms
        expired = []
        for producer_id, entry in self._producers.items():
            last_ms = max(entry.last_timestamp, entry.appended_ms)
            if last_ms > idle_since or entry.txn_first_offset >= 0:
                continue
            if entry.appended_ms == UNKNOWN:
                entry.appended_ms = idle_since + min(GRACE_MS, expiration_ms)
            else:
                expired.append(producer_id)
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
        """Return the state that `encode` wrote; CorruptSnapshot if it is incomplete."""
        state = cls(end_offset)
        state._producers = decode_snapshot(data)
        started = [
            (e.txn_first_offset, key) for key, e in state._producers.items() if e.txn_first_offset >= 0
        ]
        for first_offset, producer_id in sorted(started):
            state.transactions.begin(producer_id, first_offset)
        return state


SEQUENCE_MASK = 0x7FFFFFFF

_HEAD = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1
_CRC_FROM = 6
_NO_BATCHES = (BatchMetadata(-1, -1, -1, 0, -1),)


class CorruptSnapshot(Exception):
    """A snapshot file is torn, or its bits have changed."""


def encode_snapshot(producers: Mapping[int, ProducerEntry]) -> bytes:
    """Return the file's contents."""
    body = bytearray(_HEAD.size)
    count = 0
    for producer_id, entry in producers.items():
        epoch, coordinator_epoch, txn = entry.epoch, entry.coordinator_epoch, entry.txn_first_offset
        batches = entry.batches or _NO_BATCHES
        for _, sequence, offset, delta, time in (*batches[:-1], (*batches[-1][:-1], entry.last_timestamp)):
            body += _ENTRY.pack(producer_id, epoch, sequence, offset, delta, time, coordinator_epoch, txn)
        count += len(batches)
    _HEAD.pack_into(body, 0, _VERSION, 0, count)
    _HEAD.pack_into(body, 0, _VERSION, crc32c(memoryview(body)[_CRC_FROM:]), count)
    return bytes(body)


def decode_snapshot(data: bytes) -> dict[int, ProducerEntry]:
    """Return the producers that `encode_snapshot` wrote; CorruptSnapshot if the file is incomplete."""
    if len(data) < _HEAD.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"version {version} is unknown")
    if crc32c(memoryview(data)[_CRC_FROM:]) != crc or len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshot("the checksum or the length is wrong")
    producers: dict[int, ProducerEntry] = {}
    for producer_id, epoch, *fields in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :]):
        entry = producers.get(producer_id)
        if entry is None or entry.epoch != epoch:
            entry = producers[producer_id] = ProducerEntry(epoch)
        _add(entry, *fields)
    return producers


def _add(
    entry: ProducerEntry,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> None:
    entry.coordinator_epoch = coordinator_epoch
    entry.last_timestamp = timestamp
    entry.txn_first_offset = txn_first_offset
    if last_offset >= 0:
        first = (last_sequence - offset_delta) & SEQUENCE_MASK if last_sequence >= 0 else last_sequence
        batch = BatchMetadata(first, last_sequence, last_offset, offset_delta, timestamp)
        entry.batches = (*entry.batches[1 - BATCHES_KEPT :], batch)


def snapshot_path(directory: str, offset: int) -> str:
    """Return the name of the snapshot of the state just before `offset`."""
    return f"{directory}/{file_name(offset, SNAPSHOT)}"


def snapshot_offsets(entries: Iterable[DirEntry]) -> list[int]:
    """Return the offsets of all snapshots in a directory, ascending."""
    found = (offset_of(entry.name, SNAPSHOT) for entry in entries)
    return sorted(offset for offset in found if offset is not None)


def load_newest_snapshot(
    disk: Disk, directory: str, offsets: Iterable[int], limit: int, start: int
) -> ProducerState:
    """Return the state of the newest readable snapshot at or below `limit`; an empty one at `start` if there
    is none.

    One that cannot be read is renamed: the one before it and more of the log give the same state.
    """
    for offset in sorted(offsets, reverse=True):
        if not start <= offset <= limit:
            continue
        path = snapshot_path(directory, offset)
        try:
            state = ProducerState.decode(disk.read_file(path), offset)
            state.snapshot_offset = offset
            return state
        except FileNotFoundError:
            continue
        except CorruptSnapshot as problem:
            logger.error(
                "cannot read %s, renamed to %s%s; the state is rebuilt from the log: %s",
                path, path, CORRUPT, problem,
            )  # fmt: skip
            disk.rename(path, path + CORRUPT)
    return ProducerState(start)


def remove_snapshots_above(disk: Disk, directory: str, offsets: Iterable[int], limit: int) -> bool:
    """Remove the snapshots of states that the log no longer reaches; return whether there were any."""
    above = [offset for offset in offsets if offset > limit]
    for offset in above:
        disk.remove(snapshot_path(directory, offset))
    return bool(above)


def remove_snapshots_below(disk: Disk, directory: str, limit: int) -> None:
    """Remove the snapshots of states before `limit`, up to which the log is about to be compacted.

    They may contain open transactions whose markers will be gone: restoring from them would keep those open
    forever. The log itself, from its start, determines what is open.
    """
    for offset in snapshot_offsets(disk.list_dir(directory)):
        if offset < limit:
            disk.remove(snapshot_path(directory, offset))


def remove_stray_snapshots(
    disk: Disk, directory: str, offsets: Iterable[int], bases: Collection[int]
) -> None:
    """Remove the snapshots that belong to no segment, except the newest, which a clean shutdown wrote."""
    stray = sorted(offset for offset in offsets if offset not in bases)
    newest = max(offsets, default=-1)
    for offset in stray:
        if offset != newest:
            disk.remove(snapshot_path(directory, offset))
