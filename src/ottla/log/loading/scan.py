"""Separate intact batches from damaged bytes in a .log file after a crash."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ottla.log.batch_walk import walk_batches
from ottla.log.disk import OpenFile
from ottla.log.log_config import INT_MAX, LONG_MAX
from ottla.protocol.errors import CorruptMessage
from ottla.protocol.records.batch import HEADER_BYTES, MAGIC_POSITION, BatchHeader, check_crc, decode_header

_WINDOW_BYTES = 1 << 20
_HIGH_HALF = Struct(">I")
_MAGIC = b"\x02"
_PAGE_BYTES = 4096
_ZEROS = bytes(16)


class BadRange(NamedTuple):
    """Bytes that are no batch, and the offsets that are missing because of them."""

    start: int
    end: int
    expected_offset: int
    resumed_offset: int
    """The base offset of the intact batch that follows, or -1 if none does."""


class Scan(NamedTuple):
    """The result of a scan."""

    bad: list[BadRange]
    next_offset: int
    """The offset after the last intact batch."""


class ScanBounds(NamedTuple):
    """What a scan assumes."""

    first_offset: int
    """No batch starts before it."""
    end_offset: int = LONG_MAX
    """No batch ends after it: the next segment starts there."""
    trusted_below: int = 0
    """Batches that end below it were fsynced: their checksums are not verified."""

    @property
    def is_last(self) -> bool:
        """Return whether no segment follows."""
        return self.end_offset == LONG_MAX


def scan(file: OpenFile, start: int, end: int, bounds: ScanBounds) -> Scan:
    """Find the bad ranges between two positions; a batch starts at `start`.

    A batch is intact if it is complete, its offsets ascend, and its checksum is correct.
    """
    bad: list[BadRange] = []
    position, expected = start, bounds.first_offset
    jump: tuple[int, int] | None = None
    while position < end:
        try:
            for batch_position, header, batch in walk_batches(file, position, end):
                if jump is not None and jump[1] <= header.base_offset < expected:
                    # Offsets are not under the checksum: it was the batch before that had a wrong one.
                    check_crc(batch, header)
                    bad.append(BadRange(jump[0], batch_position, jump[1], header.base_offset))
                    expected = header.base_offset
                _check(header, batch, expected, bounds)
                jump = (batch_position, expected) if header.base_offset > expected else None
                position, expected = batch_position + header.size_bytes, header.next_offset
        except CorruptMessage:
            jump = None
            resume, header_there = _next_intact(file, position, end, expected, bounds.end_offset)
            resumed = -1 if header_there is None else header_there.base_offset
            bad.append(BadRange(position, resume, expected, resumed))
            position = resume
            if header_there is not None:
                expected = header_there.base_offset
    return Scan(bad, expected)


def is_torn_append(file: OpenFile, start: int, end: int) -> bool:
    """Return whether the bytes at the end of a log are zeros, or the beginning of a batch and nothing
    else.
    """
    if end - start < HEADER_BYTES:
        return True
    head = file.read_at(start, HEADER_BYTES)
    header = decode_header(head)
    return not any(head) or (header.magic == 2 and start + header.size_bytes > end)


def has_lost_page(file: OpenFile, bad: BadRange) -> bool:
    """Return whether a page of these bytes never reached the disk: zeros from some point to its end.

    A page that had been written before keeps its old contents; the rest is zeros. Requiring a run of zeros at
    the end of a page keeps a flipped bit near a few zeros from being mistaken for it.
    """
    first = (bad.start // _PAGE_BYTES + 1) * _PAGE_BYTES
    ends = [*range(first, bad.end + 1, _PAGE_BYTES)]
    if bad.resumed_offset < 0:
        ends.append(bad.end)  # the last page is as long as the file is
    places = (end - len(_ZEROS) for end in ends)
    return any(place >= bad.start and file.read_at(place, len(_ZEROS)) == _ZEROS for place in places)


def _check(header: BatchHeader, batch: memoryview, expected: int, bounds: ScanBounds) -> None:
    is_in_order = expected <= header.base_offset <= min(expected + INT_MAX, bounds.end_offset)
    if not is_in_order or header.next_offset > bounds.end_offset or header.record_count < 0:
        raise CorruptMessage(f"offset {header.base_offset} cannot follow {expected - 1}")
    if header.next_offset > bounds.trusted_below:
        check_crc(batch, header)


def _next_intact(
    file: OpenFile, bad: int, end: int, expected: int, end_offset: int
) -> tuple[int, BatchHeader | None]:
    """Return position and header of the next intact batch after the bad one at `bad`; (end, None) if there is
    none.

    If only the contents of the bad batch are damaged, its length still locates the next one. That is tried
    first, also because the contents may hold what looks like a batch. Otherwise every position is tried that
    has the expected high half of an offset, and the magic number where it belongs.
    """
    bounds = ScanBounds(expected, end_offset)
    if end - bad >= HEADER_BYTES:
        size = decode_header(file.read_at(bad, HEADER_BYTES)).size_bytes
        if HEADER_BYTES <= size <= end - bad:
            header = _intact_at(file, bad + size, end, bounds)
            if header is not None:
                return bad + size, header
    high = expected >> 32
    starts = (_HIGH_HALF.pack(high), _HIGH_HALF.pack(high + 1))
    position = bad + 1
    while end - position >= HEADER_BYTES:
        window = file.read_at(position, min(_WINDOW_BYTES, end - position))
        magic_at = window.find(_MAGIC, MAGIC_POSITION)
        while magic_at >= 0:
            start = magic_at - MAGIC_POSITION
            if window.startswith(starts, start):
                header = _intact_at(file, position + start, end, bounds)
                if header is not None:
                    return position + start, header
            magic_at = window.find(_MAGIC, magic_at + 1)
        position += len(window) - MAGIC_POSITION
    return end, None


def _intact_at(file: OpenFile, position: int, end: int, bounds: ScanBounds) -> BatchHeader | None:
    try:
        for _, header, batch in walk_batches(file, position, min(end, position + HEADER_BYTES + INT_MAX)):
            _check(header, batch, bounds.first_offset, bounds)
            return header
    except CorruptMessage:
        pass
    return None
