"""Encodes and decodes the records of `__consumer_offsets`: their types, their versions, and a fast path.

    type   key                         value versions
    0, 1   OffsetKey                   OffsetValue 0-4, 3 written (1 if it has a retention of its own)
       2   GroupKey                    GroupValue 0-4, 3 written
       3   ConsumerGroupKey            0, as all below
       4   ConsumerTopicsKey
       5   ConsumerMemberKey
       6   ConsumerTargetKey
       7   ConsumerTargetMemberKey
       8   ConsumerCurrentMemberKey
      16   ConsumerRegexKey

The fields are declared in records.py. Version 4 of the classic values and version 0 of the consumer groups'
are flexible. Kafka writes other types too (share and streams groups): they decode to None and stay in the
log.

Committed offsets have a fast path, written by hand: one is encoded per partition of every OffsetCommit, and
millions are decoded when a partition is loaded. Tests compare it with the declared layout.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Any

from ottla.coordinator.group.records import (
    ConsumerCurrentMemberKey,
    ConsumerCurrentMemberValue,
    ConsumerGroupKey,
    ConsumerGroupValue,
    ConsumerMemberKey,
    ConsumerMemberValue,
    ConsumerRegexKey,
    ConsumerRegexValue,
    ConsumerTargetKey,
    ConsumerTargetMemberKey,
    ConsumerTargetMemberValue,
    ConsumerTargetValue,
    ConsumerTopicsKey,
    ConsumerTopicsValue,
    GroupKey,
    GroupValue,
    OffsetKey,
    OffsetValue,
    Record,
)
from ottla.coordinator.record_schema import KeyCodec, ValueCodec, read_int16
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import encode_string, read_string, truncated

OFFSET = ValueCodec(OffsetValue, newest=4, flexible_since=4, written=3)
OFFSET_WITH_RETENTION = ValueCodec(OffsetValue, newest=4, flexible_since=4, written=1)

_OFFSET_KEY_TYPE = b"\x00\x01"
_OFFSET_V3 = Struct(">hqi")
_INT32 = Struct(">i")
_INT64 = Struct(">q")


def _consumer(value_class: type[Any]) -> ValueCodec[Any]:
    return ValueCodec(value_class, newest=0, flexible_since=0, written=0)


_CODECS: tuple[tuple[int, type[Any], ValueCodec[Any]], ...] = (
    (2, GroupKey, ValueCodec(GroupValue, newest=4, flexible_since=4, written=3)),
    (3, ConsumerGroupKey, _consumer(ConsumerGroupValue)),
    (4, ConsumerTopicsKey, _consumer(ConsumerTopicsValue)),
    (5, ConsumerMemberKey, _consumer(ConsumerMemberValue)),
    (6, ConsumerTargetKey, _consumer(ConsumerTargetValue)),
    (7, ConsumerTargetMemberKey, _consumer(ConsumerTargetMemberValue)),
    (8, ConsumerCurrentMemberKey, _consumer(ConsumerCurrentMemberValue)),
    (16, ConsumerRegexKey, _consumer(ConsumerRegexValue)),
)
_BY_TYPE: dict[int, tuple[KeyCodec[Any], ValueCodec[Any]]] = {
    record_type: (KeyCodec(record_type, key_class), value_codec)
    for record_type, key_class, value_codec in _CODECS
}
_BY_KEY_CLASS = {key_class: _BY_TYPE[record_type] for record_type, key_class, _ in _CODECS}


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """Return the bytes of a record's key and value."""
    key, value = record
    if type(key) is OffsetKey:
        raw_key = (
            _OFFSET_KEY_TYPE
            + encode_string(key.group_id)
            + encode_string(key.topic)
            + _INT32.pack(key.partition)
        )
        return raw_key, encode_offset(value) if isinstance(value, OffsetValue) else None
    key_codec, value_codec = _BY_KEY_CLASS[type(key)]
    return key_codec.encode(key), None if value is None else value_codec.encode(value)


def decode_record(raw_key: bytes | None, raw_value: bytes | None) -> Record | None:
    """Return a record, or None if its type is none of ours; raise InvalidRequest if it is torn."""
    if raw_key is None:
        raise InvalidRequest("a record has no key")
    record_type = read_int16(raw_key)
    if record_type in (0, 1):
        group_id, position = read_string(raw_key, 2)
        topic, position = read_string(raw_key, position)
        try:
            (partition,) = _INT32.unpack_from(raw_key, position)
        except error:
            raise truncated() from None
        value = None if raw_value is None else decode_offset(raw_value)
        return Record(OffsetKey(group_id, topic, partition), value)
    if record_type not in _BY_TYPE:
        return None
    key_codec, value_codec = _BY_TYPE[record_type]
    return Record(key_codec.decode(raw_key), None if raw_value is None else value_codec.decode(raw_value))


def encode_offset(value: OffsetValue) -> bytes:
    """Return the bytes of a committed offset."""
    if value.expire_ms != -1:
        return OFFSET_WITH_RETENTION.encode(value)
    head = _OFFSET_V3.pack(3, value.offset, value.leader_epoch)
    return head + encode_string(value.metadata) + _INT64.pack(value.commit_ms)


def decode_offset(raw: bytes) -> OffsetValue:
    """Return a committed offset; raise InvalidRequest if it is torn."""
    if raw[:2] != b"\x00\x03":
        return OFFSET.decode(raw)
    try:
        _, offset, leader_epoch = _OFFSET_V3.unpack_from(raw)
        metadata, position = read_string(raw, _OFFSET_V3.size)
        (commit_ms,) = _INT64.unpack_from(raw, position)
    except error:
        raise truncated() from None
    return OffsetValue(offset, leader_epoch, metadata, commit_ms)
