"""The interface of a group, whatever protocol its members use.

A group has two sides, and each protocol implements both:

    Group        its state and its rules: which commits it accepts, what it subscribes to, how it is listed
    GroupEvents  one request or timer on it: joins, syncs, heartbeats, departures, ends of sessions

    classic   ClassicGroup (classic/group.py)    ClassicGroupEvents (classic/events.py)
    consumer  ConsumerGroup (consumer/group.py)  ConsumerGroupEvents (classic_in_consumer_group.py)

The events of consumer groups are for those of its members that use the classic protocol; the others send
heartbeats (consumer/heartbeat.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ottla.coordinator.effects import SetTimer, Step
from ottla.coordinator.group.records import OffsetValue, Record
from ottla.coordinator.group.requests import (
    CommitRequest,
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    ListedGroup,
    SyncRequest,
    SyncResult,
)


class Group(Protocol):
    """A group. The checks raise the error that the client gets."""

    group_id: str

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        ...

    def check_commit(self, request: CommitRequest) -> None:
        """Refuse offsets from anyone but a member of this generation, unless there are no members."""
        ...

    def commit_timers(self, request: CommitRequest, now_ms: int) -> tuple[SetTimer, ...]:
        """Return the timers that a commit moves: in a classic group it extends the member's session."""
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse to return offsets to a member that has been fenced."""
        ...

    def check_delete_offsets(self) -> None:
        """Refuse to delete offsets while it is not known which of them the members use."""
        ...

    def check_delete(self) -> None:
        """Refuse to delete a group with members."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether members use the offsets of this topic."""
        ...

    def retention_start_ms(self, offset: OffsetValue) -> int | None:
        """Return when the retention of an offset started; None while it does not expire."""
        ...

    def tombstones(self) -> tuple[Record, ...]:
        """Return the records that delete the group, but not its offsets."""
        ...

    def listed(self) -> ListedGroup:
        """Return the group's entry in ListGroups."""
        ...


class GroupEvents(Protocol):
    """One request of the classic protocol, or one timer, on a group that has members."""

    def join(self, token: int, request: JoinRequest) -> Step[JoinResult]:
        """Handle JoinGroup."""
        ...

    def sync(self, token: int, request: SyncRequest) -> Step[SyncResult]:
        """Handle SyncGroup."""
        ...

    def heartbeat(
        self, token: int, member_id: str, instance_id: str | None, generation_id: int
    ) -> Step[None]:
        """Handle Heartbeat."""
        ...

    def leave(self, token: int, leavers: tuple[LeavingMember, ...]) -> Step[LeaveResult]:
        """Handle LeaveGroup."""
        ...

    def on_timer(self, timer: str, member_id: str) -> Step[None]:
        """Handle a timer that has run out; `member_id` is empty if it is the group's."""
        ...

    def session_timers(self) -> Iterable[SetTimer]:
        """Return the timers with which sessions start anew after a failover."""
        ...
