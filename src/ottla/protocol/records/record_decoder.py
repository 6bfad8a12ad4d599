"""The records of a batch, decoded in one tight loop: for consumers. The layout is in records.py.

This module is plain Python that mypyc can compile, with nothing in it that would keep it from that: compiled
it decodes more than two million records a second, as it is half a million. `IS_COMPILED` says which it is;
without the compiled module numpy is faster (ottla.client.record_columns).
"""

from __future__ import annotations

from typing import Any, Final

from ottla.protocol.errors import InvalidRecord

IS_COMPILED = not __file__.endswith(".py")

# Final, so that compiled code has the values in it and does not look them up for every record.
SMALLEST_LENGTH: Final = 6
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
VARINT_BYTES: Final = 5
VARLONG_BYTES: Final = 10

_NO_HEADERS: Final[tuple[Any, ...]] = ()


def decode_rows(
    data: bytes,
    count: int,
    front: tuple[str, int],
    base: tuple[int, int, int],
    fixed_timestamp: int | None,
    kind: int,
    epoch: int,
    not_before: int,
    make: Any,
) -> list[Any]:
    """Return `count` records, which fill `data` exactly, from an offset on.

    Each is made by `make` of a tuple: the two of `front` (topic, partition), offset, timestamp, `kind`, key,
    value, headers, `epoch`. `base` has the batch's base offset, base timestamp and last offset delta.
    InvalidRecord if it does not add up.
    """
    try:
        return _decode(data, count, front, base, fixed_timestamp, kind, epoch, not_before, make)
    except IndexError:
        raise InvalidRecord("a record ends in the middle of a field") from None


def _decode(
    data: bytes,
    count: int,
    front: tuple[str, int],
    base: tuple[int, int, int],
    fixed_timestamp: int | None,
    kind: int,
    epoch: int,
    not_before: int,
    make: Any,
) -> list[Any]:
    topic, partition = front
    base_offset, base_timestamp, last_delta = base
    found: list[Any] = []
    size = len(data)
    at = 0
    for _ in range(count):
        length = data[at]
        if length < 0x80:
            length = (length >> 1) ^ -(length & 1)
            at += 1
        else:
            length, at = _varint(data, at, VARINT_BYTES)
        end = at + length
        if length < SMALLEST_LENGTH or end > size:
            raise InvalidRecord(f"a record has length {length}")
        at += 1
        timestamp = data[at]
        if timestamp < 0x80:
            timestamp = (timestamp >> 1) ^ -(timestamp & 1)
            at += 1
        else:
            timestamp, at = _varint(data, at, VARLONG_BYTES)
        timestamp += base_timestamp
        delta = data[at]
        if delta < 0x80:
            delta = (delta >> 1) ^ -(delta & 1)
            at += 1
        else:
            delta, at = _varint(data, at, VARINT_BYTES)
        if delta < 0 or delta > last_delta:
            raise InvalidRecord(f"a record is {delta} offsets after its batch's first")
        if timestamp < INT64_MIN or timestamp > INT64_MAX:
            raise InvalidRecord("a record's timestamp has more than 64 bits")
        key: bytes | None = None
        stop = data[at]
        if stop < 0x80:
            stop = (stop >> 1) ^ -(stop & 1)
            at += 1
        else:
            stop, at = _varint(data, at, VARINT_BYTES)
        if stop >= 0:
            stop += at
            if stop > end:
                raise _too_large(stop - at)
            key = data[at:stop]
            at = stop
        elif stop != -1:
            raise InvalidRecord(f"a field has length {stop}")
        value: bytes | None = None
        stop = data[at]
        if stop < 0x80:
            stop = (stop >> 1) ^ -(stop & 1)
            at += 1
        else:
            stop, at = _varint(data, at, VARINT_BYTES)
        if stop >= 0:
            stop += at
            if stop > end:
                raise _too_large(stop - at)
            value = data[at:stop]
            at = stop
        elif stop != -1:
            raise InvalidRecord(f"a field has length {stop}")
        headers = _NO_HEADERS
        if data[at] == 0:
            at += 1
        else:
            headers, at = _headers(data, at, end)
        if at != end:
            raise InvalidRecord("a record's length does not fit what is in it")
        offset = base_offset + delta
        if offset >= not_before:
            if fixed_timestamp is not None:
                timestamp = fixed_timestamp
            found.append(make((topic, partition, offset, timestamp, kind, key, value, headers, epoch)))
    if at != size:
        raise InvalidRecord(f"{size - at} bytes follow the last record")
    return found


def record_starts(data: bytes, batches: list[tuple[int, int]]) -> list[int]:
    """Return where each record starts; the records of each batch (count, bytes) fill its bytes exactly.

    IndexError if the data ends before they do.
    """
    starts: list[int] = []
    at = 0
    batch_end = 0
    for count, size in batches:
        batch_end += size
        for _ in range(count):
            starts.append(at)
            length = data[at]
            if length < 0x80:
                length = (length >> 1) ^ -(length & 1)
                at += 1
            else:
                length, at = _varint(data, at, VARINT_BYTES)
            if length < 0:
                raise InvalidRecord("a record has a negative length")
            at += length
        if at != batch_end:
            raise InvalidRecord(f"the records of a batch are {at - batch_end} bytes longer than the batch")
    return starts


def _varint(data: bytes, at: int, longest: int) -> tuple[int, int]:
    """Read a zig-zag varint; return it and the position after it."""
    value = data[at]
    if value >= 0x80:  # two bytes, as most have that are not one byte long
        byte = data[at + 1]
        if byte < 0x80:
            value = (value & 0x7F) | (byte << 7)
            return (value >> 1) ^ -(value & 1), at + 2
    value = 0
    shift = 0
    for _ in range(longest):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> (32 if longest == VARINT_BYTES else 64):
                break
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise InvalidRecord("a number has too many bits")


def _headers(data: bytes, at: int, end: int) -> tuple[tuple[Any, ...], int]:
    count, at = _varint(data, at, VARINT_BYTES)
    if count < 0 or count * 2 > end - at:
        raise InvalidRecord(f"a record has {count} headers")
    headers: list[Any] = []
    for _ in range(count):
        size, at = _varint(data, at, VARINT_BYTES)
        if size < 0:
            raise InvalidRecord("a header has no key" if size == -1 else f"a field has length {size}")
        if at + size > end:
            raise _too_large(size)
        # Keys ought to be UTF-8. Those that are not must still be distinguished, bit by bit.
        name = data[at : at + size].decode("utf-8", "surrogateescape")
        at += size
        size, at = _varint(data, at, VARINT_BYTES)
        if size >= 0:
            if at + size > end:
                raise _too_large(size)
            headers.append((name, data[at : at + size]))
            at += size
        elif size == -1:
            headers.append((name, None))
        else:
            raise InvalidRecord(f"a field has length {size}")
    return tuple(headers), at


def _too_large(size: int) -> InvalidRecord:
    return InvalidRecord(f"a field of {size} bytes does not fit into its record")
