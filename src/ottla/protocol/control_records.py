"""Transaction markers: the control batches by which a coordinator ends a transaction in a partition.

A marker is a batch of one record, with the attributes `control` and `transactional`, the producer's id and
epoch, and no sequence number.

    key     int16 version (0), int16 type: 0 abort, 1 commit; other types are not about transactions
    value   int16 version (0), int32 coordinator epoch

It decides everything that its producer wrote to the partition since the marker before.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ottla.protocol.errors import CorruptMessage, InvalidRecord
from ottla.protocol.record_batch import BatchHeader, Buffer
from ottla.protocol.records import Record, decode_records, encode_batch

ABORT, COMMIT = 0, 1
MARKER_BYTES = 78
"""The size of every marker's batch."""

_KEY = Struct(">hh")
_VALUE = Struct(">hi")


class Marker(NamedTuple):
    """The end of one producer's transaction, as its coordinator decided it."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    """Of the partition of `__transaction_state` that the coordinator leads: it fences older ones."""
    transaction_version: int = 0
    """From 2 on every transaction has an epoch of its own, and the marker carries the next one (KIP-890)."""


def encode_marker(marker: Marker, now_ms: int) -> memoryview:
    """Return the control batch, to be stamped and appended."""
    key = _KEY.pack(0, COMMIT if marker.is_commit else ABORT)
    value = _VALUE.pack(0, marker.coordinator_epoch)
    return memoryview(
        encode_batch(
            [Record(0, now_ms, key, value)],
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transactional=True,
            control=True,
        )
    )


def decode_marker(header: BatchHeader, batch: Buffer) -> Marker | None:
    """Return the marker in a control batch; None if it is of another kind, or compaction emptied it."""
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
