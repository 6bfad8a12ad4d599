"""From record batches as they came over the wire to columns: where everything is, for all records at once.

Where a record starts is known only from the length of the one before it, so that much is a loop over the
records (`record_starts`). All the rest is done for all records of all batches at once: numpy decodes one
field of every record per step, and remembers where keys and values are. What a step of numpy costs, it
costs once, so many small batches are hardly dearer than one large one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.protocol.errors import InvalidRecord, InvalidRequest
from ottla.protocol.primitives import read_varint
from ottla.protocol.records import record_decoder
from ottla.protocol.records.batch import HEADER_BYTES, BatchHeader, Buffer
from ottla.protocol.records.compiled import compiled_or_source
from ottla.protocol.records.compression import decompress
from ottla.protocol.records.records import SMALLEST_RECORD_BYTES

Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

_ROWS = compiled_or_source(record_decoder)

MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024

_PADDING = bytes(16)
"""After the records, so that a field which ends too early is seen as such and not as an IndexError."""
_MAX_VARINT_BYTES = 10


class Field(NamedTuple):
    """Where a byte string of each record starts and stops in the data, and where it is null."""

    starts: Integers
    stops: Integers
    nulls: Flags


class Columns(NamedTuple):
    """The records of some batches."""

    data: bytes
    """The decompressed records, and some padding."""
    offsets: Integers
    timestamps: Integers
    append_times: Flags
    """Whether the timestamp is the time of the append."""
    keys: Field
    values: Field
    header_counts: Integers
    headers_at: Integers
    """Where the headers start, behind their count."""
    ends: Integers
    """Where the record ends, and with it its headers."""

    def headers_of(self, row: int, errors: str = "surrogateescape") -> tuple[tuple[str, bytes | None], ...]:
        """Return the headers of one record; `errors` says what becomes of names that are not UTF-8."""
        count = int(self.header_counts[row])
        return tuple(_headers(self.data, int(self.headers_at[row]), count, int(self.ends[row]), errors))


def columns_of(batches: Sequence[tuple[BatchHeader, Buffer]], max_bytes: int) -> Columns:
    """Return the records of whole data batches, none of them empty, and at least one.

    Raise InvalidRecord or CorruptMessage for a batch that does not add up, or that would expand to more
    than `max_bytes`.
    """
    parts = [_records_of(header, batch, max_bytes) for header, batch in batches]
    data = b"".join((*parts, _PADDING))
    headers = [header for header, _ in batches]
    try:
        sizes = [(each.record_count, len(part)) for each, part in zip(headers, parts, strict=True)]
        return _columns(data, np.array(_ROWS.record_starts(data, sizes), np.int64), headers)
    except IndexError:
        raise InvalidRecord("a record ends in the middle of a field") from None


def _records_of(header: BatchHeader, batch: Buffer, max_bytes: int) -> Buffer:
    data: Buffer = memoryview(batch)[HEADER_BYTES:]
    if header.codec:
        data = decompress(header.codec, memoryview(data), max_bytes)
    if not 0 < header.record_count * SMALLEST_RECORD_BYTES <= len(data):
        raise InvalidRecord(f"{header.record_count} records do not fit into {len(data)} bytes")
    return data


def _columns(data: bytes, starts: Integers, headers: Sequence[BatchHeader]) -> Columns:
    raw = np.frombuffer(data, np.uint8)
    counts = [header.record_count for header in headers]

    def of_batch(values: list[int]) -> Integers:
        """Return what each record's batch has of something."""
        return np.repeat(np.array(values, np.int64), counts)

    _, at = _varints(raw, starts)
    ends = np.append(starts[1:], len(data) - len(_PADDING))
    timestamps, at = _varints(raw, at + 1)
    offsets, at = _varints(raw, at)
    if offsets.min() < 0 or bool((offsets > of_batch([h.last_offset_delta for h in headers])).any()):
        raise InvalidRecord("a record is outside the offsets of its batch")
    keys = _byte_field(raw, at, ends)
    values = _byte_field(raw, keys.stops, ends)
    header_counts, at = _varints(raw, values.stops)
    if header_counts.min() < 0 or bool((at > ends).any()):
        raise InvalidRecord("a record's length does not fit what is in it")
    if bool(((at != ends) & (header_counts == 0)).any()):
        raise InvalidRecord("bytes follow the last field of a record")
    timestamps += of_batch([h.base_timestamp for h in headers])
    append_times = np.repeat([h.is_log_append_time for h in headers], counts)
    if append_times.any():
        timestamps = np.where(append_times, of_batch([h.max_timestamp for h in headers]), timestamps)
    offsets += of_batch([h.base_offset for h in headers])
    return Columns(data, offsets, timestamps, append_times, keys, values, header_counts, at, ends)


def _varints(raw: Bytes, at: Integers) -> tuple[Integers, Integers]:
    """Return the zig-zag varints at these positions, and the positions after them."""
    byte = raw[at]
    value = (byte & 0x7F).astype(np.int64)
    at = at + 1
    more = byte >= 0x80
    shift = 7
    while more.any():
        if shift >= 7 * _MAX_VARINT_BYTES:
            raise InvalidRecord("a number has more than 64 bits")
        byte = raw[at]
        value |= np.where(more, (byte & 0x7F).astype(np.int64) << shift, 0)
        at = at + more
        more = more & (byte >= 0x80)
        shift += 7
    # As an unsigned number moved right by one: the top bit must not be taken for a sign.
    return (value >> 1 & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), at


def _byte_field(raw: Bytes, at: Integers, ends: Integers) -> Field:
    sizes, at = _varints(raw, at)
    stops = at + np.maximum(sizes, 0)
    if sizes.min() < -1 or bool((stops > ends).any()):
        raise InvalidRecord("a field does not fit into its record")
    return Field(at, stops, sizes < 0)


def _headers(data: bytes, at: int, count: int, end: int, errors: str) -> Iterator[tuple[str, bytes | None]]:
    if count * 2 > end - at:
        raise InvalidRecord(f"a record has {count} headers")
    for _ in range(count):
        key, at = _bytes_at(data, at, end)
        value, at = _bytes_at(data, at, end)
        if key is None:
            raise InvalidRecord("a header has no key")
        yield key.decode(errors=errors), value
    if at != end:
        raise InvalidRecord("bytes follow the last header of a record")


def _bytes_at(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    try:
        size, at = read_varint(data, at)
    except InvalidRequest as error:
        raise InvalidRecord(f"a header: {error}") from None
    if size == -1:
        return None, at
    if size < 0 or at + size > end:
        raise InvalidRecord(f"a header of {size} bytes does not fit into its record")
    return data[at : at + size], at + size
