"""What `__consumer_offsets` holds: one key and one value per fact; a null value takes the fact back.

The topic is compacted, so of every key only the newest value counts: replaying the log in order gives
the same state as a dictionary of its keys would. The bytes are Kafka's own (record_codec.py); the
numbers in the docstrings are Kafka's record types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """Type 0 and 1: the committed offset of a group on one partition."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class OffsetValue:
    """A committed offset. `expire_ms` is -1 unless an old client asked for a retention of its own."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = -1


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Type 2: a group of the classic protocol."""

    group_id: str


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A member of a stored generation; `subscription` is its metadata for the chosen protocol."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupValue:
    """A classic group as its last finished rebalance left it."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_since_ms: int
    members: tuple[StoredMember, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupKey:
    """Type 3: the epoch of a group of the consumer protocol (KIP-848)."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ConsumerGroupValue:
    """The group epoch; `metadata_hash` (Kafka 4.1) tells whether the subscribed topics changed."""

    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerTopicsKey:
    """Type 4: the topics that a consumer group saw last. Kafka 4.1 writes only its tombstones."""

    group_id: str


class ConsumerTopic(NamedTuple):
    """One topic, as a group saw it."""

    topic_id: UUID
    name: str
    partition_count: int


@dataclass(frozen=True, slots=True)
class ConsumerTopicsValue:
    """The subscribed topics and their sizes."""

    topics: tuple[ConsumerTopic, ...]


@dataclass(frozen=True, slots=True)
class ConsumerMemberKey:
    """Type 5: a member of a consumer group."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ClassicMemberValue:
    """What a member of a consumer group brought along that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMemberValue:
    """What a member wants, and who it is."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]
    subscribed_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMemberValue | None = None


@dataclass(frozen=True, slots=True)
class ConsumerTargetKey:
    """Type 6: for which group epoch the target assignment was made."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ConsumerTargetValue:
    """The epoch of the target assignment."""

    assignment_epoch: int


TopicPartitions = tuple[tuple[UUID, tuple[int, ...]], ...]
"""Partitions by topic id."""


@dataclass(frozen=True, slots=True)
class ConsumerTargetMemberKey:
    """Type 7: what one member is to have."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ConsumerTargetMemberValue:
    """The partitions that a member is to have."""

    partitions: TopicPartitions


@dataclass(frozen=True, slots=True)
class ConsumerCurrentMemberKey:
    """Type 8: what one member has."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ConsumerCurrentMemberValue:
    """A member's epoch and partitions; `state` is 0 stable, 1 unrevoked, 2 unreleased (127 unknown)."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: TopicPartitions
    pending_revocation: TopicPartitions


@dataclass(frozen=True, slots=True)
class ConsumerRegexKey:
    """Type 16: a regular expression that members of a group subscribe to."""

    group_id: str
    regex: str


@dataclass(frozen=True, slots=True)
class ConsumerRegexValue:
    """The topics that it matched, at which version of the metadata, when."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


Key = (
    OffsetKey
    | GroupKey
    | ConsumerGroupKey
    | ConsumerTopicsKey
    | ConsumerMemberKey
    | ConsumerTargetKey
    | ConsumerTargetMemberKey
    | ConsumerCurrentMemberKey
    | ConsumerRegexKey
)
Value = (
    OffsetValue
    | GroupValue
    | ConsumerGroupValue
    | ConsumerTopicsValue
    | ConsumerMemberValue
    | ConsumerTargetValue
    | ConsumerTargetMemberValue
    | ConsumerCurrentMemberValue
    | ConsumerRegexValue
)


class Record(NamedTuple):
    """One record of the topic; without a value it is a tombstone."""

    key: Key
    value: Value | None = None
