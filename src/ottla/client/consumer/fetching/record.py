"""What a consumer hands out, and how batches become that, fast.

One after the other, if the module that does this is compiled (protocol/records/record_decoder.py). If it is
not, and there is numpy (it comes with the `arrow` extra), all records of a fetch together, field by field:
slower than the first, but twice as fast as plain Python. All ways give the same records and refuse the same
bytes.

Python's garbage collector pauses meanwhile: it would look at every record that was just made, again and
again, to find that none of them is garbage. That takes longer than making them. Once it must look, and that
is cheap while the records are still in the processor's cache: so it is called every few hundred records,
rather than left to come by when the fetch is decoded (decision 0066).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from itertools import repeat
from types import ModuleType
from typing import Any, NamedTuple

from ottla.client.errors import ClientError
from ottla.client.record_serdes import KEY, VALUE, deserialize, takes_records
from ottla.common.ids import TopicPartition
from ottla.protocol.records import record_decoder
from ottla.protocol.records.batch import BatchHeader, Buffer
from ottla.protocol.records.compiled import compiled_or_source
from ottla.protocol.records.records import iter_records, record_data

MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024
FEW_RECORDS = 12
"""Below this, decoding one after the other is faster than setting numpy to work."""

MANY_RECORDS = 500
"""From here on the garbage collector would come by several times."""

TIDIED_RECORDS = 200
"""While the collector pauses, it is shown the new records whenever there are so many: a few hundred KB."""

CREATE_TIME, LOG_APPEND_TIME = 0, 1

ROWS = compiled_or_source(record_decoder)
"""The module that decodes one record after the other: compiled, or as it is written."""


@cache
def _columns() -> ModuleType | None:
    """Return the module that needs numpy; imported when it is first needed: commands must start fast."""
    try:
        return import_module("ottla.client.record_columns")
    except ImportError:  # numpy is not installed
        return None


Deserializer = Callable[[bytes], Any]
Batch = tuple[BatchHeader, Buffer]


class ConsumerRecord(NamedTuple):
    """A record and where it was found."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970."""
    timestamp_type: int
    """0: the producer's time, 1: the time of the append."""
    key: Any
    """Bytes, or what the deserializer makes of them; None if there is none."""
    value: Any
    """The same; None deletes the key in a compacted topic."""
    headers: tuple[tuple[str, bytes | None], ...] = ()
    leader_epoch: int = -1
    """The epoch of the leader that wrote it; -1 if it is not known."""


class DeserializationFailed(ClientError):
    """A deserializer raised; `seek` past the record to skip it."""

    def __init__(self, partition: TopicPartition, offset: int, error: Exception) -> None:
        super().__init__(f"the record at offset {offset} of {partition} cannot be deserialized: {error!r}")
        self.partition = partition
        self.offset = offset


_make = partial(tuple.__new__, ConsumerRecord)


