"""Records of `__consumer_offsets`, between bytes and records.py.

A key starts with an int16, the type of the record; its fields have no versions:

     0, 1  offset                 string group, string topic, int32 partition
        2  classic group          string group
        3  consumer group         string group
        4  subscribed topics      string group
        5  member                 string group, string member
        6  target assignment      string group
        7  target of a member     string group, string member
        8  current of a member    string group, string member
       16  regular expression     string group, string regex

A value starts with an int16, its version, and is laid out as classic_values.py and consumer_values.py
say. Kafka writes other types too (share and streams groups): they decode to None and stay in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import error
from typing import Any

from ottla.coordinator.group import classic_values, consumer_values
from ottla.coordinator.group.records import (
    ConsumerCurrentMemberKey,
    ConsumerGroupKey,
    ConsumerMemberKey,
    ConsumerRegexKey,
    ConsumerTargetKey,
    ConsumerTargetMemberKey,
    ConsumerTopicsKey,
    GroupKey,
    Key,
    OffsetKey,
    OffsetValue,
    Record,
    Value,
)
from ottla.coordinator.group.wire import INT16, INT32
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import encode_string, read_int32, read_string, truncated

_OFFSET_KEY_TYPE = INT16.pack(1)

_Decode = Callable[[int, bytes], Value]
_Encode = Callable[[Any], bytes]

# Type, class of the key, how its value is written and read. All but the offset's key are strings.
_LAYOUTS: tuple[tuple[int, type[Any], _Encode, _Decode], ...] = (
    (2, GroupKey, classic_values.encode_group, classic_values.decode_group),
    (3, ConsumerGroupKey, consumer_values.encode_group, consumer_values.decode_group),
    (4, ConsumerTopicsKey, consumer_values.encode_topics, consumer_values.decode_topics),
    (5, ConsumerMemberKey, consumer_values.encode_member, consumer_values.decode_member),
    (6, ConsumerTargetKey, consumer_values.encode_target, consumer_values.decode_target),
    (7, ConsumerTargetMemberKey, consumer_values.encode_target_member, consumer_values.decode_target_member),
    (8, ConsumerCurrentMemberKey, consumer_values.encode_current, consumer_values.decode_current),
    (16, ConsumerRegexKey, consumer_values.encode_regex, consumer_values.decode_regex),
)
_BY_CLASS = {key_class: (INT16.pack(number), encode) for number, key_class, encode, _ in _LAYOUTS}
_BY_NUMBER = {number: (key_class, decode) for number, key_class, _, decode in _LAYOUTS}


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """Return the bytes of a record's key and value."""
    key, value = record
    if type(key) is OffsetKey:
        raw_key = (
            _OFFSET_KEY_TYPE
            + encode_string(key.group_id)
            + encode_string(key.topic)
            + INT32.pack(key.partition)
        )
        return raw_key, classic_values.encode_offset(value) if isinstance(value, OffsetValue) else None
    number, encode = _BY_CLASS[type(key)]
    names = [encode_string(getattr(key, name)) for name in key.__slots__]
    return number + b"".join(names), None if value is None else encode(value)


def decode_record(raw_key: bytes | None, raw_value: bytes | None) -> Record | None:
    """Return a record, or None if its type is none of ours; raise InvalidRequest if it is torn."""
    if raw_key is None:
        raise InvalidRequest("a record has no key")
    try:
        (number,) = INT16.unpack_from(raw_key)
    except error:
        raise truncated() from None
    if number in (0, 1):
        group_id, at = read_string(raw_key, 2)
        topic, at = read_string(raw_key, at)
        partition, at = read_int32(raw_key, at)
        return Record(OffsetKey(group_id, topic, partition), _decode(raw_value, classic_values.decode_offset))
    if number not in _BY_NUMBER:
        return None
    key_class, decode = _BY_NUMBER[number]
    names, at = [], 2
    for _ in key_class.__slots__:
        name, at = read_string(raw_key, at)
        names.append(name)
    key: Key = key_class(*names)
    return Record(key, _decode(raw_value, decode))


def _decode(raw: bytes | None, decode: _Decode) -> Value | None:
    if raw is None:
        return None
    try:
        (version,) = INT16.unpack_from(raw)
    except error:
        raise truncated() from None
    return decode(version, raw)
