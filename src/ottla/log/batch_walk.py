"""Walking over the batches of a .log file: all of each, or only their headers.

Both walks check of each batch only what they need to go on (format, and a length that fits), and
raise CorruptMessage with the position where that fails. Neither checks checksums. They use nothing
but an `OpenFile`, so they may run in any thread.
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

    Small batches are read many at a time; over large ones the walk steps without reading them.
    """
    position = start
    chunk, chunk_start = b"", start
    read_bytes = chunk_bytes
    while position < end:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk = file.read_at(position, min(read_bytes, end - position))
            chunk_start, at = position, 0
        header = _checked_header(chunk, at, position, end)
        yield position, header
        size = header.batch_length + LOG_OVERHEAD
        position += size
        read_bytes = chunk_bytes if size < chunk_bytes else HEADER_BYTES


def in_order(walk: Iterator[tuple[int, BatchHeader]], base_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Pass on a walk over a segment that starts at `base_offset`; CorruptMessage if its offsets cannot be."""
    next_offset = base_offset
    for position, header in walk:
        if header.base_offset < next_offset or header.last_offset - base_offset > INT_MAX:
            raise CorruptMessage(f"the batch at {position} has offset {header.base_offset}")
        next_offset = header.next_offset
        yield position, header


def walk_batches(file: OpenFile, start: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield (position, header, the whole batch) from `start` to `end`, read about a megabyte at a time."""
    position = start
    chunk, chunk_start = memoryview(b""), start
    while position < end:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk = memoryview(file.read_at(position, min(BATCH_READ_BYTES, end - position)))
            chunk_start, at = position, 0
        header = _checked_header(chunk, at, position, end)
        size = header.batch_length + LOG_OVERHEAD
        if at + size > len(chunk):
            chunk = memoryview(file.read_at(position, min(max(BATCH_READ_BYTES, size), end - position)))
            chunk_start, at = position, 0
            if len(chunk) < size:
                raise CorruptMessage(f"the batch at {position} is cut off")
        yield position, header, chunk[at : at + size]
        position += size


def _checked_header(chunk: bytes | memoryview, at: int, position: int, end: int) -> BatchHeader:
    if at + HEADER_BYTES > len(chunk):
        raise CorruptMessage(f"the batch at {position} is cut off")
    header = decode_header(chunk, at)
    size = header.batch_length + LOG_OVERHEAD
    if header.magic != 2 or size < HEADER_BYTES or position + size > end or header.last_offset_delta < 0:
        raise CorruptMessage(f"there is no batch at {position}")
    return header
