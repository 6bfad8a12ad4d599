"""Values of consumer groups (KIP-848). All are of version 0, which is flexible.

group           int32 epoch; tag 0: int64 metadata_hash
topics          array of: uuid topic_id, string name, int32 partition_count, array of racks (unused since 4.0:
                int32 partition, array of string)
member          nullable string instance_id, nullable string rack_id, string client_id, string client_host,
                array of string subscribed_topics, nullable string subscribed_regex,
                int32 rebalance_timeout_ms, nullable string server_assignor; tag 0, if the member speaks the
                classic protocol: a byte (1: not null), int32 session_timeout_ms, array of: string name,
                bytes metadata
target          int32 assignment_epoch
target member   array of: uuid topic_id, array of int32 partitions
current         int32 member_epoch, int32 previous_member_epoch, int8 state, two arrays like the target's:
                assigned and pending_revocation
regex           array of string topics, int64 version, int64 timestamp_ms
"""

from __future__ import annotations

from uuid import UUID

from ottla.coordinator.group.records import (
    ClassicMemberValue,
    ConsumerCurrentMemberValue,
    ConsumerGroupValue,
    ConsumerMemberValue,
    ConsumerRegexValue,
    ConsumerTargetMemberValue,
    ConsumerTargetValue,
    ConsumerTopic,
    ConsumerTopicsValue,
    TopicPartitions,
)
from ottla.coordinator.group.wire import (
    INT8,
    INT32,
    INT64,
    NO_TAGS,
    Reader,
    compact_array,
    compact_bytes,
    compact_strings,
    tagged,
)
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import encode_compact_string

_VERSION = b"\x00\x00"
_NOT_NULL = b"\x01"
_NO_RACKS = b"\x01"


def _reader(version: int, raw: bytes) -> Reader:
    if version != 0:
        raise InvalidRequest(f"version {version} of the value is not known")
    return Reader(raw, 2, flexible=True)


def encode_group(value: ConsumerGroupValue) -> bytes:
    """Write a group's epoch."""
    tags = tagged(0, INT64.pack(value.metadata_hash)) if value.metadata_hash else NO_TAGS
    return _VERSION + INT32.pack(value.epoch) + tags


def decode_group(version: int, raw: bytes) -> ConsumerGroupValue:
    """Read a group's epoch."""
    reader = _reader(version, raw)
    epoch = reader.int32()
    metadata_hash = reader.tags().get(0)
    return ConsumerGroupValue(epoch, 0 if metadata_hash is None else metadata_hash.number(INT64))


def encode_topics(value: ConsumerTopicsValue) -> bytes:
    """Write the topics that a group saw."""
    topics = (
        topic_id.bytes + encode_compact_string(name) + INT32.pack(count) + _NO_RACKS + NO_TAGS
        for topic_id, name, count in value.topics
    )
    return _VERSION + compact_array(topics) + NO_TAGS


def decode_topics(version: int, raw: bytes) -> ConsumerTopicsValue:
    """Read the topics that a group saw."""
    reader = _reader(version, raw)

    def racks() -> None:
        reader.int32()
        reader.array(reader.string)
        reader.tags()

    def topic() -> ConsumerTopic:
        found = ConsumerTopic(reader.uuid(), reader.string(), reader.int32())
        reader.array(racks)
        reader.tags()
        return found

    return ConsumerTopicsValue(reader.array(topic))


def encode_member(value: ConsumerMemberValue) -> bytes:
    """Write a member."""
    return b"".join(
        (
            _VERSION,
            encode_compact_string(value.instance_id),
            encode_compact_string(value.rack_id),
            encode_compact_string(value.client_id),
            encode_compact_string(value.client_host),
            compact_strings(value.subscribed_topics),
            encode_compact_string(value.subscribed_regex),
            INT32.pack(value.rebalance_timeout_ms),
            encode_compact_string(value.server_assignor),
            NO_TAGS if value.classic is None else tagged(0, _encode_classic(value.classic)),
        )
    )


