"""Reads and writes the embedded consumer protocol where the coordinator has to understand it.

Members of a classic group exchange subscriptions and assignments through the coordinator, to which they are
opaque bytes (protocol/consumer_protocol.py). It reads them for two purposes: to know which topics a group
subscribes to, so that it does not expire their offsets, and to convert groups between the protocols.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.common.ids import TopicPartition
from ottla.coordinator.group.consumer.partitions import Partitions, grouped
from ottla.metadata.image import ClusterImage, TopicImage
from ottla.protocol import consumer_protocol

_VERSION_0 = b"\x00\x00"


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics of a member's subscription; raise InvalidRequest if it is not a consumer's.

    Every version begins with the fields of version 0, which are all that is read.
    """
    return frozenset(consumer_protocol.decode_subscription(_VERSION_0 + metadata[2:]).topics)


def encode_assignment(partitions: Partitions, image: ClusterImage, version: int) -> bytes:
    """Return the bytes of an assignment, without the topics that have been deleted."""
    found: list[TopicPartition] = []
    for topic_id, indexes in partitions.items():
        topic = image.topic_by_id(topic_id)
        if topic is not None:
            found.extend(TopicPartition(topic.name, index) for index in indexes)
    return consumer_protocol.encode_assignment(found, version)


def by_topic_id(partitions: Iterable[TopicPartition], topics: Mapping[str, TopicImage]) -> Partitions:
    """Return those of the partitions that exist, by topic id."""
    return grouped(
        (topics[name].topic_id, index)
        for name, index in partitions
        if name in topics and 0 <= index < len(topics[name].partitions)
    )
