# No `from __future__ import annotations`: record_schema.py reads the types of the fields.
"""Records of `__consumer_offsets`: one key and one value per fact; a null value (tombstone) deletes it.

The topic is compacted, so of every key only the newest value counts: replaying the log in order gives
the same state as a dictionary of its keys would. The layouts are Kafka's own; record_schema.py says how these
declarations become bytes, record_codec.py which record type and versions each has.
"""

from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from ottla.coordinator.record_schema import BYTES, ID, INT8, INT32, INT64, STRING, only, since, tag

# Offsets and classic groups


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """The committed offset of a group on one partition."""

    group_id: str = field(metadata=STRING)
    topic: str = field(metadata=STRING)
    partition: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True)
class OffsetValue:
    """A committed offset. `expire_ms` is -1 unless an old client asked for a retention of its own."""

    offset: int = field(metadata=INT64)
    leader_epoch: int = field(metadata=INT32 | since(3), default=-1)
    metadata: str = field(metadata=STRING, default="")
    commit_ms: int = field(metadata=INT64, default=0)
    expire_ms: int = field(metadata=INT64 | only(1), default=-1)


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A group of the classic protocol."""

    group_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A member of a stored generation; `subscription` is its metadata for the chosen protocol."""

    member_id: str = field(metadata=STRING)
    instance_id: str | None = field(metadata=STRING | since(3), default=None)
    client_id: str = field(metadata=STRING, default="")
    client_host: str = field(metadata=STRING, default="")
    rebalance_timeout_ms: int = field(metadata=INT32 | since(1), default=-1)
    session_timeout_ms: int = field(metadata=INT32, default=-1)
    subscription: bytes = field(metadata=BYTES, default=b"")
    assignment: bytes = field(metadata=BYTES, default=b"")

    def __post_init__(self) -> None:
        """Fill in the rebalance timeout: members of version 0 had one timeout for both."""
        if self.rebalance_timeout_ms == -1:
            object.__setattr__(self, "rebalance_timeout_ms", self.session_timeout_ms)


@dataclass(frozen=True, slots=True)
class GroupValue:
    """A classic group as its last finished rebalance left it."""

    protocol_type: str = field(metadata=STRING)
    generation_id: int = field(metadata=INT32)
    protocol_name: str | None = field(metadata=STRING)
    leader_id: str | None = field(metadata=STRING)
    state_since_ms: int = field(metadata=INT64 | since(2), default=-1)
    members: tuple[StoredMember, ...] = ()


# Consumer groups (KIP-848)


@dataclass(frozen=True, slots=True)
class ConsumerGroupKey:
    """The epoch of a group of the consumer protocol."""

    group_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class ConsumerGroupValue:
    """The group epoch; `metadata_hash` (Kafka 4.1) changes with the subscribed topics."""

    epoch: int = field(metadata=INT32)
    metadata_hash: int = field(metadata=INT64 | tag(0), default=0)


@dataclass(frozen=True, slots=True)
class ConsumerTopicsKey:
    """The topics that a consumer group saw last. Kafka 4.1 writes only its tombstones."""

    group_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class PartitionRacks:
    """The racks of one partition's replicas (unused since Kafka 4.0)."""

    partition: int = field(metadata=INT32)
    racks: tuple[str, ...] = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class ConsumerTopic:
    """One topic, as a group saw it."""

    topic_id: UUID | None = field(metadata=ID)
    name: str = field(metadata=STRING)
    partition_count: int = field(metadata=INT32)
    partition_racks: tuple[PartitionRacks, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerTopicsValue:
    """The subscribed topics and their sizes."""

    topics: tuple[ConsumerTopic, ...]


@dataclass(frozen=True, slots=True)
class ConsumerMemberKey:
    """A member of a consumer group."""

    group_id: str = field(metadata=STRING)
    member_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """A protocol that a classic member supports, and its metadata for it."""

    name: str = field(metadata=STRING)
    metadata: bytes = field(metadata=BYTES)


@dataclass(frozen=True, slots=True)
class ClassicMemberValue:
    """What a member of a consumer group has that uses the classic protocol."""

    session_timeout_ms: int = field(metadata=INT32)
    protocols: tuple[ClassicProtocol, ...]

    @classmethod
    def of(cls, session_timeout_ms: int, protocols: tuple[tuple[str, bytes], ...]) -> "ClassicMemberValue":
        """Return the value for the protocols of a JoinGroup request."""
        return cls(session_timeout_ms, tuple(ClassicProtocol(*each) for each in protocols))

    @property
    def join_protocols(self) -> tuple[tuple[str, bytes], ...]:
        """Return the protocols as they were in the JoinGroup request."""
        return tuple((each.name, each.metadata) for each in self.protocols)


@dataclass(frozen=True, slots=True)
class ConsumerMemberValue:
    """A member's subscription, and who it is."""

    instance_id: str | None = field(metadata=STRING)
    rack_id: str | None = field(metadata=STRING)
    client_id: str = field(metadata=STRING)
    client_host: str = field(metadata=STRING)
    subscribed_topics: tuple[str, ...] = field(metadata=STRING)
    subscribed_regex: str | None = field(metadata=STRING)
    rebalance_timeout_ms: int = field(metadata=INT32)
    server_assignor: str | None = field(metadata=STRING)
    classic: ClassicMemberValue | None = field(metadata=tag(0), default=None)


@dataclass(frozen=True, slots=True)
class ConsumerTargetKey:
    """For which group epoch the target assignment was computed."""

    group_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class ConsumerTargetValue:
    """The epoch of the target assignment."""

    assignment_epoch: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True)
class StoredPartitions:
    """Partitions of one topic. The zero id, which no topic has, is read as None."""

    topic_id: UUID | None = field(metadata=ID)
    partitions: tuple[int, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True)
class ConsumerTargetMemberKey:
    """The target assignment of one member."""

    group_id: str = field(metadata=STRING)
    member_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class ConsumerTargetMemberValue:
    """The partitions that a member is to have."""

    partitions: tuple[StoredPartitions, ...]


@dataclass(frozen=True, slots=True)
class ConsumerCurrentMemberKey:
    """The current assignment of one member."""

    group_id: str = field(metadata=STRING)
    member_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class ConsumerCurrentMemberValue:
    """A member's epoch and partitions; `state` is 0 stable, 1 unrevoked, 2 unreleased (127 unknown)."""

    member_epoch: int = field(metadata=INT32)
    previous_member_epoch: int = field(metadata=INT32)
    state: int = field(metadata=INT8)
    assigned: tuple[StoredPartitions, ...]
    pending_revocation: tuple[StoredPartitions, ...]


@dataclass(frozen=True, slots=True)
class ConsumerRegexKey:
    """A regular expression that members of a group subscribe to."""

    group_id: str = field(metadata=STRING)
    regex: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class ConsumerRegexValue:
    """The topics that it matched, at which version of the metadata, when."""

    topics: tuple[str, ...] = field(metadata=STRING)
    version: int = field(metadata=INT64)
    timestamp_ms: int = field(metadata=INT64)


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
