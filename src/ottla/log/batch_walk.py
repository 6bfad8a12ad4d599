"""Iterate over the batches of a .log file: whole batches, or only their headers.

Both iterators check only what they need in order to continue (format, and a length that fits), and raise
CorruptMessage with the position where that fails. Neither verifies checksums. They use only an `OpenFile`, so
they may run in any thread.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.log.disk import OpenFile
from ottla.log.log_config import INT_MAX
from ottla.protocol.errors import CorruptMessage
from ottla.protocol.records.batch import HEADER_BYTES, LOG_OVERHEAD, BatchHeader, decode_header

WALK_BYTES = 1 << 16
BATCH_READ_BYTES = 1 << 20


def walk_headers(
    file: OpenFile, start: int, end: int, *, chunk_bytes: int = WALK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each batch from `start` to `end`.

    Small batches are read many at a time; large ones are skipped without reading them.
    """
    position = start
    chunk, chunk_start = b"", start
    read_bytes = chunk_bytes
    while position < end:
        start_in_chunk = position - chunk_start
        if start_in_chunk + HEADER_BYTES > len(chunk):
            chunk = file.read_at(position, min(read_bytes, end - position))
            chunk_start, start_in_chunk = position, 0
        header = _checked_header(chunk, start_in_chunk, position, end)
        yield position, header
        size = header.batch_length + LOG_OVERHEAD
        position += size
        read_bytes = chunk_bytes if size < chunk_bytes else HEADER_BYTES


def in_order(walk: Iterator[tuple[int, BatchHeader]], base_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Pass on a walk over a segment that starts at `base_offset`; raise CorruptMessage if offsets are
    impossible.
    """
    next_offset = base_offset
    for position, header in walk:
        if header.base_offset < next_offset or header.last_offset - base_offset > INT_MAX:
            raise CorruptMessage(f"the batch at position {position} has offset {header.base_offset}")
        next_offset = header.next_offset
        yield position, header


def walk_batches(file: OpenFile, start: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield (position, header, batch) from `start` to `end`, reading about a megabyte at a time."""
    position = start
    chunk, chunk_start = memoryview(b""), start
    while position < end:
        start_in_chunk = position - chunk_start
        if start_in_chunk + HEADER_BYTES > len(chunk):
            chunk = memoryview(file.read_at(position, min(BATCH_READ_BYTES, end - position)))
            chunk_start, start_in_chunk = position, 0
        header = _checked_header(chunk, start_in_chunk, position, end)
        size = header.batch_length + LOG_OVERHEAD
        if start_in_chunk + size > len(chunk):
            chunk = memoryview(file.read_at(position, min(max(BATCH_READ_BYTES, size), end - position)))
            chunk_start, start_in_chunk = position, 0
            if len(chunk) < size:
                raise CorruptMessage(f"the batch at position {position} is truncated")
        yield position, header, chunk[start_in_chunk : start_in_chunk + size]
        position += size


def _checked_header(chunk: bytes | memoryview, start_in_chunk: int, position: int, end: int) -> BatchHeader:
    if start_in_chunk + HEADER_BYTES > len(chunk):
        raise CorruptMessage(f"the batch at position {position} is truncated")
    header = decode_header(chunk, start_in_chunk)
    size = header.batch_length + LOG_OVERHEAD
    if header.magic != 2 or size < HEADER_BYTES or position + size > end or header.last_offset_delta < 0:
        raise CorruptMessage(f"there is no batch at position {position}")
    return header
