"""Requests of the consumer protocol (ConsumerGroupHeartbeat, ConsumerGroupDescribe) and their replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.coordinator.group.consumer.partitions import Partitions, SortedPartitions
from ottla.protocol.errors import InvalidRequest, UnsupportedAssignor

LEAVING = -1
"""The member epoch with which a member leaves."""

LEAVING_FOR_A_WHILE = -2
"""The member epoch with which a static member leaves temporarily, to be back within its session."""


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """A heartbeat, also to join (epoch 0) or to leave (-1, -2), with what changed since the last one.

    None, and a rebalance timeout of -1, mean that it is as before.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    subscribed_topics: tuple[str, ...] | None
    subscribed_regex: str | None
    server_assignor: str | None
    owned: Partitions | None
    client_id: str
    client_host: str
    fresh_id: str
    """The member's id if it brings none, as in version 0."""
    may_see: Callable[[str], bool] | None = None
    """Whether the client may see a topic that a regular expression matches; None: every topic."""

    @property
    def is_full(self) -> bool:
        """Return whether it has all fields, as after a client's error: then the reply has the assignment."""
        has_subscription = self.subscribed_topics is not None or self.subscribed_regex is not None
        return self.rebalance_timeout_ms != -1 and has_subscription and self.owned is not None


def check_heartbeat(request: HeartbeatRequest, assignors: Sequence[str]) -> None:
    """Refuse an inconsistent request, with Kafka's error texts."""
    for name, value in (("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if value is not None and not value.strip():
            raise InvalidRequest(f"{name} can't be empty.")
    epoch = request.member_epoch
    if epoch == 0:
        _check_join(request)
    elif epoch == LEAVING_FOR_A_WHILE and request.instance_id is None:
        raise InvalidRequest("InstanceId can't be null.")
    elif epoch < LEAVING_FOR_A_WHILE:
        raise InvalidRequest(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignor(
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}."
        )


def _check_join(request: HeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
    if request.owned is None or request.owned:
        raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topics is None and request.subscribed_regex is None:
        raise InvalidRequest(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The member's epoch, and its partitions if they changed."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: SortedPartitions | None = None


@dataclass(frozen=True, slots=True)
class ConsumerMemberDescription:
    """A member in ConsumerGroupDescribe."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]
    subscribed_regex: str | None
    assigned: SortedPartitions
    target: SortedPartitions
    is_classic: bool


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """A consumer group in ConsumerGroupDescribe."""

    group_id: str
    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: tuple[ConsumerMemberDescription, ...]
