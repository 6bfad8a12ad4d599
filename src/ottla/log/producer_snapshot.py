"""Producers' state in a file.

`<offset>.snapshot`, big-endian: the state just before `offset`
    at  size  field
     0     2  version, 1
     2     4  CRC32C of everything after this field
     6     4  number of entries
    10        per batch that is remembered, 46 bytes, the oldest of a producer first:
     0     8  producer id
     8     2  producer epoch
    10     4  last sequence number, -1 if none
    14     8  last offset, -1 if none
    22     4  last offset - first offset
    26     8  timestamp
    34     4  epoch of the transaction coordinator, -1 if none
    38     8  first offset of the open transaction, -1 if none

Kafka writes one entry per producer, of its last batch, and when it reads a file the last entry of a producer
counts: so it reads ours as one of its own. We read all of them, and know the same duplicates after a
restart as before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

from crc32c import crc32c

from ottla.log.producer_entry import BATCHES_KEPT, BatchMark, ProducerEntry

SEQUENCE_MASK = 0x7FFFFFFF

_HEAD = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1
_CRC_FROM = 6
_NO_MARKS = (BatchMark(-1, -1, -1, 0, -1),)


class CorruptSnapshot(Exception):
    """A snapshot file is torn, or its bits have changed."""


def encode_snapshot(producers: Mapping[int, ProducerEntry]) -> bytes:
    """Return the file's contents."""
    body = bytearray(_HEAD.size)
    count = 0
    for producer_id, entry in producers.items():
        epoch, coordinator_epoch, txn = entry.epoch, entry.coordinator_epoch, entry.txn_first_offset
        marks = entry.batches or _NO_MARKS
        for _, sequence, offset, delta, time in (*marks[:-1], (*marks[-1][:-1], entry.last_timestamp)):
            body += _ENTRY.pack(producer_id, epoch, sequence, offset, delta, time, coordinator_epoch, txn)
        count += len(marks)
    _HEAD.pack_into(body, 0, _VERSION, 0, count)
    _HEAD.pack_into(body, 0, _VERSION, crc32c(memoryview(body)[_CRC_FROM:]), count)
    return bytes(body)


def decode_snapshot(data: bytes) -> dict[int, ProducerEntry]:
    """Return the producers that `encode_snapshot` wrote; CorruptSnapshot if the file is not whole."""
    if len(data) < _HEAD.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"version {version} is unknown")
    if crc32c(memoryview(data)[_CRC_FROM:]) != crc or len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshot("the checksum or the length is wrong")
    producers: dict[int, ProducerEntry] = {}
    for producer_id, epoch, *fields in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :]):
        entry = producers.get(producer_id)
        if entry is None or entry.epoch != epoch:
            entry = producers[producer_id] = ProducerEntry(epoch)
        _add(entry, *fields)
    return producers


def _add(
    entry: ProducerEntry,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> None:
    entry.coordinator_epoch = coordinator_epoch
    entry.last_timestamp = timestamp
    entry.txn_first_offset = txn_first_offset
    if last_offset >= 0:
        first = (last_sequence - offset_delta) & SEQUENCE_MASK if last_sequence >= 0 else last_sequence
        mark = BatchMark(first, last_sequence, last_offset, offset_delta, timestamp)
        entry.batches = (*entry.batches[1 - BATCHES_KEPT :], mark)
