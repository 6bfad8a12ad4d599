"""Find batches in a segment: one index lookup, then a short walk over the log.

Every function raises CorruptIndex if the log contradicts the index: an entry must point to a batch with the
last offset (and, in the time index, the timestamp) that it names, and entries must be dense enough. So a
wrong index costs a rebuild, never a wrong result.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from ottla.log.batch_walk import walk_headers
from ottla.log.disk import OpenFile
from ottla.log.indexes import NO_TIMESTAMP, CorruptIndex, SegmentIndex
from ottla.protocol.errors import CorruptMessage
from ottla.protocol.records.batch import BatchHeader

_LOOKUP_BYTES = 4096 + 512
_SPARSEST_BYTES = 1 << 17
"""At most this many bytes (or two index intervals) after an entry, there must be another one."""


def position_of(file: OpenFile, index: SegmentIndex, size: int, offset: int, interval: int) -> int:
    """Return where the first batch with last_offset >= `offset` starts; `size` if there is none."""
    entry = index.offsets.lookup(offset)
    due = (0 if entry is None else entry[1]) + max(_SPARSEST_BYTES, 2 * interval)
    for position, header in _walk_from(file, entry, size):
        if header.base_offset + header.last_offset_delta >= offset:
            return position
        if position > due:
            raise CorruptIndex("entries are missing")
    return size


def indexed_position(file: OpenFile, index: SegmentIndex, size: int, offset: int) -> int:
    """Return the verified position of the last indexed batch that ends at or below `offset`; 0 if there is
    none.
    """
    entry = index.offsets.lookup(offset)
    if entry is not None:
        _walk_from(file, entry, size)
    return 0 if entry is None else entry[1]


def last_boundary(file: OpenFile, index: SegmentIndex, size: int, start: int, limit: int) -> tuple[int, int]:
    """Return (position, next offset) of the last batch boundary in (start, limit].

    `start` must be a boundary; (start, -1) means that the batch there extends beyond `limit`.
    """
    entry = index.offsets.lookup_position(limit)
    if entry is not None and entry[1] > start:
        walk = _walk_from(file, entry, size)
    else:
        walk = walk_headers(file, start, size, chunk_bytes=_LOOKUP_BYTES)
    boundary, next_offset = start, -1
    for position, header in walk:
        if position + header.size_bytes > limit:
            if next_offset < 0 and position > start:
                boundary, next_offset = position, header.base_offset
            break
        boundary, next_offset = position + header.size_bytes, header.next_offset
    return boundary, next_offset


def end_offset(file: OpenFile, index: SegmentIndex, size: int) -> int:
    """Return the offset after the last batch of a non-empty segment."""
    return max(header.next_offset for _, header in _walk_from(file, index.offsets.last(), size))


def latest(file: OpenFile, index: SegmentIndex, size: int, interval: int) -> tuple[int, int]:
    """Return the verified last (timestamp, offset) of the time index; (-1, -1) if it is rightly empty."""
    entry = index.times.last()
    if entry is None:
        if size and next(walk_headers(file, 0, size))[1].max_timestamp != NO_TIMESTAMP:
            raise CorruptIndex("the time index is empty")
        return NO_TIMESTAMP, -1
    _check_time(file, index, size, entry, interval)
    if any(header.max_timestamp > entry[0] for _, header in _walk_from(file, index.offsets.last(), size)):
        raise CorruptIndex("the time index ends too early")
    return entry


def check_times(file: OpenFile, index: SegmentIndex, size: int, interval: int) -> None:
    """Verify the last entry of the time index of the active segment."""
    entry = index.times.last()
    if entry is not None:
        _check_time(file, index, size, entry, interval)
    elif len(index.offsets) and next(walk_headers(file, 0, size))[1].max_timestamp != NO_TIMESTAMP:
        raise CorruptIndex("the time index is empty")


def position_for_time(file: OpenFile, index: SegmentIndex, size: int, timestamp: int, interval: int) -> int:
    """Return a position before which every record is earlier than `timestamp`."""
    entry = index.times.lookup(timestamp)
    return 0 if entry is None else _check_time(file, index, size, entry, interval)


def _check_time(file: OpenFile, index: SegmentIndex, size: int, entry: tuple[int, int], interval: int) -> int:
    """Return the position of the batch that a time index entry names, if the batch matches it."""
    timestamp, offset = entry
    position = position_of(file, index, size, offset, interval)
    if position < size:
        _, header = next(walk_headers(file, position, size, chunk_bytes=_LOOKUP_BYTES))
        if header.last_offset == offset and header.max_timestamp == timestamp:
            return position
    raise CorruptIndex(f"no batch of time {timestamp} ends at offset {offset}")


def _walk_from(file: OpenFile, entry: tuple[int, int] | None, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Walk from the batch that an offset index entry names, after verifying it; without an entry, from the
    start.
    """
    if entry is None:
        return walk_headers(file, 0, end, chunk_bytes=_LOOKUP_BYTES)
    offset, position = entry
    walk = walk_headers(file, position, end, chunk_bytes=_LOOKUP_BYTES)
    try:
        first = next(walk, None)
    except CorruptMessage:
        first = None
    if first is None or first[1].last_offset != offset:
        raise CorruptIndex(f"no batch at {position} ends at offset {offset}")
    return chain((first,), walk)
