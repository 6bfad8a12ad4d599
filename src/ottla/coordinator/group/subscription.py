"""The one part of a member's metadata that the broker looks at: the topics a consumer subscribes to.

Consumers of the classic protocol send (protocol type `consumer`):

    int16 version, array of string topics (int32 count), bytes user_data, more in newer versions

The broker needs the topics to know which offsets are in use. Other protocol types are opaque.
"""

from __future__ import annotations

from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import read_int16, read_int32, read_string

CONSUMER_PROTOCOL = "consumer"


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics of a consumer's metadata; raise InvalidRequest if it is something else."""
    _, at = read_int16(metadata, 0)
    count, at = read_int32(metadata, at)
    if not 0 <= count * 2 <= len(metadata) - at:
        raise InvalidRequest(f"{count} topics do not fit into {len(metadata)} bytes")
    topics = set()
    for _ in range(count):
        topic, at = read_string(metadata, at)
        topics.add(topic)
    return frozenset(topics)
