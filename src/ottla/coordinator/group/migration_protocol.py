"""What consumers of the classic protocol say to each other through the broker, which understands it here.

    subscription  int16 version, array of string topics, bytes user_data (null is -1);
                  from v1: array of (string topic, array of int32 partitions) owned;
                  from v2: int32 generation_id; from v3: nullable string rack_id
    assignment    int16 version, array of (string topic, array of int32 partitions) assigned, bytes user_data

Counts and the length of bytes are int32, those of strings int16. Newer versions only add to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from ottla.coordinator.group.consumer.group import Topics
from ottla.coordinator.group.consumer.partitions import Partitions, grouped
from ottla.coordinator.group.wire import INT16, INT32
from ottla.metadata.image import ClusterImage
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import (
    encode_string,
    read_int16,
    read_int32,
    read_nullable_string,
    read_string,
    truncated,
)

T = TypeVar("T")

NamedPartitions = tuple[tuple[str, tuple[int, ...]], ...]
_NO_USER_DATA = INT32.pack(-1)


class Subscription(NamedTuple):
    """What a classic consumer wants, and what it has."""

    topics: tuple[str, ...]
    owned: NamedPartitions
    rack_id: str | None


class Assignment(NamedTuple):
    """What a classic consumer was assigned."""

    partitions: NamedPartitions
    user_data: bytes


def decode_subscription(metadata: bytes) -> Subscription:
    """Read a member's metadata; raise InvalidRequest if it is not a consumer's."""
    version, at = read_int16(metadata, 0)
    topics, at = _read_array(metadata, at, 2, read_string)
    _, at = _read_bytes(metadata, at)
    owned: NamedPartitions = ()
    rack_id = None
    if version >= 1:
        owned, at = _read_array(metadata, at, 6, _read_topic)
    if version >= 2:
        _, at = read_int32(metadata, at)
    if version >= 3:
        rack_id, at = read_nullable_string(metadata, at)
    return Subscription(topics, owned, rack_id or None)


def encode_subscription(topics: Iterable[str]) -> bytes:
    """Write the metadata of a member that has nothing."""
    return INT16.pack(0) + _array(map(encode_string, topics)) + _NO_USER_DATA


def decode_assignment(assignment: bytes) -> Assignment:
    """Read what a leader assigned to a member; raise InvalidRequest if it is not a consumer's."""
    if not assignment:
        return Assignment((), b"")
    _, at = read_int16(assignment, 0)
    partitions, at = _read_array(assignment, at, 6, _read_topic)
    user_data, _ = _read_bytes(assignment, at)
    return Assignment(partitions, user_data)


def encode_assignment(partitions: Partitions, image: ClusterImage, version: int) -> bytes:
    """Write an assignment of the topics that exist."""
    topics = []
    for topic_id in sorted(partitions):
        topic = image.topic_by_id(topic_id)
        if topic is not None:
            indexes = sorted(partitions[topic_id])
            topics.append(encode_string(topic.name) + _array(map(INT32.pack, indexes)))
    return INT16.pack(version) + _array(topics) + _NO_USER_DATA


def version_of(metadata: bytes) -> int:
    """Return the version that a consumer writes and reads."""
    version, _ = read_int16(metadata, 0)
    return max(version, 0)


def by_topic_id(named: NamedPartitions, topics: Topics) -> Partitions:
    """Return the partitions, of the topics that exist."""
    return grouped(
        (topics[name].topic_id, index)
        for name, indexes in named
        if name in topics
        for index in indexes
        if 0 <= index < len(topics[name].partitions)
    )


def _array(elements: Iterable[bytes]) -> bytes:
    written = list(elements)
    return INT32.pack(len(written)) + b"".join(written)


def _read_array(
    data: bytes, at: int, smallest: int, read: Callable[[bytes, int], tuple[T, int]]
) -> tuple[tuple[T, ...], int]:
    count, at = read_int32(data, at)
    if not 0 <= count * smallest <= len(data) - at:
        raise InvalidRequest(f"{count} elements do not fit into {len(data)} bytes")
    elements = []
    for _ in range(count):
        element, at = read(data, at)
        elements.append(element)
    return tuple(elements), at


def _read_topic(data: bytes, at: int) -> tuple[tuple[str, tuple[int, ...]], int]:
    topic, at = read_string(data, at)
    indexes, at = _read_array(data, at, 4, read_int32)
    return (topic, indexes), at


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_int32(data, at)
    end = at + max(size, 0)
    if end > len(data):
        raise truncated()
    return data[at:end], end