class Decoder:
    """Turns batches of a partition into records, with keys and values deserialised."""

    def __init__(self, key: Deserializer | None = None, value: Deserializer | None = None) -> None:
        self._key = key
        self._value = value
        self._needs_records = takes_records(key) or takes_records(value)

    def decode(
        self, partition: TopicPartition, batches: Sequence[Batch], not_before: int
    ) -> list[ConsumerRecord]:
        """Return the records of data batches from an offset on; InvalidRecord if they do not add up."""
        filled = [batch for batch in batches if batch[0].record_count]
        if not filled:
            return []
        count = sum(header.record_count for header, _ in filled)
        has_deserializer = self._key is not None or self._value is not None
        if count < MANY_RECORDS or has_deserializer or not gc.isenabled():
            return self._decode(partition, filled, count, not_before, tidied=0)
        gc.disable()
        try:
            return self._decode(partition, filled, count, not_before, tidied=TIDIED_RECORDS)
        finally:
            gc.enable()

    def _decode(
        self, partition: TopicPartition, batches: Sequence[Batch], count: int, not_before: int, tidied: int
    ) -> list[ConsumerRecord]:
        one_by_one = ROWS.IS_COMPILED or count < FEW_RECORDS or self._needs_records
        if one_by_one or (columns := _columns()) is None:
            return self._in_a_row(partition, batches, not_before, tidied)
        return self._together(columns, partition, batches, not_before)

    def one_by_one(
        self, partition: TopicPartition, batch: Batch, not_before: int
    ) -> Iterator[ConsumerRecord]:
        """Yield the records of one data batch from an offset on; those before a bad one come first."""
        header, data = batch
        place = (*partition,)
        rest = (int(header.is_log_append_time), header.leader_epoch)
        for offset, timestamp, key, value, headers in iter_records(data, MAX_DECOMPRESSED_BYTES):
            if offset >= not_before:
                record = ConsumerRecord(*place, offset, timestamp, rest[0], key, value, headers, rest[1])
                yield self._deserialized(record)

    def _in_a_row(
        self, partition: TopicPartition, batches: Sequence[Batch], not_before: int, tidied: int = 0
    ) -> list[ConsumerRecord]:
        """Decode one after the other; let the collector look every `tidied` records, unless that is 0."""
        found: list[ConsumerRecord] = []
        seen = 0
        for header, batch in batches:
            found += ROWS.decode_rows(
                record_data(header, batch, MAX_DECOMPRESSED_BYTES),
                header.record_count,
                partition,
                (header.base_offset, header.base_timestamp, header.last_offset_delta),
                header.max_timestamp if header.is_log_append_time else None,
                int(header.is_log_append_time),
                header.leader_epoch,
                not_before,
                _make,
            )
            if tidied and len(found) - seen >= tidied:
                seen = len(found)
                gc.collect(0)
        if self._key is None and self._value is None:
            return found
        return list(map(self._deserialized, found))

    def _deserialized(self, record: ConsumerRecord) -> ConsumerRecord:
        key, value = record.key, record.value
        try:
            if key is not None and self._key is not None:
                key = deserialize(self._key, record.topic, KEY, key, record.headers)
            if value is not None and self._value is not None:
                value = deserialize(self._value, record.topic, VALUE, value, record.headers)
        except Exception as error:
            partition = TopicPartition(record.topic, record.partition)
            raise DeserializationFailed(partition, record.offset, error) from error
        return record._replace(key=key, value=value)

    def _together(
        self, module: ModuleType, partition: TopicPartition, batches: Sequence[Batch], not_before: int
    ) -> list[ConsumerRecord]:
        columns = module.columns_of(batches, MAX_DECOMPRESSED_BYTES)
        headers: Any = repeat(())
        if columns.header_counts.any():
            counts = columns.header_counts.tolist()
            headers = [columns.headers_of(row) if count else () for row, count in enumerate(counts)]
        kinds: Any = repeat(CREATE_TIME)
        if columns.append_times.any():
            kinds = columns.append_times.astype(int).tolist()
        records = list(
            map(
                _make,
                zip(
                    repeat(partition.topic),
                    repeat(partition.partition),
                    columns.offsets.tolist(),
                    columns.timestamps.tolist(),
                    kinds,
                    _values(columns.data, columns.keys, self._key),
                    _values(columns.data, columns.values, self._value),
                    headers,
                    _epochs(batches),
                ),
            )
        )
        if records[0].offset < not_before:
            return [record for record in records if record.offset >= not_before]
        return records


def _epochs(batches: Sequence[Batch]) -> Any:
    """Return the leader epoch of each record."""
    first = batches[0][0].leader_epoch
    if all(header.leader_epoch == first for header, _ in batches):
        return repeat(first)
    return [header.leader_epoch for header, _ in batches for _ in range(header.record_count)]


def _values(data: bytes, field: Any, deserialize: Deserializer | None) -> Any:
    """Return the byte strings of a field, or what the deserializer makes of them."""
    if field.nulls.all():
        return repeat(None)
    found: Any = map(data.__getitem__, map(slice, field.starts.tolist(), field.stops.tolist()))
    if deserialize is not None or field.nulls.any():
        rows = zip(found, field.nulls.tolist(), strict=True)
        if deserialize is None:
            return [None if is_null else value for value, is_null in rows]
        return [None if is_null else deserialize(value) for value, is_null in rows]
    return found
