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
from dataclasses import dataclass
from struct import pack

from ottla.common.ids import TopicPartition
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import encode_string, read_int16, read_int32, read_nullable_string, read_string

PROTOCOL_TYPE = "consumer"
VERSION = 0
NEWEST_SUBSCRIPTION = 3

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
    return pack(">h", VERSION) + encode_partitions(partitions) + _NO_USER_DATA


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of one member; none if the coordinator has no assignment for it yet."""
    if not data:
        return ()
    _, at = read_int16(data, 0)
    return read_partitions(data, at)[0]


def _read_count(data: bytes, at: int, smallest_bytes: int) -> tuple[int, int]:
    count, at = read_int32(data, at)
    if not 0 <= count * smallest_bytes <= len(data) - at:
        raise InvalidRequest(f"{count} elements do not fit into {len(data)} bytes")
    return count, at


@dataclass(frozen=True, slots=True)
class Subscription:
    """All that a member tells the one who deals the partitions out."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None


def encode_whole_subscription(subscription: Subscription) -> bytes:
    """Return the metadata of a member, in the newest version: older readers skip what they do not know."""
    names = sorted(set(subscription.topics))
    parts = [pack(">hi", NEWEST_SUBSCRIPTION, len(names)), *map(encode_string, names)]
    parts.append(_encode_nullable(subscription.user_data))
    parts.append(encode_partitions(subscription.owned))
    parts.append(pack(">i", subscription.generation_id) + encode_string(subscription.rack_id))
    return b"".join(parts)


def decode_whole_subscription(data: bytes) -> Subscription:
    """Return what a member subscribes to and owns; InvalidRequest if that cannot be read."""
    version, at = read_int16(data, 0)
    count, at = _read_count(data, at, 2)
    topics = []
    for _ in range(count):
        topic, at = read_string(data, at)
        topics.append(topic)
    user_data, at = _read_nullable(data, at)
    owned: tuple[TopicPartition, ...] = ()
    generation_id, rack_id = -1, None
    if version >= 1:
        owned, at = read_partitions(data, at)
    if version >= 2:
        generation_id, at = read_int32(data, at)
    if version >= 3:
        rack_id, at = read_nullable_string(data, at)
    return Subscription(tuple(topics), user_data, owned, generation_id, rack_id)


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """Return an array of topics, each with its partitions."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        topics[topic].append(partition)
    parts = [pack(">i", len(topics))]
    for topic, indexes in topics.items():
        parts.append(encode_string(topic) + pack(f">i{len(indexes)}i", len(indexes), *indexes))
    return b"".join(parts)


def read_partitions(data: bytes, at: int) -> tuple[tuple[TopicPartition, ...], int]:
    """Read an array of topics, each with its partitions; return them and the position after it."""
    count, at = _read_count(data, at, 6)
    found = []
    for _ in range(count):
        topic, at = read_string(data, at)
        size, at = _read_count(data, at, 4)
        for _ in range(size):
            partition, at = read_int32(data, at)
            found.append(TopicPartition(topic, partition))
    return tuple(found), at


def _encode_nullable(data: bytes | None) -> bytes:
    return _NO_USER_DATA if data is None else pack(">i", len(data)) + data


def _read_nullable(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_int32(data, at)
    if size < 0:
        return None, at
    if size > len(data) - at:
        raise InvalidRequest(f"{size} bytes of user data do not fit into {len(data)} bytes")
    return data[at : at + size], at + size
