"""Transaction markers: the control batches with which a coordinator ends a transaction in a partition.

A marker is a batch of one record, with the attributes `control` and `transactional`, the producer's id and
epoch, and no sequence number.

    key     int16 version (0), int16 type: 0 abort, 1 commit; other types are not about transactions
    value   int16 version (0), int32 coordinator epoch

It decides everything that its producer wrote to the partition since the previous marker.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ottla.protocol.errors import CorruptMessage, InvalidRecord
from ottla.protocol.records.batch import (
    CONTROL_BIT,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    crc_of,
)
from ottla.protocol.records.records import decode_records

ABORT, COMMIT = 0, 1
MARKER_BYTES = 78
"""The size of every marker's batch."""

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_BATCH = Struct(HEADER.format + "5B hh B hi B")
"""A marker's batch: the header, and its one record, whose lengths are always the same."""
_BODY_BYTES = MARKER_BYTES - LOG_OVERHEAD
_RECORD_FRONT = (2 * (MARKER_BYTES - HEADER_BYTES - 1), 0, 0, 0, 2 * _KEY.size)
"""The zig-zag length, no attributes, no deltas, the zig-zag length of the key."""
_VALUE_LENGTH = 2 * _VALUE.size
_CRC = Struct(">I")
_ATTRIBUTES = TRANSACTIONAL_BIT | CONTROL_BIT


class Marker(NamedTuple):
    """The end of one producer's transaction."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    """The leader epoch of the coordinator's partition of `__transaction_state`: it fences older ones."""
    transaction_version: int = 0
    """From 2 on every transaction has its own epoch, and the marker has the next one (KIP-890)."""


def encode_marker(marker: Marker, now_ms: int) -> memoryview:
    """Return the control batch, to be stamped and appended."""
    producer_id, producer_epoch, is_commit, coordinator_epoch, _ = marker
    header = (0, _BODY_BYTES, -1, 2, 0, _ATTRIBUTES, 0, now_ms, now_ms, producer_id, producer_epoch, -1, 1)
    key, value = (0, COMMIT if is_commit else ABORT), (0, coordinator_epoch)
    batch = bytearray(_BATCH.pack(*header, *_RECORD_FRONT, *key, _VALUE_LENGTH, *value, 0))
    _CRC.pack_into(batch, CRC_POSITION, crc_of(batch))
    return memoryview(batch)


def decode_marker(header: BatchHeader, batch: Buffer) -> Marker | None:
    """Return the marker in a control batch; None if it is of another type, or compaction emptied it."""
    if not header.is_transactional or header.record_count == 0:
        return None
    try:
        record = decode_records(batch)[0]
    except (CorruptMessage, InvalidRecord):
        return None
    key, value = record.key, record.value
    if key is None or len(key) < _KEY.size:
        return None
    kind: int = _KEY.unpack_from(key)[1]
    if kind not in (ABORT, COMMIT):
        return None
    epoch = _VALUE.unpack_from(value)[1] if value is not None and len(value) >= _VALUE.size else -1
    return Marker(header.producer_id, header.producer_epoch, kind == COMMIT, epoch)
