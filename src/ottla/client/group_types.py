"""What a group looks like from outside."""

from __future__ import annotations

from dataclasses import dataclass

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
