"""Requests to a group machine and their replies, independent of the versions of the Kafka protocol."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.coordinator.group.records import OffsetValue
from ottla.protocol.errors import KafkaError

Protocols = tuple[tuple[str, bytes], ...]
"""Names of protocols, each with the member's metadata for it, the preferred one first."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """JoinGroup. `fresh_id` makes the id of a new member unique."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    fresh_id: str
    requires_member_id: bool = True
    """Whether a new member first gets an id, and joins with it in a second request (JoinGroup v4)."""
    can_skip_assignment: bool = True
    """Whether a leader understands that it is not to assign anything (JoinGroup v9)."""


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member, as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The generation that a member is in; `members` only for the leader."""

    member_id: str
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """SyncGroup; the leader sends the assignments of all members."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class SyncResult:
    """One member's assignment."""

    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """A member to remove; without a member id, the one with the instance id."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


LeaveResult = tuple[KafkaError | None, ...]
"""The error of each member that could not be removed, in the order of the request."""


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    """One partition's offset."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """OffsetCommit. Without group membership the generation is -1 and the member id empty."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation_id: int
    """Or the member epoch, in the consumer protocol."""
    topics: tuple[tuple[str, tuple[OffsetToCommit, ...]], ...]
    retention_ms: int | None = None
    knows_group_not_found: bool = True
    """Whether the client understands GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (OffsetCommit v9)."""
    producer: tuple[int, int] | None = None
    """Id and epoch of the producer in whose transaction this is; None outside of transactions."""

    @property
    def has_member(self) -> bool:
        """Whether it claims to come from a member; in transactions old clients do not."""
        return self.generation_id >= 0 or bool(self.member_id) or self.instance_id is not None


@dataclass(frozen=True, slots=True)
class Committed:
    """The partitions whose metadata was too long; all others are committed."""

    too_large: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """OffsetFetch, of some partitions by topic, or of all."""

    group_id: str
    topics: tuple[tuple[str, tuple[int, ...]], ...] | None
    member_id: str | None = None
    member_epoch: int = -1
    must_be_stable: bool = False
    """Whether to refuse offsets that an open transaction may change any moment (OffsetFetch v7)."""


FetchedOffset = OffsetValue | KafkaError | None
"""An offset, or the error that it cannot be read for; None if nothing was ever committed."""
FetchedOffsets = tuple[tuple[str, tuple[tuple[int, FetchedOffset], ...]], ...]
"""Offsets by topic and partition."""


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member in DescribeGroups."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A classic group in DescribeGroups."""

    group_id: str
    state: str
    protocol_type: str
    protocol_name: str
    members: tuple[DescribedMember, ...]


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """An entry of ListGroups; `type` is classic or consumer."""

    group_id: str
    protocol_type: str
    state: str
    type: str
