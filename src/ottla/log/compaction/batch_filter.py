"""What compaction leaves of one batch.

A record stays if it is the latest of its key, as far as the key map knows; a tombstone (a key with a null
value) among those goes too once it is past its batch's delete horizon. Records without a key go.

A batch that changes keeps its base and last offset, producer id, epoch and sequence, leader epoch,
timestamps and codec: offsets never move, and a producer's state can be rebuilt from what is left. The
first round that meets a tombstone writes the delete horizon, now + delete.retention.ms, into the batch
(attribute bit 6, in the place of base_timestamp), so that every consumer has that long to see it.

A batch that lost all its records goes, unless it has to stay behind as a bare header:
- the last batch of an active producer, which carries its latest sequence number;
- the last batch of what is being copied, which says where the copy ends.

Control batches are never compared by key. A transaction's marker stays until a round finds nothing
left of the transaction; it then gets a delete horizon of its own. Aborted records go at once.

A batch whose records cannot be decoded stays as it is: nothing can be said about its keys, and one bad
batch must not keep a log from being cleaned. A wrong checksum is another matter: CorruptMessage, because
a copy with a fresh checksum would hide the damage for ever.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from ottla.log.compaction.offset_map import OffsetMap
from ottla.log.producer_state import ProducerEntry
from ottla.log.transaction_index import AbortedTransaction
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import BatchHeader, Buffer, check_crc
from ottla.protocol.records.control import decode_marker
from ottla.protocol.records.records import Record, decode_records, encode_batch, iter_records

# Which transactions in a stretch of a log were aborted, found out by reading headers and markers.
#
# A marker (see protocol/records/control.py) decides all transactional batches of its producer since that
# producer's marker before. It may lie beyond the stretch that is asked about, so the scan goes on until
# nothing is open. What is still open at the end of the log bounds how far the log can be cleaned.

_first_offset = itemgetter(0)


class AbortedTransactions:
    """Feed it every transactional batch, in order; then it knows which were aborted."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._aborted: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    def saw_records(self, header: BatchHeader) -> None:
        """Take note of a transactional batch."""
        self._open.setdefault(header.producer_id, header.base_offset)

    def saw_marker(self, header: BatchHeader, batch: memoryview) -> None:
        """Take note of a control batch."""
        first_offset = self._open.pop(header.producer_id, None)
        if first_offset is not None and is_abort(header, batch):
            self._aborted[header.producer_id].append((first_offset, header.last_offset))

    def includes(self, header: BatchHeader) -> bool:
        """Return whether a transactional batch belongs to an aborted transaction."""
        ranges = self._aborted.get(header.producer_id)
        if ranges is None:
            return False
        at = bisect_right(ranges, header.base_offset, key=_first_offset) - 1
        return at >= 0 and header.base_offset <= ranges[at][1]

    @property
    def first_open_offset(self) -> int | None:
        """Where the oldest transaction starts whose marker was not seen yet; None if there is none."""
        return min(self._open.values(), default=None)

    def has_open_below(self, offset: int) -> bool:
        """Return whether the fate of something below `offset` is still unknown."""
        return any(first < offset for first in self._open.values())


class KeptTransactions:
    """Feed it every batch that compaction keeps, from the log's start: it tells what to put into the index.

    What is left of an aborted transaction, if anything, are batches without records. As long as there is one,
    the transaction is in the index: it is what one would find by building the index anew.
    """

    def __init__(self) -> None:
        self._open: dict[int, int] = {}

    def saw(self, header: BatchHeader, batch: Buffer) -> AbortedTransaction | None:
        """Take note of a batch; return the transaction that it aborts, if any."""
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

Pace = Callable[[int], None]
"""Called in the copying thread with the bytes just dealt with: may sleep, or raise to break the round off."""

_RECORDS_AT_A_STRETCH = 256


def paced(records: Iterable[Record], pace: Pace) -> Iterator[Record]:
    """Yield the records of a batch, which may be many thousands, with a pause every now and then."""
    for number, record in enumerate(records, start=1):
        yield record
        if number % _RECORDS_AT_A_STRETCH == 0:
            pace(0)


class BatchFilter:
    """One round's rules; feed it every batch of the round, in order: it follows transactions."""

    def __init__(
        self,
        key_map: OffsetMap,
        *,
        end_offset: int,
        producers: Mapping[int, ProducerEntry],
        aborted: AbortedTransactions,
        delete_retention_ms: int,
        now_ms: int,
        pace: Pace = lambda size: None,
    ) -> None:
        self._latest = key_map.get
        self._end_offset = end_offset
        self._producers = producers
        self._aborted = aborted
        self._horizon_ms = now_ms + delete_retention_ms
        self._now_ms = now_ms
        self._pace = pace
        self._open_transactions: set[int] = set()
        self.undecodable = 0

    def compact(self, header: BatchHeader, batch: memoryview, *, must_stay: bool = False) -> Batch | None:
        """Return what stays of `batch`: itself, a smaller one, or None."""
        check_crc(batch, header)
        if header.base_offset >= self._end_offset:
            return batch
        must_stay = must_stay or self._is_last_of_producer(header)
        try:
            if header.is_control:
                return self._compact_marker(header, batch, must_stay)
            return self._compact_data(header, batch, must_stay)
        except KafkaError:
            self.undecodable += 1
            return batch

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """A producer of which only a marker is left is known by that, for its epoch."""
        last = self._producers.get(header.producer_id)
        if last is None:
            return False
        if last.batches:
            return header.last_offset == last.batches[-1].last_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _compact_marker(self, header: BatchHeader, batch: memoryview, must_stay: bool) -> Batch | None:
        """Keep a marker while records of its transaction are left, and for its delete horizon after that."""
        has_records_left = header.producer_id in self._open_transactions
        self._open_transactions.discard(header.producer_id)
        if not header.is_transactional or has_records_left:
            return batch
        if header.record_count == 0:
            return batch if must_stay else None
        if not header.has_delete_horizon:
            return _rebuilt(header, decode_records(batch), self._horizon_ms)
        if self._now_ms < header.base_timestamp:
            return batch
        return _bare(header) if must_stay else None

    def _compact_data(self, header: BatchHeader, batch: memoryview, must_stay: bool) -> Batch | None:
        if header.is_transactional:
            self._open_transactions.add(header.producer_id)
            if self._aborted.includes(header):
                return _bare(header) if must_stay else None
        if header.record_count == 0:
            return batch if must_stay else None
        records = list(paced(iter_records(batch), self._pace))
        tombstones_go = header.has_delete_horizon and header.base_timestamp <= self._now_ms
        kept = [record for record in paced(records, self._pace) if self._stays(record, tombstones_go)]
        if not kept:
            return _bare(header) if must_stay else None
        horizon_ms = header.base_timestamp if header.has_delete_horizon else None
        if horizon_ms is None and any(record.value is None for record in kept):
            return _rebuilt(header, kept, self._horizon_ms)
        return batch if len(kept) == len(records) else _rebuilt(header, kept, horizon_ms)

    def _stays(self, record: Record, tombstones_go: bool) -> bool:
        if record.offset >= self._end_offset:
            return True
        if record.key is None or (tombstones_go and record.value is None):
            return False
        return record.offset >= self._latest(record.key)


def _rebuilt(header: BatchHeader, records: Sequence[Record], delete_horizon_ms: int | None) -> bytearray:
    """Return the batch with only these records in it, otherwise as it was."""
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


def _bare(header: BatchHeader) -> bytearray:
    """Return the batch without any records."""
    return _rebuilt(header._replace(attributes=header.attributes & ~7), (), None)
