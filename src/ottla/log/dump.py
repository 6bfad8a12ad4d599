"""Read the files of a log for `ottla log dump`: what they contain, where, and what is wrong with it.

`dump(path)` selects the format by the file name and yields one report per batch or entry, in file order. Bad
contents raise nothing: every report has a `problem` (None if it is fine), and bytes that are no batch or
entry are reported as a `Gap`. After a gap in a .log file the next intact batch is searched for, so that one
bad length does not hide what follows. Index entries are compared with the .log file beside them.

Only reads, so it is safe on the files of a running broker, whose last batch or entry may then look torn. The
layouts are described in indexes.py, transaction_index.py, producer_state.py and epoch_cache.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import BinaryIO

from ottla.log import file_names
from ottla.log.indexes import OffsetIndex, TimeIndex
from ottla.log.transaction_index import ENTRY
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import (
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    BatchHeader,
    crc_of,
    decode_header,
)
from ottla.protocol.records.checksum import crc32c
from ottla.protocol.records.records import Record, decode_records

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
    with _MatchingLog(path) as log:
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
    """Yield (position, entry); the zeros of a preallocated file and a partial entry at the end are gaps."""
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


class _MatchingLog:
    """The .log file that an index belongs to, if it exists."""

    def __init__(self, index: Path) -> None:
        self._path = index.with_name(index.name.replace(file_names.OFFSET_INDEX, file_names.LOG, 1))
        self._file: BinaryIO | None = None

    def __enter__(self) -> _MatchingLog:
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
    """Yield the producers of a .snapshot file; a wrong checksum is reported with every entry."""
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
    position, seen = _SNAPSHOT_HEAD.size, 0
    while seen < count and position + _SNAPSHOT_ENTRY.size <= len(data):
        fields: _ProducerFields = _SNAPSHOT_ENTRY.unpack_from(data, position)
        yield ProducerEntry(position, *fields, problem)
        position += _SNAPSHOT_ENTRY.size
        seen += 1
    if seen != count or position != len(data):
        problem = f"{count} entries are stated, {seen} were read: a torn write?"
        yield Gap(position, len(data) - position, problem)
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


_MAGIC = b"\x02"
_MAGIC_AT = 16
_SEARCH_BYTES = 1 << 20
_CODECS = 5


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One batch of a .log file; `records` only if they were requested and can be decoded."""

    position: int
    header: BatchHeader
    actual_crc: int
    problem: str | None
    records: list[Record] | None = None

    @property
    def crc_ok(self) -> bool:
        """Return whether the batch has the checksum that its header states."""
        return self.actual_crc == self.header.crc


Report = BatchReport | OffsetEntry | TimeEntry | AbortedEntry | ProducerEntry | EpochEntry | Gap


class NotALogFile(Exception):
    """The file name is none that a log uses."""


def dump(path: str | Path, *, deep: bool = False) -> Iterator[Report]:
    """Yield the contents of the file at `path`; `deep` also decodes the records of batches.

    Raise NotALogFile for an unknown file name, OSError if the file cannot be read.
    """
    path = Path(path)
    match kind_of(path.name):
        case file_names.LOG:
            return dump_batches(path, deep=deep)
        case file_names.OFFSET_INDEX:
            return dump_offset_index(path)
        case file_names.TIME_INDEX:
            return dump_time_index(path)
        case file_names.TXN_INDEX:
            return dump_txn_index(path)
        case file_names.SNAPSHOT:
            return dump_snapshot(path)
        case file_names.EPOCH_CHECKPOINT:
            return dump_epochs(path)
        case _:
            raise NotALogFile(
                f"{path.name} is not a log file: its name ends with .log, .index, .timeindex, .txnindex or "
                f".snapshot, or is {file_names.EPOCH_CHECKPOINT}"
            )


