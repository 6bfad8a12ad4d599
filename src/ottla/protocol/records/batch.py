"""The header of a record batch (magic 2): all that the broker reads of produced data.

at  size  field              notes
 0     8  base_offset        set by the leader; not covered by the checksum
 8     4  batch_length       bytes after this field
12     4  leader_epoch       set by the leader; not covered by the checksum
16     1  magic              2
17     4  crc                CRC32C of everything from `attributes` on
21     2  attributes         bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
23     4  last_offset_delta  last_offset - base_offset; compaction keeps it when it drops records
27     8  base_timestamp     base of the records' timestamps, or the delete horizon (bit 6)
35     8  max_timestamp      the largest of the records, or the log append time (bit 3)
43     8  producer_id        -1 without idempotence
51     2  producer_epoch     -1 without idempotence
53     4  base_sequence      -1 without idempotence
57     4  record_count
61        the records, compressed as one block if there is a codec
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, error
from typing import NamedTuple

from ottla.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from ottla.protocol.records.checksum import crc32c

HEADER_BYTES = 61
LOG_OVERHEAD = 12
"""The bytes not counted by `batch_length`: base_offset and batch_length themselves."""

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_PRODUCER_ID = -1
NO_TIMESTAMP = -1
MAX_CODEC = 4

HEADER = Struct(">qiibIhiqqqhii")
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
MAGIC_POSITION = 16

_OFFSET = Struct(">q")
_EPOCH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP = Struct(">q")

Buffer = bytes | bytearray | memoryview


class BatchHeader(NamedTuple):
    """A batch's header, field by field as on the wire."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Return the size of the whole batch, header included."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Return the offset of the last record that was in the batch when it was produced."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Return the base offset of the batch that follows."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """Return the compression codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Return whether the batch is a transaction marker, which consumers skip."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record's timestamp is `max_timestamp`."""
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Return whether `base_timestamp` is the time when the batch's tombstones may be dropped."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number; after 2^31 - 1 comes 0. -1 without idempotence."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


_unpack_header = HEADER.unpack_from
_make_header = BatchHeader._make


def decode_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header at the position; checks only that it is complete."""
    try:
        return _make_header(_unpack_header(buffer, position))
    except error:
        raise CorruptMessage(f"a batch header takes {HEADER_BYTES} bytes") from None


def crc_of(batch: Buffer) -> int:
    """Return the correct checksum of `batch` (one whole batch)."""
    return int(crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))


def check_crc(batch: Buffer, header: BatchHeader) -> None:
    """Raise CorruptMessage unless `batch`, one whole batch, has the checksum in its header."""
    actual = crc_of(batch)
    if actual != header.crc:
        raise CorruptMessage(f"CRC32C is {actual:#010x}, the header says {header.crc:#010x}")


def check_batch(batch: memoryview) -> BatchHeader:
    """Return the header of the data produced to one partition, or raise why it is rejected.

    Checks everything that can be known without decompressing: exactly one batch, of the current format,
    intact, with a count that fits its offsets and complete producer fields. Control batches pass: the caller
    decides who may write those.
    """
    size = len(batch)
    if size < HEADER_BYTES:
        _refuse_short(batch)
    header = _make_header(_unpack_header(batch))
    if header.magic != 2:
        _refuse_magic(header.magic)
    if header.batch_length != size - LOG_OVERHEAD:
        _refuse_length(header, size)
    if crc32c(batch[ATTRIBUTES_POSITION:]) != header.crc:
        check_crc(batch, header)
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise InvalidRecord(
            f"{header.record_count} records cannot span {header.last_offset_delta + 1} offsets"
        )
    if header.attributes & (CODEC_MASK | TRANSACTIONAL_BIT | DELETE_HORIZON_BIT):
        _check_attributes(header)
    if header.producer_id != NO_PRODUCER_ID and (
        header.producer_id < 0 or header.producer_epoch < 0 or header.base_sequence < 0
    ):
        raise InvalidRecord("a batch with a producer id needs an epoch and a sequence number")
    return header


def _refuse_short(batch: memoryview) -> None:
    """Raise the error for a batch without a complete header; older formats have shorter headers."""
    if len(batch) == 0:
        raise InvalidRecord("a produce request carries exactly one batch per partition, not none")
    if len(batch) > MAGIC_POSITION and batch[MAGIC_POSITION] in (0, 1):
        _refuse_magic(batch[MAGIC_POSITION])
    raise CorruptMessage(f"a batch header takes {HEADER_BYTES} bytes, here are {len(batch)}")


def _refuse_magic(magic: int) -> None:
    if magic in (0, 1):
        raise UnsupportedForMessageFormat(f"records of format {magic} are no longer accepted, only of 2")
    raise CorruptMessage(f"there is no record format {magic}")


def _refuse_length(header: BatchHeader, size: int) -> None:
    if HEADER_BYTES <= header.size_bytes < size:
        raise InvalidRecord("a produce request carries exactly one batch per partition, not several")
    raise CorruptMessage(f"the batch says it has {header.size_bytes} bytes, here are {size}")


def _check_attributes(header: BatchHeader) -> None:
    if header.codec > MAX_CODEC:
        raise UnsupportedCompressionType(f"there is no codec {header.codec}")
    if header.has_delete_horizon:
        raise InvalidRecord("only the log's cleaner sets a delete horizon")
    if header.is_transactional and header.producer_id < 0:
        raise InvalidRecord("a transactional batch needs a producer id")


def stamp(batch: memoryview, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and leader epoch in place; the checksum does not cover them."""
    _OFFSET.pack_into(batch, 0, base_offset)
    _EPOCH.pack_into(batch, 12, leader_epoch)


def stamp_log_append_time(batch: memoryview, now_ms: int) -> None:
    """Set `now_ms` as the timestamp of every record, in place, and update the checksum."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_POSITION, attributes | LOG_APPEND_TIME_BIT)
    _MAX_TIMESTAMP.pack_into(batch, 35, now_ms)
    _CRC.pack_into(batch, 17, crc_of(batch))


def iter_batches(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield each whole batch in `buffer` with its header; checksums are not verified.

    An incomplete batch at the end is ignored: reads by size end anywhere. An impossible length, or another
    format, raises.
    """
    view = memoryview(buffer)
    position, end = 0, len(view)
    while position + HEADER_BYTES <= end:
        header = _make_header(_unpack_header(view, position))
        size = header.size_bytes
        if header.magic != 2:
            _refuse_magic(header.magic)
        if size < HEADER_BYTES:
            raise CorruptMessage(f"the batch at byte {position} says it has {size} bytes")
        if position + size > end:
            return
        yield header, view[position : position + size]
        position += size