def _encode_classic(value: ClassicMemberValue) -> bytes:
    protocols = (
        encode_compact_string(name) + compact_bytes(metadata) + NO_TAGS for name, metadata in value.protocols
    )
    return _NOT_NULL + INT32.pack(value.session_timeout_ms) + compact_array(protocols) + NO_TAGS


def decode_member(version: int, raw: bytes) -> ConsumerMemberValue:
    """Read a member."""
    reader = _reader(version, raw)
    instance_id, rack_id = reader.nullable_string(), reader.nullable_string()
    client_id, client_host = reader.string(), reader.string()
    subscribed_topics = reader.array(reader.string)
    subscribed_regex = reader.nullable_string()
    rebalance_timeout_ms = reader.int32()
    server_assignor = reader.nullable_string()
    classic = reader.tags().get(0)
    return ConsumerMemberValue(
        instance_id,
        rack_id,
        client_id,
        client_host,
        subscribed_topics,
        subscribed_regex,
        rebalance_timeout_ms,
        server_assignor,
        None if classic is None else _decode_classic(classic),
    )


def _decode_classic(reader: Reader) -> ClassicMemberValue | None:
    if reader.number(INT8) < 0:
        return None

    def protocol() -> tuple[str, bytes]:
        name, metadata = reader.string(), reader.bytes()
        reader.tags()
        return name, metadata

    return ClassicMemberValue(reader.int32(), reader.array(protocol))


def encode_target(value: ConsumerTargetValue) -> bytes:
    """Write the epoch of a target assignment."""
    return _VERSION + INT32.pack(value.assignment_epoch) + NO_TAGS


def decode_target(version: int, raw: bytes) -> ConsumerTargetValue:
    """Read the epoch of a target assignment."""
    return ConsumerTargetValue(_reader(version, raw).int32())


def encode_target_member(value: ConsumerTargetMemberValue) -> bytes:
    """Write what a member is to have."""
    return _VERSION + _encode_partitions(value.partitions) + NO_TAGS


def decode_target_member(version: int, raw: bytes) -> ConsumerTargetMemberValue:
    """Read what a member is to have."""
    return ConsumerTargetMemberValue(_read_partitions(_reader(version, raw)))


def encode_current(value: ConsumerCurrentMemberValue) -> bytes:
    """Write what a member has."""
    return b"".join(
        (
            _VERSION,
            INT32.pack(value.member_epoch),
            INT32.pack(value.previous_member_epoch),
            INT8.pack(value.state),
            _encode_partitions(value.assigned),
            _encode_partitions(value.pending_revocation),
            NO_TAGS,
        )
    )


def decode_current(version: int, raw: bytes) -> ConsumerCurrentMemberValue:
    """Read what a member has."""
    reader = _reader(version, raw)
    return ConsumerCurrentMemberValue(
        reader.int32(),
        reader.int32(),
        reader.number(INT8),
        _read_partitions(reader),
        _read_partitions(reader),
    )


def encode_regex(value: ConsumerRegexValue) -> bytes:
    """Write what a regular expression matched."""
    return b"".join(
        (
            _VERSION,
            compact_strings(value.topics),
            INT64.pack(value.version),
            INT64.pack(value.timestamp_ms),
            NO_TAGS,
        )
    )


def decode_regex(version: int, raw: bytes) -> ConsumerRegexValue:
    """Read what a regular expression matched."""
    reader = _reader(version, raw)
    return ConsumerRegexValue(reader.array(reader.string), reader.number(INT64), reader.number(INT64))


def _encode_partitions(partitions: TopicPartitions) -> bytes:
    return compact_array(
        topic_id.bytes + compact_array(map(INT32.pack, indexes)) + NO_TAGS for topic_id, indexes in partitions
    )


def _read_partitions(reader: Reader) -> TopicPartitions:
    def topic() -> tuple[UUID, tuple[int, ...]]:
        topic_id, indexes = reader.uuid(), reader.array(reader.int32)
        reader.tags()
        return topic_id, indexes

    return reader.array(topic)
