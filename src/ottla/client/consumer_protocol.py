"""What consumers of a classic group tell each other through the coordinator, which does not look inside.

    Subscription  int16 version, array of string topics, nullable bytes user_data,
                  v1: array of (string topic, array of int32 partition) owned, v2: int32 generation_id,
                  v3: nullable string rack_id
    Assignment    int16 version, array of (string topic, array of int32 partition), nullable bytes user_data

Arrays begin with an int32 count. What newer versions add comes at the end, so it can be skipped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from struct import pack

from ottla.common.ids import TopicPartition
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import encode_string, read_int16, read_int32, read_string

PROTOCOL_TYPE = "consumer"
VERSION = 0

_NO_USER_DATA = pack(">i", -1)


def encode_subscription(topics: Iterable[str]) -> bytes:
    """Return the metadata of a member that subscribes to topics."""
    names = sorted(set(topics))
    return pack(">hi", VERSION, len(names)) + b"".join(map(encode_string, names)) + _NO_USER_DATA


def decode_subscription(data: bytes) -> tuple[str, ...]:
    """Return the topics that a member subscribes to; InvalidRequest if that cannot be read."""
    _, at = read_int16(data, 0)
    count, at = _read_count(data, at, 2)
    topics = []
    for _ in range(count):
        topic, at = read_string(data, at)
        topics.append(topic)
    return tuple(topics)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Return the assignment of one member."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        topics[topic].append(partition)
    parts = [pack(">hi", VERSION, len(topics))]
    for topic, indexes in topics.items():
        parts.append(encode_string(topic) + pack(f">i{len(indexes)}i", len(indexes), *indexes))
    return b"".join(parts) + _NO_USER_DATA


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of one member; none if the coordinator has no assignment for it yet."""
    if not data:
        return ()
    _, at = read_int16(data, 0)
    count, at = _read_count(data, at, 6)
    found = []
    for _ in range(count):
        topic, at = read_string(data, at)
        size, at = _read_count(data, at, 4)
        for _ in range(size):
            partition, at = read_int32(data, at)
            found.append(TopicPartition(topic, partition))
    return tuple(found)


def _read_count(data: bytes, at: int, smallest_bytes: int) -> tuple[int, int]:
    count, at = read_int32(data, at)
    if not 0 <= count * smallest_bytes <= len(data) - at:
        raise InvalidRequest(f"{count} elements do not fit into {len(data)} bytes")
    return count, at
