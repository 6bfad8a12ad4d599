"""Appends the records of a state machine to its partition, and replays them when the partition is loaded."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from ottla.common.clock import Clock
from ottla.common.file_range import FileRange
from ottla.coordinator.effects import InTransaction
from ottla.coordinator.group import record_codec
from ottla.log.validator import recompresses
from ottla.protocol.errors import InvalidRecord, KafkaError
from ottla.protocol.records.batch import BatchHeader, decode_header, iter_batches
from ottla.protocol.records.control import Marker, decode_marker
from ottla.protocol.records.records import Record as LogRecord
from ottla.protocol.records.records import encode_batch, encode_single_record, iter_records
from ottla.replication.partition import Partition

logger = logging.getLogger(__name__)

READ_BYTES = 1024 * 1024
RECORDS_PER_SLICE = 500
"""How many records are replayed before other work of the event loop runs: a few milliseconds' worth."""
BATCH_BYTES = 512 * 1024
"""The largest batch, unless one record alone is larger."""
RECORD_OVERHEAD_BYTES = 20

Encode = Callable[[Any], tuple[bytes, bytes | None]]
"""From a machine's record to the bytes of its key and value."""
Decode = Callable[[bytes | None, bytes | None], Any]
"""The inverse; None for a record of an unknown type."""


class PartitionWriter:
    """Appends the records of one machine to its partition."""

    def __init__(
        self,
        partition: Partition,
        clock: Clock,
        codec: int = 0,
        encode: Encode = record_codec.encode_record,
        decode: Decode = record_codec.decode_record,
    ) -> None:
        self._partition = partition
        self._clock = clock
        self._codec = codec
        self._encode = encode
        self._decode = decode

    def append(self, records: tuple[Any, ...]) -> tuple[int, int]:
        """Append as many of the records as make one batch; return the offset after it, and how many."""
        first = records[0]
        self._partition.check_in_sync()
        if isinstance(first, Marker):
            return self._partition.append_marker(first).last_offset + 1, 1
        if len(records) == 1 and self._codec == 0 and not isinstance(first, InTransaction):
            key, value = self._encode(first)
            return self._append(encode_single_record(self._clock.wall_ms(), key, value)), 1
        producer: dict[str, Any] = {}
        if isinstance(first, InTransaction):
            records = tuple(each.record for each in records)
            producer = {
                "producer_id": first.producer_id,
                "producer_epoch": first.producer_epoch,
                "transactional": True,
            }
        now_ms = self._clock.wall_ms()
        batch: list[LogRecord] = []
        size, largest = 0, min(BATCH_BYTES, self._partition.log.config.max_message_bytes // 2)
        for record in records:
            key, value = self._encode(record)
            size += len(key) + (0 if value is None else len(value)) + RECORD_OVERHEAD_BYTES
            if size > largest and batch:
                break
            batch.append(LogRecord(len(batch), now_ms, key, value))
        return self._append(encode_batch(batch, codec=self._codec, **producer)), len(batch)

    def _append(self, batch: bytearray) -> int:
        """Append a batch; return the offset after it."""
        encoded = memoryview(batch)
        header = decode_header(encoded)
        # Keys and timestamps are our own: the records need no inspection.
        config = self._partition.log.config
        is_validated = config.compression_type == "producer" or not recompresses(header, config)
        return self._partition.append(encoded, header, is_validated=is_validated).last_offset + 1

    def committed(self, offset: int) -> asyncio.Future[None] | None:
        """Return None if all below `offset` is committed, else a future for when it is."""
        return self._partition.when_committed(offset)

    async def load(self, replay: Callable[[Any], None]) -> int:
        """Replay the whole partition, and return where it ends.

        Records that cannot be decoded are skipped, with a warning.
        """
        partition = self._partition
        offset, end_offset = partition.log_start_offset, partition.log.log_end_offset
        skipped: Counter[str] = Counter()
        replayed = 0
        while offset < end_offset:
            found = partition.read(offset, READ_BYTES, end_offset, at_least_one=True)
            data = found.records.read() if isinstance(found.records, FileRange) else found.records
            for header, batch in iter_batches(data):
                if header.is_control:
                    marker = decode_marker(header, batch)
                    if marker is not None:
                        replay(marker)
                    continue
                for each in iter_records(batch):
                    if each.offset >= offset:
                        _replay_one(header, each, self._decode, replay, skipped)
                        replayed += 1
                        if replayed % RECORDS_PER_SLICE == 0:
                            await asyncio.sleep(0)
            if found.next_offset <= offset:
                raise InvalidRecord(f"{partition.topic_partition} ends at {offset}, not at {end_offset}")
            offset = found.next_offset
        for reason, count in skipped.items():
            logger.warning("%s: skipped %d records: %s", partition.topic_partition, count, reason)
        return end_offset


def _replay_one(
    header: BatchHeader,
    each: LogRecord,
    decode: Decode,
    replay: Callable[[Any], None],
    skipped: Counter[str],
) -> None:
    try:
        record = decode(each.key, each.value)
    except KafkaError as error:
        skipped[str(error)] += 1
        return
    if record is None:
        skipped["unknown record type"] += 1
    elif header.is_transactional:
        replay(InTransaction(header.producer_id, header.producer_epoch, record))
    else:
        replay(record)
