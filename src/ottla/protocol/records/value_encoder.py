"""Encodes batches of plain values: no keys, no headers, one timestamp. What `ottla produce` makes of lines.

A record of such a batch is four pieces: its length and what never changes, its offset, the size of its value,
the value. The first and the third depend on the size alone and are remembered, so that a batch is one `join`
without a step of Python for each record. The layout is in records.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ottla.protocol.primitives import encode_varint
from ottla.protocol.records.batch import HEADER, HEADER_BYTES, LOG_OVERHEAD, crc_of
from ottla.protocol.records.compression import compress

_REMEMBERED_SIZES = 16_384
_SMALL, _MEDIUM = 64, 8_192
"""Offsets below these take one byte, two bytes; the rest three."""

_OFFSETS = tuple(encode_varint(number) for number in range(_MEDIUM))
_FIXED_BYTES = 4
"""Attributes, time, null key, number of headers: a byte each."""


class _Fronts(dict[int, bytes]):
    """By the size of the value: the end of the record before it, the record's length, attributes and time."""

    def __init__(self, offset_bytes: int) -> None:
        super().__init__()
        self._offset_bytes = offset_bytes

    def __missing__(self, size: int) -> bytes:
        body_bytes = _FIXED_BYTES + self._offset_bytes + len(encode_varint(size)) + size
        front = b"\0" + encode_varint(body_bytes) + b"\0\0"
        if size < _REMEMBERED_SIZES:
            self[size] = front
        return front


class _Sizes(dict[int, bytes]):
    """By the size of the value: the null key and that size."""

    def __missing__(self, size: int) -> bytes:
        middle = b"\x01" + encode_varint(size)
        if size < _REMEMBERED_SIZES:
            self[size] = middle
        return middle


_FRONTS = (_Fronts(1), _Fronts(2), _Fronts(3))
_SIZES = _Sizes()


def encode_values(values: Sequence[bytes]) -> bytes:
    """Return values as records in a batch, with offsets from 0 on; at most 2^20 of them."""
    parts: list[bytes] = []
    for fronts, start, stop in zip(_FRONTS, (0, _SMALL, _MEDIUM), (_SMALL, _MEDIUM, 2**20), strict=True):
        some = values[start:stop]
        if not some:
            break
        sizes = list(map(len, some))
        offsets: Sequence[bytes] = _OFFSETS[start:stop]
        if start == _MEDIUM:
            offsets = [encode_varint(start + at) for at in range(len(some))]
        rows = zip(
            map(fronts.__getitem__, sizes), offsets, map(_SIZES.__getitem__, sizes), some, strict=False
        )
        parts.append(b"".join(chain.from_iterable(rows)))
    parts.append(b"\0")
    return b"".join(parts)[1:]


def encode_value_batch(values: Sequence[bytes], timestamp_ms: int, codec: int = 0) -> bytearray:
    """Return the batch of one or more values, without a producer id."""
    records = encode_values(values)
    batch = bytearray(HEADER_BYTES)
    batch += compress(codec, records) if codec else records
    HEADER.pack_into(
        *(batch, 0, 0, len(batch) - LOG_OVERHEAD, -1, 2, 0, codec, len(values) - 1),
        *(timestamp_ms, timestamp_ms, -1, -1, -1, len(values)),
    )
    batch[17:21] = crc_of(batch).to_bytes(4, "big")
    return batch
