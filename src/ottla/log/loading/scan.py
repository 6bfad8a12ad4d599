"""Telling good batches from bad bytes in a .log file after a crash."""

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
    """Bytes that are no batch, and the offsets that are missing for it."""

    start: int
    end: int
    expected_offset: int
    resumed_offset: int
    """The base offset of the good batch that follows, or -1 if none does."""


class Scan(NamedTuple):
    """What a scan found."""

    bad: list[BadRange]
    next_offset: int
    """The offset after the last good batch."""


class Expected(NamedTuple):
    """What a scan takes for granted."""

    first_offset: int
    """No batch starts before it."""
    end_offset: int = LONG_MAX
    """No batch ends after it: there the next segment starts."""
    trusted_below: int = 0
    """Batches that end below it were fsynced: their checksums are not computed."""

    @property
    def is_last(self) -> bool:
        """Whether no segment follows."""
        return self.end_offset == LONG_MAX


def scan(file: OpenFile, start: int, end: int, given: Expected) -> Scan:
    """Find what is not good between two positions; `start` is that of a batch.

    A batch is good if it is whole, its offsets go up, and its checksum is right.
    """
    bad: list[BadRange] = []
    position, expected = start, given.first_offset
    jump: tuple[int, int] | None = None
    while position < end:
        try:
            for at, header, batch in walk_batches(file, position, end):
                if jump is not None and jump[1] <= header.base_offset < expected:
                    # Offsets are not under the checksum: it was the batch before that had a wrong one.
                    check_crc(batch, header)
                    bad.append(BadRange(jump[0], at, jump[1], header.base_offset))
                    expected = header.base_offset
                _check(header, batch, expected, given)
                jump = (at, expected) if header.base_offset > expected else None
                position, expected = at + header.size_bytes, header.next_offset
        except CorruptMessage:
            jump = None
            resume, header_there = _next_good(file, position, end, expected, given.end_offset)
            resumed = -1 if header_there is None else header_there.base_offset
            bad.append(BadRange(position, resume, expected, resumed))
            position = resume
            if header_there is not None:
                expected = header_there.base_offset
    return Scan(bad, expected)


def is_torn_append(file: OpenFile, start: int, end: int) -> bool:
    """Return whether the bytes at the end of a log are zeros, or the beginning of a batch and no more."""
    if end - start < HEADER_BYTES:
        return True
    head = file.read_at(start, HEADER_BYTES)
    header = decode_header(head)
    return not any(head) or (header.magic == 2 and start + header.size_bytes > end)


def has_lost_page(file: OpenFile, bad: BadRange) -> bool:
    """Return whether a page of these bytes never reached the disk: zeros from somewhere in it to its end.

    Of a page that was written before, what was in it then is there; the rest is zeros. A few zeros in the
    right place would do, but then a flipped bit near some is taken for it too easily.
    """
    first = (bad.start // _PAGE_BYTES + 1) * _PAGE_BYTES
    ends = [*range(first, bad.end + 1, _PAGE_BYTES)]
    if bad.resumed_offset < 0:
        ends.append(bad.end)  # the last page is as long as the file is
    places = (end - len(_ZEROS) for end in ends)
    return any(place >= bad.start and file.read_at(place, len(_ZEROS)) == _ZEROS for place in places)


def _check(header: BatchHeader, batch: memoryview, expected: int, given: Expected) -> None:
    is_in_order = expected <= header.base_offset <= min(expected + INT_MAX, given.end_offset)
    if not is_in_order or header.next_offset > given.end_offset or header.record_count < 0:
        raise CorruptMessage(f"offset {header.base_offset} cannot follow {expected - 1}")
    if header.next_offset > given.trusted_below:
        check_crc(batch, header)


def _next_good(
    file: OpenFile, bad: int, end: int, expected: int, end_offset: int
) -> tuple[int, BatchHeader | None]:
    """Return the position and header of the next good batch after the bad one at `bad`; (end, None) if none.

    If only the contents of the bad batch are damaged, its length still says where the next one is. That
    comes first also because contents may hold what looks like a batch. Otherwise every place is tried
    that has the right high half of an offset, and the format's number where it belongs.
    """
    given = Expected(expected, end_offset)
    if end - bad >= HEADER_BYTES:
        size = decode_header(file.read_at(bad, HEADER_BYTES)).size_bytes
        if HEADER_BYTES <= size <= end - bad:
            header = _good_at(file, bad + size, end, given)
            if header is not None:
                return bad + size, header
    high = expected >> 32
    starts = (_HIGH_HALF.pack(high), _HIGH_HALF.pack(high + 1))
    position = bad + 1
    while end - position >= HEADER_BYTES:
        window = file.read_at(position, min(_WINDOW_BYTES, end - position))
        at = window.find(_MAGIC, MAGIC_POSITION)
        while at >= 0:
            start = at - MAGIC_POSITION
            if window.startswith(starts, start):
                header = _good_at(file, position + start, end, given)
                if header is not None:
                    return position + start, header
            at = window.find(_MAGIC, at + 1)
        position += len(window) - MAGIC_POSITION
    return end, None


def _good_at(file: OpenFile, position: int, end: int, given: Expected) -> BatchHeader | None:
    try:
        for _, header, batch in walk_batches(file, position, min(end, position + HEADER_BYTES + INT_MAX)):
            _check(header, batch, given.first_offset, given)
            return header
    except CorruptMessage:
        pass
    return None
