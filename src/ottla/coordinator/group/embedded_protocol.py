# No `from __future__ import annotations`: schema/fields.py reads the types of the fields.
"""Reads and writes the embedded consumer protocol where the coordinator has to understand it.

Members of a classic group exchange subscriptions and assignments through the coordinator, to which they are
opaque bytes (protocol/consumer_protocol.py). It reads them for two purposes: to know which topics a group
subscribes to, so that it does not expire their offsets, and to convert groups between the protocols.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ottla.common.ids import TopicPartition
from ottla.coordinator.group.consumer.partitions import Partitions, grouped
from ottla.metadata.image import ClusterImage, TopicImage
from ottla.protocol import consumer_protocol
from ottla.protocol.schema.decoding import compile_decoder

_AFTER_VERSION = 2


@dataclass(frozen=True, slots=True)
class SubscribedTopics:
    """The first field of a subscription, in every version."""

    __flexible__: ClassVar[bool] = False
    topics: tuple[str, ...] = field(metadata={"kafka_type": "string"})


_decode_topics = compile_decoder(SubscribedTopics, SubscribedTopics, consumer_protocol.MAX_ELEMENTS)


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics of a member's subscription; raise InvalidRequest if it is not a consumer's.

    The rest is not read: this is done for every member of every generation, and must not depend on versions.
    """
    return frozenset(_decode_topics(metadata, _AFTER_VERSION).topics)


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
