"""The shared parts of the hand-written Produce and Fetch codecs.

topic key       string name in older versions, 16-byte topic id in newer ones
current_leader  int32 leader_id, int32 leader_epoch, tags
node_endpoints  array of: int32 node_id, string host, int32 port, nullable string rack, tags
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from ottla.protocol.errors import InvalidRequest, UnsupportedVersion
from ottla.protocol.primitives import (
    encode_compact_string,
    encode_string,
    encode_uvarint,
    read_compact_nullable_string,
    read_compact_string,
    read_string,
    read_tag,
    read_tag_count,
    read_uvarint,
    skip_tagged_fields,
    truncated,
)
from ottla.protocol.schema.messages import MAX_REQUEST_ELEMENTS

TOPIC_WEIGHT = 2
"""How many elements a topic counts for: decoding its name or id takes as long as two partitions."""

_INT32 = Struct(">i")
_LEADER = Struct(">iiB")
_TWO_INT32 = Struct(">ii")


class Leader(NamedTuple):
    """The current leader of a partition, in an error response of another broker."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    """The address of a leader, in the same response, so that clients need not request metadata."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def check_version(version: int, first: int, last: int) -> None:
    """Raise UnsupportedVersion unless the codec supports `version`."""
    if not first <= version <= last:
        raise UnsupportedVersion(f"version {version} is not served, only {first} to {last}")


def read_count(
    frame: memoryview, position: int, flexible: bool, smallest: int, allowed: int
) -> tuple[int, int]:
    """Read the number of elements; they must fit into the frame and be no more than `allowed`."""
    if flexible:
        count = frame[position] - 1
        if count < 0x7F:
            position += 1
        else:
            count, position = read_uvarint(frame, position)
            count -= 1
    else:
        (count,) = _INT32.unpack_from(frame, position)
        position += 4
    if count < 0:
        raise InvalidRequest("an array is null that may not be")
    if count * smallest > len(frame) - position:
        raise InvalidRequest(f"{count} elements cannot fit into the rest of the message")
    if count > allowed:
        raise _too_many()
    return count, position


def skip_tags(frame: memoryview, position: int, allowed: int) -> tuple[int, int]:
    """Return the position after a section of tagged fields, and the number of elements that are still
    allowed.
    """
    if position < len(frame) and frame[position] == 0:  # as a rule
        return position + 1, allowed
    count, position = read_tag_count(frame, position)
    if count > allowed:
        raise _too_many()
    for _ in range(count):
        _, _, position = read_tag(frame, position)
    return position, allowed - count


def _too_many() -> InvalidRequest:
    return InvalidRequest(f"the message has more than {MAX_REQUEST_ELEMENTS} elements")


@lru_cache(maxsize=4096)
def uuid_of(raw: bytes) -> UUID:
    """Return the id with these 16 bytes; cached, because creating one costs more than the rest of a
    request.
    """
    return UUID(bytes=raw)


def read_topic_key(
    frame: memoryview, position: int, flexible: bool, has_id: bool
) -> tuple[str | None, UUID | None, int]:
    """Read a topic's name or id; return both, one of them None, and the position after it."""
    if has_id:
        end = position + 16
        if end > len(frame):
            raise truncated()
        return None, uuid_of(bytes(frame[position:end])), end
    name, position = read_compact_string(frame, position) if flexible else read_string(frame, position)
    return name, None, position


@lru_cache(maxsize=4096)
def encode_topic_key(name: str | None, topic_id: UUID | None, flexible: bool, has_id: bool) -> bytes:
    """Return the encoded name or id of a topic in a response."""
    if has_id:
        return bytes(16) if topic_id is None else topic_id.bytes
    if name is None:
        raise ValueError("this version names topics, and the topic has no name")
    return encode_compact_string(name) if flexible else encode_string(name)


def encode_count(count: int, flexible: bool) -> bytes:
    """Return the length of an array."""
    return encode_uvarint(count + 1) if flexible else _INT32.pack(count)


def encode_tag(tag: int, value: bytes) -> bytes:
    """Return one tagged field, without the count of the section."""
    return encode_uvarint(tag) + encode_uvarint(len(value)) + value


def encode_leader(leader: Leader | tuple[int, int]) -> bytes:
    """Return the value of a tagged current_leader."""
    return _LEADER.pack(leader[0], leader[1], 0)


def encode_endpoints_section(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Return the tagged fields at the end of a response: the node endpoints, if there are any."""
    if not endpoints:
        return b"\x00"
    value = bytearray(encode_uvarint(len(endpoints) + 1))
    for node_id, host, port, rack in endpoints:
        value += _INT32.pack(node_id) + encode_compact_string(host)
        value += _INT32.pack(port) + encode_compact_string(rack) + b"\x00"
    return b"\x01" + encode_tag(0, bytes(value))


def read_endpoints_section(frame: memoryview, position: int) -> list[NodeEndpoint]:
    """Return the node endpoints in the tagged fields at the end of a response."""
    endpoints = []
    tags, position = read_tag_count(frame, position)
    for _ in range(tags):
        tag, start, position = read_tag(frame, position)
        if tag != 0:
            continue
        count, start = read_count(frame, start, True, 11, MAX_REQUEST_ELEMENTS)
        for _ in range(count):
            (node_id,) = _INT32.unpack_from(frame, start)
            host, start = read_compact_string(frame, start + 4)
            (port,) = _INT32.unpack_from(frame, start)
            rack, start = read_compact_nullable_string(frame, start + 4)
            start = skip_tagged_fields(frame, start)
            endpoints.append(NodeEndpoint(node_id, host, port, rack))
    return endpoints


def read_leader_section(frame: memoryview, position: int, leader_tag: int) -> tuple[Leader | None, int]:
    """Return the current_leader in the tagged fields at the end of a partition, and where they end."""
    if frame[position] == 0:
        return None, position + 1
    leader = None
    count, position = read_tag_count(frame, position)
    for _ in range(count):
        tag, start, position = read_tag(frame, position)
        if tag == leader_tag:
            leader = Leader(*_TWO_INT32.unpack_from(frame, start))
    return leader, position
