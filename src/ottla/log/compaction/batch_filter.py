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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ottla.log.compaction.offset_map import OffsetMap
from ottla.log.compaction.transactions import AbortedTransactions
from ottla.log.producer_state import ProducerEntry
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import BatchHeader, check_crc
from ottla.protocol.records.records import Record, decode_records, encode_batch, iter_records

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