def kind_of(name: str) -> str | None:
    """Return the kind of file by its name; .cleaned, .swap and .deleted suffixes are ignored."""
    for suffix in (file_names.CLEANED, file_names.SWAP, file_names.DELETED, file_names.QUARANTINE):
        name = name.removesuffix(suffix)
    if name == file_names.EPOCH_CHECKPOINT:
        return name
    kind = Path(name).suffix
    return kind if kind in (*file_names.SEGMENT_KINDS, file_names.SNAPSHOT) else None


def dump_batches(path: Path, *, deep: bool = False) -> Iterator[BatchReport | Gap]:
    """Yield the batches of a .log file and the gaps between them."""
    with path.open("rb") as file:
        end = os.fstat(file.fileno()).st_size
        position, next_offset = 0, 0
        while position < end:
            problem = _length_problem(file, position, end)
            if problem is not None:
                resumed = _next_intact(file, position + 1, end)
                yield Gap(position, resumed - position, problem)
                position = resumed
                continue
            report = _report_batch(file, position, next_offset, deep)
            yield report
            position += report.header.size_bytes
            next_offset = max(next_offset, report.header.next_offset)


def _length_problem(file: BinaryIO, position: int, end: int) -> str | None:
    """Return why no batch can start at `position`, or None if one can."""
    left = end - position
    if left < HEADER_BYTES:
        return f"{left} bytes are left, a batch header takes {HEADER_BYTES}: a torn write?"
    header = decode_header(os.pread(file.fileno(), HEADER_BYTES, position))
    if not any(header):
        return "zeros: space that was reserved and never written?"
    if header.magic != 2:
        return f"no batch starts here: record format {header.magic} instead of 2"
    if header.size_bytes < HEADER_BYTES:
        return f"the batch says it has {header.size_bytes} bytes, fewer than its header takes"
    if header.size_bytes > left:
        return f"the batch says it has {header.size_bytes} bytes, {left} are left: a torn write?"
    return None


def _report_batch(file: BinaryIO, position: int, next_offset: int, deep: bool) -> BatchReport:
    header = decode_header(os.pread(file.fileno(), HEADER_BYTES, position))
    batch = os.pread(file.fileno(), header.size_bytes, position)
    actual_crc = crc_of(batch)
    records: list[Record] | None = None
    problem = None
    if actual_crc != header.crc:
        problem = f"CRC32C is {actual_crc:#010x}, the header says {header.crc:#010x}"
    elif header.base_offset < next_offset:
        problem = f"starts at offset {header.base_offset}, but {next_offset} was to come next"
    elif header.last_offset_delta < 0:
        problem = f"ends {-header.last_offset_delta} offsets before it starts"
    if deep and actual_crc == header.crc:
        try:
            records = decode_records(memoryview(batch))
        except KafkaError as error:
            problem = f"the records cannot be read: {error}"
    return BatchReport(position, header, actual_crc, problem, records)


def _next_intact(file: BinaryIO, position: int, end: int) -> int:
    """Return the position of the next batch with a correct checksum, or `end`.

    Checks every byte that could be the `magic` of a header; few of those have a length that fits.
    """
    while position < end:
        block = os.pread(file.fileno(), _SEARCH_BYTES + HEADER_BYTES, position)
        magic_at = block.find(_MAGIC, _MAGIC_AT)
        while 0 <= magic_at <= len(block) - (HEADER_BYTES - _MAGIC_AT):
            start = magic_at - _MAGIC_AT
            if start >= _SEARCH_BYTES:
                break
            if _is_intact(file, block, start, position, end):
                return position + start
            magic_at = block.find(_MAGIC, magic_at + 1)
        position += _SEARCH_BYTES
    return end


def _is_intact(file: BinaryIO, block: bytes, start: int, position: int, end: int) -> bool:
    header = BatchHeader._make(HEADER.unpack_from(block, start))
    size = header.batch_length + LOG_OVERHEAD
    if (
        not HEADER_BYTES <= size <= end - position - start
        or header.base_offset < 0
        or header.codec >= _CODECS
    ):
        return False
    return crc_of(os.pread(file.fileno(), size, position + start)) == header.crc
