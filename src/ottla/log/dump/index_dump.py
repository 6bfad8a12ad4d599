"""Reads the small files of a log for a human: indexes, producer snapshots, leader epochs. See dump.py.

The layouts are described where they are written: offset_index.py, time_index.py, producer_snapshot.py,
epoch_cache.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import BinaryIO

from crc32c import crc32c

from ottla.log import names
from ottla.log.indexes import OffsetIndex, TimeIndex
from ottla.log.transaction_index import ENTRY
from ottla.protocol.records.batch import HEADER_BYTES, decode_header

_SNAPSHOT_HEAD = Struct(">hIi")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
_CRC_FROM = 6
_ProducerFields = tuple[int, int, int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that are no batch or entry."""

    position: int
    size_bytes: int
    problem: str


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One entry of an .index file."""

    position: int
    offset: int
    log_position: int
    problem: str | None


@dataclass(frozen=True, slots=True)
class TimeEntry:
    """One entry of a .timeindex file."""

    position: int
    timestamp: int
    offset: int
    problem: str | None


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """One batch of a producer, of a .snapshot file."""

    position: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int
    problem: str | None


@dataclass(frozen=True, slots=True)
class EpochEntry:
    """One line of leader-epoch-checkpoint; `position` is its line number, from 1."""

    position: int
    leader_epoch: int
    start_offset: int
    problem: str | None


def dump_offset_index(path: Path) -> Iterator[OffsetEntry | Gap]:
    """Yield the entries of an .index file, each compared with the batch that it points to."""
    base_offset, before = _base_offset(path), (-1, -1)
    with _LogBeside(path) as log:
        for position, entry in _entries(path, OffsetIndex.ENTRY):
            if isinstance(entry, Gap):
                yield entry
                continue
            relative, log_position = entry
            offset = base_offset + relative
            problem = None
            if relative <= before[0] or log_position <= before[1]:
                problem = "does not ascend"
            else:
                problem = log.problem_with(offset, log_position)
            before = entry
            yield OffsetEntry(position, offset, log_position, problem)


def dump_time_index(path: Path) -> Iterator[TimeEntry | Gap]:
    """Yield the entries of a .timeindex file."""
    base_offset, before = _base_offset(path), (-1, -1)
    for position, entry in _entries(path, TimeIndex.ENTRY):
        if isinstance(entry, Gap):
            yield entry
            continue
        ascends = entry[0] > before[0] and entry[1] > before[1]
        before = entry
        yield TimeEntry(position, entry[0], base_offset + entry[1], None if ascends else "does not ascend")


def _base_offset(path: Path) -> int:
    """Return the offset in the file's name; 0 if there is none (a copy under another name)."""
    digits = path.name.partition(".")[0]
    return int(digits) if digits.isdecimal() else 0


