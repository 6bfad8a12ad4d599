"""The headers of requests and responses.

    frame            int32 size, then `size` bytes: a header and a body
    request header   v1: int16 api_key, int16 api_version, int32 correlation_id, string client_id (nullable)
                     v2: v1 + tagged fields; the client id keeps its int16 length
    response header  v0: int32 correlation_id
                     v1: v0 + tagged fields

Requests and responses of a flexible version have the newer headers, with one exception: the response to
ApiVersions has v0 in every version, because a client reads it before it knows which versions the broker
supports.
"""

from __future__ import annotations

from struct import Struct, error
from typing import NamedTuple

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import Buffer, encode_string, read_text, skip_tagged_fields, truncated

SIZE = Struct(">i")

_FIXED = Struct(">hhih")
_FIXED_BYTES = 10
_HEAD = Struct(">hhi")
_CORRELATION = Struct(">i")
_NEVER = 0x8000

FIRST_FLEXIBLE_VERSION: dict[int, int] = {
    **{key: 0 for key in ApiKey if key >= ApiKey.ALTER_PARTITION_REASSIGNMENTS},
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 6,
    ApiKey.METADATA: 9,
    ApiKey.LEADER_AND_ISR: 4,
    ApiKey.STOP_REPLICA: 2,
    ApiKey.UPDATE_METADATA: 6,
    ApiKey.CONTROLLED_SHUTDOWN: 3,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 6,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.JOIN_GROUP: 6,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 4,
    ApiKey.SYNC_GROUP: 4,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.LIST_GROUPS: 3,
    ApiKey.SASL_HANDSHAKE: _NEVER,
    ApiKey.API_VERSIONS: 3,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.DELETE_TOPICS: 4,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 2,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.END_TXN: 3,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.TXN_OFFSET_COMMIT: 3,
    ApiKey.DESCRIBE_ACLS: 2,
    ApiKey.CREATE_ACLS: 2,
    ApiKey.DELETE_ACLS: 2,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ALTER_CONFIGS: 2,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 2,
    ApiKey.SASL_AUTHENTICATE: 2,
    ApiKey.CREATE_PARTITIONS: 2,
    ApiKey.CREATE_DELEGATION_TOKEN: 2,
    ApiKey.RENEW_DELEGATION_TOKEN: 2,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 2,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 2,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.OFFSET_DELETE: _NEVER,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: 1,
    ApiKey.ALTER_CLIENT_QUOTAS: 1,
    ApiKey.BEGIN_QUORUM_EPOCH: 1,
    ApiKey.END_QUORUM_EPOCH: 1,
}


class RequestHeader(NamedTuple):
    """The header of a request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def is_flexible(api_key: int, version: int) -> bool:
    """Return whether messages of this version have compact lengths and tagged fields."""
    return version >= FIRST_FLEXIBLE_VERSION.get(api_key, _NEVER)


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Return the header of a request (without its size prefix) and the position of its body.

    The version need not be one that is served: an ApiVersions request of a future version gets a response. An
    unknown API key is rejected, because its header format is unknown.
    """
    try:
        api_key, version, correlation_id, size = _FIXED.unpack_from(frame)
    except error:
        raise truncated() from None
    flexible_from = FIRST_FLEXIBLE_VERSION.get(api_key)
    if flexible_from is None or version < 0:
        raise InvalidRequest(f"there is no API {api_key} in version {version}")
    at = _FIXED_BYTES
    client_id = None
    if size >= 0:
        client_id = read_text(frame, at, size)
        at += size
    elif size != -1:
        raise InvalidRequest(f"the client id has length {size}")
    if version >= flexible_from:
        at = skip_tagged_fields(frame, at)
    return RequestHeader(api_key, version, correlation_id, client_id), at


def encode_request_header(header: RequestHeader) -> bytes:
    """Return the header of a request, without the frame's size."""
    api_key, version, correlation_id, client_id = header
    tags = b"\x00" if is_flexible(api_key, version) else b""
    return _HEAD.pack(api_key, version, correlation_id) + encode_string(client_id) + tags


def encode_response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """Return the header of a response, without the frame's size."""
    if has_tagged_response_header(api_key, version):
        return _CORRELATION.pack(correlation_id) + b"\x00"
    return _CORRELATION.pack(correlation_id)


def decode_response_header(frame: Buffer, api_key: int, version: int) -> tuple[int, int]:
    """Return the correlation id of a response (without its size prefix) and the position of its body."""
    try:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
    except error:
        raise truncated() from None
    if has_tagged_response_header(api_key, version):
        return correlation_id, skip_tagged_fields(frame, 4)
    return correlation_id, 4


def has_tagged_response_header(api_key: int, version: int) -> bool:
    """Return whether tagged fields follow the correlation id."""
    return api_key != ApiKey.API_VERSIONS and is_flexible(api_key, version)


def encode_frame(header: bytes, body: bytes) -> bytes:
    """Return `header` and `body` as one frame, with its size prefix."""
    return SIZE.pack(len(header) + len(body)) + header + body
