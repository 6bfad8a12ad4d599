"""Values of offsets and classic groups.

offset          int64 offset, int32 leader_epoch (v3+), string metadata, int64 commit_ms,
                int64 expire_ms (v1 only)
classic group   string protocol_type, int32 generation_id, nullable string protocol_name, nullable string
                leader_id, int64 state_since_ms (v2+), array of members: string member_id, nullable string
                instance_id (v3+), string client_id, string client_host, int32 rebalance_timeout_ms (v1+),
                int32 session_timeout_ms, bytes subscription, bytes assignment

Versions 0 to 4 are read; version 4 is flexible. Version 3 is written, as Kafka does, and version 1 for
an offset with a retention of its own.
"""

from __future__ import annotations

from struct import Struct, error

from ottla.coordinator.group.records import GroupValue, OffsetValue, StoredMember
from ottla.coordinator.group.wire import INT32, INT64, Reader, legacy_bytes
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import encode_string, read_string, truncated

NEWEST = 4

_OFFSET_V3 = Struct(">hqi")
_OFFSET_V1 = Struct(">hq")
_GROUP_VERSION = b"\x00\x03"


def encode_offset(value: OffsetValue) -> bytes:
    """Write a committed offset."""
    metadata = encode_string(value.metadata)
    if value.expire_ms == -1:
        return _OFFSET_V3.pack(3, value.offset, value.leader_epoch) + metadata + INT64.pack(value.commit_ms)
    times = INT64.pack(value.commit_ms) + INT64.pack(value.expire_ms)
    return _OFFSET_V1.pack(1, value.offset) + metadata + times


def decode_offset(version: int, raw: bytes) -> OffsetValue:
    """Read a committed offset."""
    if version == 3:  # nearly all of them, millions when a partition is loaded
        try:
            _, offset, leader_epoch = _OFFSET_V3.unpack_from(raw)
            metadata, at = read_string(raw, _OFFSET_V3.size)
            (commit_ms,) = INT64.unpack_from(raw, at)
        except error:
            raise truncated() from None
        return OffsetValue(offset, leader_epoch, metadata, commit_ms)
    reader = _reader(version, raw)
    offset = reader.number(INT64)
    leader_epoch = reader.number(INT32) if version >= 3 else -1
    metadata = reader.string()
    commit_ms = reader.number(INT64)
    return OffsetValue(
        offset, leader_epoch, metadata, commit_ms, expire_ms=reader.number(INT64) if version == 1 else -1
    )


def encode_group(value: GroupValue) -> bytes:
    """Write a classic group."""
    return b"".join(
        (
            _GROUP_VERSION,
            encode_string(value.protocol_type),
            INT32.pack(value.generation_id),
            encode_string(value.protocol_name),
            encode_string(value.leader_id),
            INT64.pack(value.state_since_ms),
            INT32.pack(len(value.members)),
            *map(_encode_member, value.members),
        )
    )


def _encode_member(member: StoredMember) -> bytes:
    return b"".join(
        (
            encode_string(member.member_id),
            encode_string(member.instance_id),
            encode_string(member.client_id),
            encode_string(member.client_host),
            INT32.pack(member.rebalance_timeout_ms),
            INT32.pack(member.session_timeout_ms),
            legacy_bytes(member.subscription),
            legacy_bytes(member.assignment),
        )
    )


def decode_group(version: int, raw: bytes) -> GroupValue:
    """Read a classic group."""
    reader = _reader(version, raw)

    def member() -> StoredMember:
        member_id = reader.string()
        instance_id = reader.nullable_string() if version >= 3 else None
        client_id, client_host = reader.string(), reader.string()
        rebalance_timeout_ms = reader.int32() if version >= 1 else -1
        session_timeout_ms = reader.int32()
        subscription, assignment = reader.bytes(), reader.bytes()
        reader.tags()
        return StoredMember(
            member_id,
            instance_id,
            client_id,
            client_host,
            # Members of long ago had one timeout for both.
            session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
            session_timeout_ms,
            subscription,
            assignment,
        )

    return GroupValue(
        protocol_type=reader.string(),
        generation_id=reader.int32(),
        protocol_name=reader.nullable_string(),
        leader_id=reader.nullable_string(),
        state_since_ms=reader.number(INT64) if version >= 2 else -1,
        members=reader.array(member),
    )


def _reader(version: int, raw: bytes) -> Reader:
    if not 0 <= version <= NEWEST:
        raise InvalidRequest(f"version {version} of the value is not known")
    return Reader(raw, 2, flexible=version >= 4)
