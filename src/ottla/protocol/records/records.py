"""The records inside a batch.

    length           varint: bytes after this field
    attributes       int8, unused
    timestamp_delta  varlong, from the batch's base_timestamp
    offset_delta     varint, from the batch's base_offset
    key              varint size, -1 = null, then the bytes
    value            the same
    headers          varint count, then per header: key (never null, UTF-8), value (may be null)

In a batch with log append time all records have the batch's max_timestamp. Sizes and counts are
checked against the bytes that are left before anything is built from them; a record that does not
add up raises InvalidRecord, a batch that does not CorruptMessage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.protocol.errors import CorruptMessage, InvalidRecord, InvalidRequest
from ottla.protocol.primitives import encode_uvarint, encode_varint, read_varint, read_varlong
from ottla.protocol.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    crc_of,
    decode_header,
)
from ottla.protocol.records.compression import compress, decompress

MAX_DECOMPRESSED_BYTES = 8 * 1024 * 1024
SMALLEST_RECORD_BYTES = 7
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record, with its absolute offset and timestamp."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class RecordHead(NamedTuple):
    """The beginning of a record: enough to search by time, and to know whether there is a key."""

    offset: int
    timestamp: int
    key_bytes: int
    """The size of the key; -1 without one."""


def decode_records(batch: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> list[Record]:
    """Return the records of one whole batch."""
    return list(iter_records(batch, max_bytes))


def iter_records(batch: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
    """Yield the records of one whole batch, one at a time."""
    header, data = _open(batch, max_bytes)
    fixed_timestamp = header.max_timestamp if header.is_log_append_time else None
    position = 0
    for _ in range(header.record_count):
        try:
            end, timestamp, offset, position = _read_front(data, position, header)
            key, position = _read_bytes(data, position, end)
            value, position = _read_bytes(data, position, end)
            headers, position = _read_headers(data, position, end)
        except (IndexError, InvalidRequest):
            raise InvalidRecord("a record ends in the middle of a field") from None
        if position != end:
            raise InvalidRecord("a record's length does not fit what is in it")
        yield Record(offset, timestamp if fixed_timestamp is None else fixed_timestamp, key, value, headers)
    if position != len(data):
        raise InvalidRecord(f"{len(data) - position} bytes follow the last record")


def iter_record_heads(batch: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[RecordHead]:
    """Yield the beginning of each record of one whole batch, without decoding the rest."""
    header, data = _open(batch, max_bytes)
    fixed_timestamp = header.max_timestamp if header.is_log_append_time else None
    position = 0
    for _ in range(header.record_count):
        try:
            end, timestamp, offset, position = _read_front(data, position, header)
            key_bytes, _ = read_varint(data, position)
        except (IndexError, InvalidRequest):
            raise InvalidRecord("a record ends in the middle of a field") from None
        position = end
        yield RecordHead(offset, timestamp if fixed_timestamp is None else fixed_timestamp, key_bytes)
    if position != len(data):
        raise InvalidRecord(f"{len(data) - position} bytes follow the last record")


def _open(batch: Buffer, max_bytes: int) -> tuple[BatchHeader, bytes]:
    """Return a batch's header and its records, decompressed."""
    header = decode_header(batch)
    if header.magic != 2 or header.size_bytes != len(batch):
        raise CorruptMessage(f"{len(batch)} bytes are not one whole batch of format 2")
    if header.record_count == 0:
        return header, b""
    return header, record_data(header, batch, max_bytes)


def record_data(header: BatchHeader, batch: Buffer, max_bytes: int) -> bytes:
    """Return the decompressed records of one non-empty batch."""
    data = decompress(header.codec, memoryview(batch)[HEADER_BYTES:], max_bytes)
    if not 0 < header.record_count * SMALLEST_RECORD_BYTES <= len(data):
        raise InvalidRecord(f"{header.record_count} records do not fit into {len(data)} bytes")
    return data


