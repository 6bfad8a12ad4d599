"""A member of a classic group, and the states that a group can be in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ottla.coordinator.group.requests import Protocols


class State(Enum):
    """Where a group is in its life; the values are Kafka's words."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class Member:
    """One member; the tokens are those of its parked requests."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """Whether it has not yet been in any generation."""
    join_token: int | None = None
    sync_token: int | None = None

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return its metadata for a protocol."""
        return dict(self.protocols).get(protocol_name or "", b"")


@dataclass(frozen=True, slots=True)
class InitialDelay:
    """How long a group that was empty waits for more members, and how much longer it may."""

    delay_ms: int
    remaining_ms: int
    has_new_member: bool = False