def _entries(path: Path, layout: Struct) -> Iterator[tuple[int, tuple[int, int] | Gap]]:
    """Yield (position, entry); the zeros of a preallocated file and half an entry at the end are gaps."""
    data = path.read_bytes()
    used = len(data.rstrip(b"\0"))
    used = min(-(-used // layout.size) * layout.size, len(data))
    if len(data) == layout.size and used == 0:
        used = layout.size  # the one entry of a one-batch segment may be all zeros
    for position in range(0, used - layout.size + 1, layout.size):
        first, second = layout.unpack_from(data, position)
        yield position, (first, second)
    torn = used % layout.size
    if torn:
        yield used - torn, Gap(used - torn, torn, f"an entry takes {layout.size} bytes: a torn write?")
    if used < len(data):
        yield used, Gap(used, len(data) - used, "zeros: space that was reserved and never written?")


class _LogBeside:
    """The .log file that an index belongs to, if it is there."""

    def __init__(self, index: Path) -> None:
        self._path = index.with_name(index.name.replace(names.OFFSET_INDEX, names.LOG, 1))
        self._file: BinaryIO | None = None

    def __enter__(self) -> _LogBeside:
        if self._path.exists():
            self._file = self._path.open("rb")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def problem_with(self, offset: int, position: int) -> str | None:
        """Return how the batch at `position` differs from one that ends at `offset`."""
        if self._file is None:
            return None
        head = os.pread(self._file.fileno(), HEADER_BYTES, position)
        if len(head) < HEADER_BYTES:
            return f"points past the end of {self._path.name}"
        header = decode_header(head)
        if header.magic != 2:
            return f"no batch starts there in {self._path.name}"
        if header.last_offset != offset:
            return f"the batch there ends at offset {header.last_offset}"
        return None


def dump_snapshot(path: Path) -> Iterator[ProducerEntry | Gap]:
    """Yield the producers of a .snapshot file; a wrong checksum makes every one of them doubtful."""
    data = path.read_bytes()
    if len(data) < _SNAPSHOT_HEAD.size:
        yield Gap(0, len(data), f"a snapshot has at least {_SNAPSHOT_HEAD.size} bytes: a torn write?")
        return
    version, stated_crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != 1:
        yield Gap(0, len(data), f"snapshot version {version} instead of 1")
        return
    actual_crc = crc32c(data[_CRC_FROM:])
    problem = None
    if actual_crc != stated_crc:
        problem = f"CRC32C is {actual_crc:#010x}, the snapshot says {stated_crc:#010x}"
    at, seen = _SNAPSHOT_HEAD.size, 0
    while seen < count and at + _SNAPSHOT_ENTRY.size <= len(data):
        fields: _ProducerFields = _SNAPSHOT_ENTRY.unpack_from(data, at)
        yield ProducerEntry(at, *fields, problem)
        at += _SNAPSHOT_ENTRY.size
        seen += 1
    if seen != count or at != len(data):
        yield Gap(at, len(data) - at, f"{count} entries are announced, {seen} were read: a torn write?")
    elif problem and not count:
        yield Gap(0, len(data), problem)


def dump_epochs(path: Path) -> Iterator[EpochEntry | Gap]:
    """Yield the leader epochs of a checkpoint file: a version line, a count line, `epoch offset` lines."""
    lines = path.read_text(encoding="ascii", errors="replace").split("\n")
    count = lines[1].strip() if len(lines) > 1 else ""
    if lines[0].strip() != "0" or not count.isdecimal():
        yield Gap(0, path.stat().st_size, "the first two lines are not a version 0 and a count")
        return
    before, seen = (-1, -1), 0
    for number, line in enumerate(lines[2:], start=3):
        words = line.split()
        if not words:
            continue
        if len(words) != 2 or not all(word.isdecimal() for word in words):
            yield Gap(number, len(line), f"line {number} is no `epoch offset`: {line[:80]!r}")
            continue
        epoch, start = int(words[0]), int(words[1])
        ascends = epoch > before[0] and start >= before[1]
        before = (epoch, start)
        seen += 1
        yield EpochEntry(number, epoch, start, None if ascends else "does not ascend")
    if seen != int(count):
        yield Gap(2, len(count), f"{count} epochs are announced, {seen} were read")


# Reads a .txnindex file for a human. The layout is described in transaction_index.py.


@dataclass(frozen=True, slots=True)
class AbortedEntry:
    """One entry of a .txnindex file."""

    position: int
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    problem: str | None


def dump_txn_index(path: Path) -> Iterator[AbortedEntry | Gap]:
    """Yield the aborted transactions of a .txnindex file."""
    data = path.read_bytes()
    before = -1
    for position in range(0, len(data) - ENTRY.size + 1, ENTRY.size):
        version, producer_id, first, last, stable = ENTRY.unpack_from(data, position)
        problem = None
        if version != 0:
            problem = f"version {version} instead of 0"
        elif last <= before:
            problem = "does not ascend"
        elif first > last:
            problem = "ends before it begins"
        before = last
        yield AbortedEntry(position, version, producer_id, first, last, stable, problem)
    torn = len(data) % ENTRY.size
    if torn:
        yield Gap(len(data) - torn, torn, f"an entry takes {ENTRY.size} bytes: a torn write?")