def _read_front(data: bytes, position: int, header: BatchHeader) -> tuple[int, int, int, int]:
    """Return the record's end, timestamp and offset, and the position of its key."""
    length = data[position]
    if length < 0x80:
        length = (length >> 1) ^ -(length & 1)
        position += 1
    else:
        length, position = read_varint(data, position)
    end = position + length
    if length < SMALLEST_RECORD_BYTES - 1 or end > len(data):
        raise InvalidRecord(f"a record has length {length}")
    position += 1
    delta = data[position]
    if delta < 0x80:
        timestamp = header.base_timestamp + ((delta >> 1) ^ -(delta & 1))
        position += 1
    else:
        delta, position = read_varlong(data, position)
        timestamp = header.base_timestamp + delta
    delta, position = read_varint(data, position)
    if not 0 <= delta <= header.last_offset_delta:
        raise InvalidRecord(f"a record is {delta} offsets after its batch's first")
    if not INT64_MIN <= timestamp <= INT64_MAX:
        raise InvalidRecord("a record's timestamp has more than 64 bits")
    return end, timestamp, header.base_offset + delta, position


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size = data[position]
    if size < 0x80:
        size = (size >> 1) ^ -(size & 1)
        position += 1
    else:
        size, position = read_varint(data, position)
    if size < 0:
        if size != -1:
            raise InvalidRecord(f"a field has length {size}")
        return None, position
    stop = position + size
    if stop > end:
        raise InvalidRecord(f"a field of {size} bytes does not fit into its record")
    return data[position:stop], stop


def _read_headers(data: bytes, position: int, end: int) -> tuple[Headers, int]:
    if data[position] == 0:
        return (), position + 1
    count, position = read_varint(data, position)
    if count < 0 or count * 2 > end - position:
        raise InvalidRecord(f"a record has {count} headers")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        value, position = _read_bytes(data, position, end)
        if key is None:
            raise InvalidRecord("a header has no key")
        # Keys ought to be UTF-8. Those that are not must still survive compaction, bit by bit.
        headers.append((key.decode(errors="surrogateescape"), value))
    return tuple(headers), position


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    codec: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    max_timestamp: int | None = None,
    transactional: bool = False,
    control: bool = False,
    log_append_time: bool = False,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """Return one whole batch.

    The records carry absolute offsets, `base_offset` or above and increasing; a compacted batch
    has gaps, may name a `last_offset_delta` past its last record, and may have no record at all.
    """
    attributes = (
        (codec & CODEC_MASK)
        | transactional * TRANSACTIONAL_BIT
        | control * CONTROL_BIT
        | log_append_time * LOG_APPEND_TIME_BIT
    )
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    base_timestamp = records[0].timestamp if records else max_timestamp
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
        base_timestamp = delete_horizon_ms
    if last_offset_delta is None:
        last_offset_delta = records[-1].offset - base_offset if records else 0
    data = _encode_records(records, base_offset, base_timestamp, codec)
    producer = (producer_id, producer_epoch, base_sequence)
    timestamps = (base_timestamp, max_timestamp)
    length = HEADER_BYTES - LOG_OVERHEAD + len(data)
    header = (base_offset, length, leader_epoch, 2, 0, attributes, last_offset_delta, *timestamps, *producer)
    batch = bytearray(HEADER.pack(*header, len(records)))
    batch += data
    batch[17:21] = crc_of(batch).to_bytes(4, "big")
    return batch


def encode_single_record(timestamp: int, key: bytes, value: bytes | None) -> bytearray:
    """Return the batch that `encode_batch` makes of one record, uncompressed and without a producer."""
    # No attributes, no deltas, key, value (-1: none), no headers.
    content = b"\x01" if value is None else encode_uvarint(len(value) << 1) + value
    body = b"\x00\x00\x00" + encode_uvarint(len(key) << 1) + key + content + b"\x00"
    data = encode_uvarint(len(body) << 1)
    length = HEADER_BYTES - LOG_OVERHEAD + len(data) + len(body)
    batch = bytearray(HEADER.pack(0, length, -1, 2, 0, 0, 0, timestamp, timestamp, -1, -1, -1, 1))
    batch += data
    batch += body
    batch[17:21] = crc_of(batch).to_bytes(4, "big")
    return batch


def _encode_records(records: Sequence[Record], base_offset: int, base_timestamp: int, codec: int) -> bytes:
    if not records:
        return b""
    data = bytearray()
    for record in records:
        _encode_record(data, record, base_offset, base_timestamp)
    return compress(codec, data)


def _encode_record(out: bytearray, record: Record, base_offset: int, base_timestamp: int) -> None:
    offset, timestamp, key, value, headers = record
    timestamp_delta = timestamp - base_timestamp
    if not INT64_MIN <= timestamp_delta <= INT64_MAX:
        raise InvalidRecord("the timestamps of a batch are further apart than 64 bits can say")
    body = bytearray(1)
    body += encode_varint(timestamp_delta)
    body += encode_varint(offset - base_offset)
    _encode_bytes(body, key)
    _encode_bytes(body, value)
    body += encode_varint(len(headers))
    for name, content in headers:
        _encode_bytes(body, name.encode(errors="surrogateescape"))
        _encode_bytes(body, content)
    out += encode_uvarint(len(body) << 1)
    out += body


def _encode_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)
    else:
        out += encode_uvarint(len(value) << 1)
        out += value
