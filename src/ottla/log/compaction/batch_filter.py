"""Decide what compaction keeps of one batch, and which transactions were aborted.

A record is kept if it is the latest of its key, as far as the offset map knows. A tombstone (a key with a
null value) is dropped once its batch's delete horizon has passed and all replicas are in sync: one that is
not, and has an earlier value of the key, would never get the tombstone. Records without a key are dropped.

A batch that changes keeps its base and last offset, producer id, epoch and sequence, leader epoch, timestamps
and codec: offsets never move, and producer state can be rebuilt from what is left. The first compaction that
meets a tombstone writes the delete horizon, now + delete.retention.ms, into the batch (attribute bit 6, in
place of base_timestamp), so that every consumer has that long to read it.

A batch without records is dropped, unless its header must be kept:
- the last batch of an active producer, which has its latest sequence number;
- the last batch of a copied segment group, which determines where the copy ends.

Control batches are not compared by key. A transaction's marker decides all transactional batches of its
producer since that producer's previous marker. It may follow after the range being compacted, so the scan
continues until no transaction is open; one that is open at the end of the log limits how far the log can be
compacted. A marker is kept until a compaction finds no records of its transaction; it then gets a delete
horizon too, and waits for all replicas. Records of aborted transactions are dropped immediately.

A batch whose records cannot be decoded is kept unchanged: nothing is known about its keys, and one bad batch
must not prevent compaction. A wrong checksum raises CorruptMessage instead, because a copy with a new
checksum would hide the damage.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from ottla.log.compaction.offset_map import OffsetMap
from ottla.log.producers.producer_state import ProducerEntry
from ottla.log.transaction_index import AbortedTransaction
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import BatchHeader, Buffer, check_crc
from ottla.protocol.records.control import decode_marker
from ottla.protocol.records.records import Record, decode_records, encode_batch, iter_records

_first_offset = itemgetter(0)


class AbortedTransactions:
    """Finds the aborted transactions of a log range. Pass it every transactional batch, in order."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._aborted: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    def add_batch(self, header: BatchHeader) -> None:
        """Add a transactional data batch."""
        self._open.setdefault(header.producer_id, header.base_offset)

    def add_marker(self, header: BatchHeader, batch: memoryview) -> None:
        """Add a control batch."""
        first_offset = self._open.pop(header.producer_id, None)
        if first_offset is not None and is_abort(header, batch):
            self._aborted[header.producer_id].append((first_offset, header.last_offset))

    def includes(self, header: BatchHeader) -> bool:
        """Return whether a transactional batch belongs to an aborted transaction."""
        ranges = self._aborted.get(header.producer_id)
        if ranges is None:
            return False
        index = bisect_right(ranges, header.base_offset, key=_first_offset) - 1
        return index >= 0 and header.base_offset <= ranges[index][1]

    @property
    def first_open_offset(self) -> int | None:
        """Return where the oldest transaction without a marker starts; None if there is none."""
        return min(self._open.values(), default=None)

    def has_open_below(self, offset: int) -> bool:
        """Return whether a transaction that starts below `offset` has no marker yet."""
        return any(first < offset for first in self._open.values())


class TransactionIndexBuilder:
    """Builds the transaction index of compacted segments. Pass it every kept batch, from the log's start.

    Of an aborted transaction at most batches without records are left. While there is one, the transaction is
    in the index, as it would be if the index were rebuilt.
    """

    def __init__(self) -> None:
        self._open: dict[int, int] = {}

    def add(self, header: BatchHeader, batch: Buffer) -> AbortedTransaction | None:
        """Add a batch; return the transaction that it aborts, if any."""
        producer_id = header.producer_id
        if not header.is_control:
            if header.is_transactional:
                self._open.setdefault(producer_id, header.base_offset)
            return None
        marker = decode_marker(header, batch)
        first_offset = None if marker is None else self._open.pop(producer_id, None)
        if marker is None or first_offset is None or marker.is_commit:
            return None
        stable = next(iter(self._open.values()), header.next_offset)
        return AbortedTransaction(producer_id, first_offset, header.last_offset, stable)


def is_abort(header: BatchHeader, batch: memoryview) -> bool:
    """Return whether a control batch aborts its producer's transaction."""
    marker = decode_marker(header, batch)
    return marker is not None and not marker.is_commit


Batch = memoryview | bytearray

ThrottleCallback = Callable[[int], None]
"""Called in the copying thread with the number of bytes just processed: may sleep, or raise to cancel the
job.
"""

_RECORDS_PER_SLICE = 256


