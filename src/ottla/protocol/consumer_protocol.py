# No `from __future__ import annotations`: schema/fields.py reads the types of the fields.
"""Codec of the embedded "consumer" protocol: the subscriptions and assignments of classic group members.

Members of a classic group send each other these bytes through the coordinator, in JoinGroup and SyncGroup
(protocol type `consumer`). Both begin with an int16 version, and a message of kio's schema follows:

    subscription  topics, user data; v1: owned partitions; v2: generation id; v3: rack id
    assignment    partitions, user data
    sticky        the user data of the `sticky` assignors: the partitions that a member had and the
                  generation in which it had them; without a version in front

Newer versions only append fields, so a version above the newest known one is read as that one, and the
bytes that follow are ignored. Bytes that cannot be read raise InvalidRequest.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from struct import pack
from typing import Any, ClassVar

from kio.schema.consumer_protocol_assignment import v3 as assignment
from kio.schema.consumer_protocol_assignment.v3 import data as assignment_fields
from kio.schema.consumer_protocol_subscription import v3 as subscription
from kio.schema.consumer_protocol_subscription.v3 import data as subscription_fields
from kio.static.constants import EntityType

from ottla.common.ids import TopicPartition
from ottla.protocol.primitives import read_int16
from ottla.protocol.schema.decoding import compile_decoder
from ottla.protocol.schema.encoding import compile_encoder
from ottla.protocol.schema.messages import Decoder, Encoder
from ottla.protocol.types import TopicName, i16, i32

PROTOCOL_TYPE = "consumer"
NEWEST_VERSION = 3
MAX_ELEMENTS = 1_000_000
"""Topics and partitions of one message."""

_VERSION_BYTES = 2
_NO_GENERATION = pack(">i", -1)


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics that a member subscribes to, and what it owned before this rebalance."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions that a member is assigned."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def read_version(data: bytes) -> int:
    """Return the version of a subscription or an assignment."""
    return max(0, read_int16(data, 0)[0])


def encode_subscription(given: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """Return the metadata of a member; readers of an older version ignore the fields they do not know."""
    message = subscription.ConsumerProtocolSubscription(
        topics=tuple(sorted(set(given.topics))),
        user_data=given.user_data,
        owned_partitions=_grouped(given.owned, subscription_fields.TopicPartition),
        generation_id=i32(given.generation_id),
        rack_id=given.rack_id,
    )
    return pack(">h", version) + _encoder("subscription", min(version, NEWEST_VERSION))(message)


def decode_subscription(data: bytes) -> Subscription:
    """Return the subscription of a member."""
    read = _decoder("subscription", min(read_version(data), NEWEST_VERSION))(data, _VERSION_BYTES)
    owned = _flattened(read.owned_partitions)
    return Subscription(read.topics, read.user_data, owned, read.generation_id, read.rack_id)


def encode_assignment(
    partitions: Iterable[TopicPartition], version: int = 0, user_data: bytes | None = None
) -> bytes:
    """Return the assignment of one member, its partitions sorted."""
    message = assignment.ConsumerProtocolAssignment(
        assigned_partitions=_grouped(partitions, assignment_fields.TopicPartition), user_data=user_data
    )
    return pack(">h", version) + _encoder("assignment", min(version, NEWEST_VERSION))(message)


def decode_assignment(data: bytes) -> Assignment:
    """Return the assignment of one member; empty if the group's leader has not sent one yet."""
    if not data:
        return Assignment(())
    read = _decoder("assignment", min(read_version(data), NEWEST_VERSION))(data, _VERSION_BYTES)
    return Assignment(_flattened(read.assigned_partitions), read.user_data)


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyUserData:
    """The user data of the sticky assignors (Kafka has no message schema for it)."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(1)
    __flexible__: ClassVar[bool] = False
    owned_partitions: tuple[subscription_fields.TopicPartition, ...]
    generation_id: i32 = field(metadata={"kafka_type": "int32"})


def encode_sticky_user_data(owned: Iterable[TopicPartition], generation_id: int) -> bytes:
    """Return the user data of a member that had these partitions in this generation."""
    partitions = _grouped(owned, subscription_fields.TopicPartition)
    message = StickyUserData(owned_partitions=partitions, generation_id=i32(generation_id))
    return _sticky_codec()[0](message)


def decode_sticky_user_data(data: bytes) -> tuple[tuple[TopicPartition, ...], int]:
    """Return the partitions that a member had, and their generation: -1 if it is left out (version 0)."""
    read = _sticky_codec()[1](data + _NO_GENERATION, 0)
    return _flattened(read.owned_partitions), read.generation_id


def _grouped(partitions: Iterable[TopicPartition], topic_type: Callable[..., Any]) -> tuple[Any, ...]:
    topics: dict[str, list[i32]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        topics[topic].append(i32(partition))
    return tuple(
        topic_type(topic=TopicName(topic), partitions=tuple(indexes)) for topic, indexes in topics.items()
    )


def _flattened(topics: Iterable[Any]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions)


def _message_class(name: str, version: int) -> Any:
    module = import_module(f"kio.schema.consumer_protocol_{name}.v{version}")
    return getattr(module, f"ConsumerProtocol{name.capitalize()}")


@cache
def _encoder(name: str, version: int) -> Encoder:
    return compile_encoder(_message_class(name, version), _message_class(name, NEWEST_VERSION))


@cache
def _decoder(name: str, version: int) -> Decoder:
    wire = _message_class(name, version)
    return compile_decoder(wire, _message_class(name, NEWEST_VERSION), MAX_ELEMENTS)


@cache
def _sticky_codec() -> tuple[Encoder, Decoder]:
    encode = compile_encoder(StickyUserData, StickyUserData)
    return encode, compile_decoder(StickyUserData, StickyUserData, MAX_ELEMENTS)
