"""Reads the files of a log for a human: what is in them, where, and what is wrong with it.

`dump(path)` goes by the file's name and yields one report per batch or entry, in file order. Nothing here
raises over bad contents: every report carries a `problem` (None = fine), and bytes that are no batch
or entry at all come as a `Gap`. After a gap in a .log file the next intact batch is searched for, so one bad
length does not hide what follows it. Index entries are compared with the .log file beside them.

Only reads; safe on the files of a running broker, whose last batch or entry may then look torn.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ottla.log import names
from ottla.log.dump import index_dump
from ottla.log.dump.index_dump import (
    AbortedEntry,
    EpochEntry,
    Gap,
    OffsetEntry,
    ProducerEntry,
    TimeEntry,
    dump_txn_index,
)
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import (
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    BatchHeader,
    crc_of,
    decode_header,
)
from ottla.protocol.records.records import Record, decode_records

_MAGIC = b"\x02"
_MAGIC_AT = 16
_SEARCH_BYTES = 1 << 20
_CODECS = 5


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One batch of a .log file; `records` only where they were asked for and can be read."""

    position: int
    header: BatchHeader
    actual_crc: int
    problem: str | None
    records: list[Record] | None = None

    @property
    def crc_ok(self) -> bool:
        """Whether the batch has the checksum that its header states."""
        return self.actual_crc == self.header.crc


Report = BatchReport | OffsetEntry | TimeEntry | AbortedEntry | ProducerEntry | EpochEntry | Gap


class NotALogFile(Exception):
    """The name is none that a log gives to its files."""


def dump(path: str | Path, *, deep: bool = False) -> Iterator[Report]:
    """Yield what the file at `path` holds; `deep` decodes the records of batches too.

    Raises NotALogFile for a name it does not know, OSError if the file cannot be read.
    """
    path = Path(path)
    match kind_of(path.name):
        case names.LOG:
            return dump_batches(path, deep=deep)
        case names.OFFSET_INDEX:
            return index_dump.dump_offset_index(path)
        case names.TIME_INDEX:
            return index_dump.dump_time_index(path)
        case names.TXN_INDEX:
            return dump_txn_index(path)
        case names.SNAPSHOT:
            return index_dump.dump_snapshot(path)
        case names.EPOCH_CHECKPOINT:
            return index_dump.dump_epochs(path)
        case _:
            raise NotALogFile(
                f"{path.name} is no file of a log: a name ends with .log, .index, .timeindex, .txnindex or "
                f".snapshot, or is {names.EPOCH_CHECKPOINT}"
            )


def kind_of(name: str) -> str | None:
    """Return the kind of file that `name` says it is; .cleaned, .swap and .deleted do not hide it."""
    for suffix in (names.CLEANED, names.SWAP, names.DELETED, names.QUARANTINE):
        name = name.removesuffix(suffix)
    if name == names.EPOCH_CHECKPOINT:
        return name
    kind = Path(name).suffix
    return kind if kind in (*names.SEGMENT_KINDS, names.SNAPSHOT) else None


def dump_batches(path: Path, *, deep: bool = False) -> Iterator[BatchReport | Gap]:
    """Yield the batches of a .log file, and the gaps between them."""
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
    """Return where the next batch with a right checksum starts, or `end`.

    Looks at every byte that could be the `magic` of a header; few of those have a length that fits.
    """
    while position < end:
        block = os.pread(file.fileno(), _SEARCH_BYTES + HEADER_BYTES, position)
        at = block.find(_MAGIC, _MAGIC_AT)
        while 0 <= at <= len(block) - (HEADER_BYTES - _MAGIC_AT):
            start = at - _MAGIC_AT
            if start >= _SEARCH_BYTES:
                break
            if _is_intact(file, block, start, position, end):
                return position + start
            at = block.find(_MAGIC, at + 1)
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
