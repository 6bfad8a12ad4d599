"""Encodes batches of plain keys and values with the same timestamp and headers: what `ottla produce` sends.

A record of such a batch is a few pieces: its length and what never changes, its offset, the sizes of key and
value, key and value themselves. All but the last two depend on sizes alone and are remembered, so that a
batch is one `join` without a step of Python for each record. The layout is in records.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from operator import add

from ottla.protocol.primitives import encode_varint
from ottla.protocol.records.batch import HEADER, HEADER_BYTES, LOG_OVERHEAD, crc_of
from ottla.protocol.records.compression import compress
from ottla.protocol.records.record_encoder import encode_headers
from ottla.protocol.records.records import Headers

_REMEMBERED_SIZES = 16_384
_REMEMBERED_HEADERS = 16
_SMALL, _MEDIUM = 64, 8_192
"""Offsets below these take one byte, two bytes; the rest three."""

_OFFSETS = tuple(encode_varint(number) for number in range(_MEDIUM))
_NULL = b"\x01"
_ATTRIBUTES_AND_TIME = b"\0\0"


class _BySize(dict[int, bytes]):
    """What a function makes of a size, remembered if it is small."""

    def __init__(self, make: Callable[[int], bytes]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, size: int) -> bytes:
        made = self._make(size)
        if size < _REMEMBERED_SIZES:
            self[size] = made
        return made


class _FieldBytes(dict[int, int]):
    """By the size of a key or value: what it takes with its size before it."""

    def __missing__(self, size: int) -> int:
        taken = len(encode_varint(size)) + size
        if size < _REMEMBERED_SIZES:
            self[size] = taken
        return taken


_SIZES = _BySize(encode_varint)
_SIZES_AFTER_NULL = _BySize(lambda size: _NULL + encode_varint(size))
_FIELD_BYTES = _FieldBytes()


@lru_cache(maxsize=_REMEMBERED_HEADERS)
def _fronts(headers: bytes, *, keyed: bool) -> tuple[_BySize, ...]:
    """Return what is between two records, for offsets of one, two and three bytes.

    That is the headers of the record before, the length, attributes and time. It goes by the bytes that key
    and value take with their sizes, or without keys by the size of the value.
    """

    def front(offset_bytes: int, size: int) -> bytes:
        fields = size if keyed else len(_NULL) + _FIELD_BYTES[size]
        body_bytes = len(_ATTRIBUTES_AND_TIME) + offset_bytes + fields + len(headers)
        return headers + encode_varint(body_bytes) + _ATTRIBUTES_AND_TIME

    return (
        _BySize(lambda size: front(1, size)),
        _BySize(lambda size: front(2, size)),
        _BySize(lambda size: front(3, size)),
    )


def encode_values(
    values: Sequence[bytes], keys: Sequence[bytes] | None = None, headers: Headers = ()
) -> bytes:
    """Return values as records in a batch, with offsets from 0 on; at most 2^20 of them."""
    return b"".join(_encoded_parts(values, keys, headers))


def _encoded_parts(values: Sequence[bytes], keys: Sequence[bytes] | None, headers: Headers) -> list[bytes]:
    tail = encode_headers(headers)
    parts: list[bytes] = []
    for fronts, start, stop in zip(
        _fronts(tail, keyed=keys is not None), (0, _SMALL, _MEDIUM), (_SMALL, _MEDIUM, 2**20), strict=True
    ):
        some = values[start:stop]
        if not some:
            break
        sizes = list(map(len, some))
        offsets: Sequence[bytes] = _OFFSETS[start:stop]
        if start == _MEDIUM:
            offsets = [encode_varint(start + at) for at in range(len(some))]
        if keys is None:
            before = map(fronts.__getitem__, sizes)
            rows = zip(before, offsets, map(_SIZES_AFTER_NULL.__getitem__, sizes), some, strict=False)
            parts.append(b"".join(chain.from_iterable(rows)))
            continue
        some_keys = keys[start:stop]
        key_sizes = list(map(len, some_keys))
        taken = map(add, map(_FIELD_BYTES.__getitem__, key_sizes), map(_FIELD_BYTES.__getitem__, sizes))
        keyed_rows = zip(
            *(map(fronts.__getitem__, taken), offsets, map(_SIZES.__getitem__, key_sizes), some_keys),
            *(map(_SIZES.__getitem__, sizes), some),
            strict=False,
        )
        parts.append(b"".join(chain.from_iterable(keyed_rows)))
    parts.append(tail)
    parts[0] = parts[0][len(tail) :]
    return parts


def encode_value_batch(
    values: Sequence[bytes],
    timestamp_ms: int,
    codec: int = 0,
    keys: Sequence[bytes] | None = None,
    headers: Headers = (),
) -> bytearray:
    """Return the batch of one or more values, without a producer id; `keys` has the key of each."""
    parts = _encoded_parts(values, keys, headers)
    records = [compress(codec, b"".join(parts))] if codec else parts
    batch = bytearray().join((bytes(HEADER_BYTES), *records))
    HEADER.pack_into(
        *(batch, 0, 0, len(batch) - LOG_OVERHEAD, -1, 2, 0, codec, len(values) - 1),
        *(timestamp_ms, timestamp_ms, -1, -1, -1, len(values)),
    )
    batch[17:21] = crc_of(batch).to_bytes(4, "big")
    return batch