def throttled(records: Iterable[Record], throttle: ThrottleCallback) -> Iterator[Record]:
    """Yield the records of a batch, which may be many thousands, calling `throttle` at intervals."""
    for number, record in enumerate(records, start=1):
        yield record
        if number % _RECORDS_PER_SLICE == 0:
            throttle(0)


class BatchFilter:
    """Filters the batches of one compaction job. Pass it every batch, in order: it tracks transactions."""

    def __init__(
        self,
        key_map: OffsetMap,
        *,
        end_offset: int,
        producers: Mapping[int, ProducerEntry],
        aborted: AbortedTransactions,
        delete_retention_ms: int,
        now_ms: int,
        keep_deletes: bool = False,
        throttle: ThrottleCallback = lambda size: None,
    ) -> None:
        self._latest = key_map.get
        self._end_offset = end_offset
        self._producers = producers
        self._aborted = aborted
        self._horizon_ms = now_ms + delete_retention_ms
        self._now_ms = now_ms
        self._keep_deletes = keep_deletes
        self._throttle = throttle
        self._open_transactions: set[int] = set()
        self.undecodable = 0

    def compact(self, header: BatchHeader, batch: memoryview, *, must_keep: bool = False) -> Batch | None:
        """Return what is kept of `batch`: the batch itself, a smaller one, or None."""
        check_crc(batch, header)
        if header.base_offset >= self._end_offset:
            return batch
        must_keep = must_keep or self._is_last_of_producer(header)
        try:
            if header.is_control:
                return self._compact_marker(header, batch, must_keep)
            return self._compact_data(header, batch, must_keep)
        except KafkaError:
            self.undecodable += 1
            return batch

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Return whether a producer's state depends on this batch: its last one, or its marker if only that
        is left.
        """
        last = self._producers.get(header.producer_id)
        if last is None:
            return False
        if last.batches:
            return header.last_offset == last.batches[-1].last_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _compact_marker(self, header: BatchHeader, batch: memoryview, must_keep: bool) -> Batch | None:
        """Keep a marker while records of its transaction are left, and until its delete horizon after
        that.
        """
        has_records_left = header.producer_id in self._open_transactions
        self._open_transactions.discard(header.producer_id)
        if not header.is_transactional or has_records_left:
            return batch
        if header.record_count == 0:
            return batch if must_keep else None
        if not header.has_delete_horizon:
            return _rebuilt(header, decode_records(batch), self._horizon_ms)
        if not self._is_past_horizon(header):
            return batch
        return _emptied(header) if must_keep else None

    def _compact_data(self, header: BatchHeader, batch: memoryview, must_keep: bool) -> Batch | None:
        if header.is_transactional:
            self._open_transactions.add(header.producer_id)
            if self._aborted.includes(header):
                return _emptied(header) if must_keep else None
        if header.record_count == 0:
            return batch if must_keep else None
        records = list(throttled(iter_records(batch), self._throttle))
        drop_tombstones = self._is_past_horizon(header)
        kept = [
            record for record in throttled(records, self._throttle) if self._keeps(record, drop_tombstones)
        ]
        if not kept:
            return _emptied(header) if must_keep else None
        horizon_ms = header.base_timestamp if header.has_delete_horizon else None
        if horizon_ms is None and any(record.value is None for record in kept):
            return _rebuilt(header, kept, self._horizon_ms)
        return batch if len(kept) == len(records) else _rebuilt(header, kept, horizon_ms)

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        """Return whether tombstones and markers of the batch may go."""
        is_past = header.has_delete_horizon and header.base_timestamp <= self._now_ms
        return is_past and not self._keep_deletes

    def _keeps(self, record: Record, drop_tombstones: bool) -> bool:
        if record.offset >= self._end_offset:
            return True
        if record.key is None or (drop_tombstones and record.value is None):
            return False
        return record.offset >= self._latest(record.key)


def _rebuilt(header: BatchHeader, records: Sequence[Record], delete_horizon_ms: int | None) -> bytearray:
    """Return the batch with only these records, otherwise unchanged."""
    return encode_batch(
        records,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        codec=header.codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        leader_epoch=header.leader_epoch,
        max_timestamp=None if records and not header.is_log_append_time else header.max_timestamp,
        transactional=header.is_transactional,
        control=header.is_control,
        log_append_time=header.is_log_append_time,
        delete_horizon_ms=delete_horizon_ms,
    )


def _emptied(header: BatchHeader) -> bytearray:
    """Return the batch without records."""
    return _rebuilt(header._replace(attributes=header.attributes & ~7), (), None)
