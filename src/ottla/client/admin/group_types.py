"""What a group looks like from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.common.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group in a list; state and type are empty where an old broker does not say."""

    group_id: str
    type: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member, and what it is to read; None if its assignment is in a format of its own."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...] | None


def assigned_member(member: Any, instance_id: str | None) -> GroupMember:
    """Return a member of a response whose assignment is in fields, as in consumer and share groups."""
    return GroupMember(
        member.member_id,
        instance_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        tuple(
            TopicPartition(topic.topic_name, partition)
            for topic in member.assignment.topic_partitions
            for partition in topic.partitions
        ),
    )


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group; `assignor` is the protocol that the members agreed on, empty while they have not."""

    group_id: str
    type: str
    protocol_type: str
    state: str
    assignor: str
    coordinator: int
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The next offset that a group will read in a partition, and what its consumer noted there."""

    offset: int
    leader_epoch: int
    metadata: str


class OffsetAndMetadata(NamedTuple):
    """The next offset to read in a partition, and what to note beside it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
    """The leader epoch of the record before it; -1 if it is not known."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """Who a consumer is in its group: what a transaction needs to commit the consumer's offsets safely."""

    group_id: str
    generation_id: int = -1
    """The generation, or the member epoch of the consumer protocol; -1 for a group without members."""
    member_id: str = ""
    group_instance_id: str | None = None
