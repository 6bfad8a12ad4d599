"""One event on one consumer group: the group as it will be, and the effects as they add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.group_keys import GroupConfig
from ottla.coordinator.effects import NOTHING, CancelTimer, Reply, SetTimer, Step, Timer, TimerKey
from ottla.coordinator.group.consumer.group import ConsumerGroup, member_tombstones
from ottla.coordinator.group.consumer.member import ConsumerMember, MemberState, current_record
from ottla.coordinator.group.records import Record
from ottla.metadata.image import ClusterImage

MEMBER_TIMERS = ("session", "revoke", "rejoin", "collect")
"""The deadlines of members: for a heartbeat and for revoking partitions; for classic members also for
JoinGroup and SyncGroup. A member that misses one is removed."""


class ConsumerGroupUpdate:
    """The group that a handler changes, and its effects. They happen when the step is applied.

    A record that a handler writes changes `group` at once, which is a copy from then on. So whatever is
    decided next sees what has been decided before, and most heartbeats, which decide nothing, copy nothing.
    """

    __slots__ = (
        "_has_volatile_change",
        "_is_copy",
        "_records",
        "_replies",
        "_successor",
        "_timers",
        "config",
        "group",
        "image",
        "may_see",
        "now_ms",
    )

    def __init__(
        self,
        group: ConsumerGroup,
        now_ms: int,
        config: BrokerConfig,
        image: ClusterImage,
        records: Iterable[Record] = (),
    ) -> None:
        self.group = group
        self.now_ms = now_ms
        self.config = config
        self.image = image
        self.may_see: Callable[[str], bool] | None = None
        """Whether the client of this event may see a topic; None: every topic."""
        self._is_copy = False
        self._has_volatile_change = False
        self._records: list[Record] = list(records)
        self._replies: list[Reply[Any]] = []
        self._timers: list[Timer] = []
        self._successor = NOTHING

    def step(self) -> Step[Any]:
        """Return all effects."""
        after = self._successor
        changes = (self.group,) if self._has_volatile_change else ()
        return Step(
            (*self._records, *after.records),
            (*changes, *after.changes),
            (*self._replies, *after.replies),
            (*self._timers, *after.timers),
        )

    def write(self, *records: Record) -> None:
        """Write records, and see the group as it will be by them."""
        self._copy()
        self._records.extend(records)
        for key, value in records:
            self.group.replay(key, value)

    def mutable(self) -> ConsumerGroup:
        """Return the group for a change that is not written to the log."""
        self._copy()
        self._has_volatile_change = True
        return self.group

    def continue_with(self, step: Step[Any]) -> None:
        """Add the step of the group of the other protocol that this one becomes."""
        self._has_volatile_change = False
        self._successor = step

    def _copy(self) -> None:
        if not self._is_copy:
            self.group = self.group.copy()
            self._is_copy = True

    def reply(self, token: int, response: object) -> None:
        """Answer a request."""
        self._replies.append(Reply(token, response))

    # Members

    def remove(self, member_id: str) -> None:
        """Remove a member; the caller decides what follows for the group."""
        self.write(*member_tombstones(self.group.group_id, member_id))
        for timer in MEMBER_TIMERS:
            self.cancel_timer(timer, member_id)

    def put_current(self, member: ConsumerMember) -> None:
        """Write a member's current assignment; it has its rebalance timeout to revoke partitions."""
        before = self.group.members[member.member_id].current
        if member.current == before:
            return
        self.write(current_record(self.group.group_id, member))
        if member.is_classic:
            return  # it has timers of its own
        if member.current.state is MemberState.UNREVOKED_PARTITIONS:
            self.set_timer("revoke", member.member_id, member.subscription.rebalance_timeout_ms)
        elif before.state is MemberState.UNREVOKED_PARTITIONS:
            self.cancel_timer("revoke", member.member_id)

    @property
    def group_config(self) -> GroupConfig:
        """The group's own configs over the broker's."""
        return GroupConfig.of(self.image.group_overrides(self.group.group_id), self.config)

    # Timers

    def set_session_timer(self, member: ConsumerMember) -> None:
        """Restart the member's session."""
        timeout_ms = member.session_timeout_ms(self.group_config.consumer_session_timeout_ms)
        self.set_timer("session", member.member_id, timeout_ms)

    def set_timer(self, name: str, member_id: str, timeout_ms: int) -> None:
        """Set a deadline, after which the member is removed."""
        self._timers.append(SetTimer(self._key(name, member_id), self.now_ms + timeout_ms))

    def cancel_timer(self, name: str, member_id: str) -> None:
        """Cancel a deadline."""
        self._timers.append(CancelTimer(self._key(name, member_id)))

    def cancel_group_timers(self) -> None:
        """Cancel the timers of the classic group that this group was."""
        self._timers.append(CancelTimer(("join", self.group.group_id)))
        self._timers.append(CancelTimer(("sync", self.group.group_id)))

    def _key(self, name: str, member_id: str) -> TimerKey:
        return (name, self.group.group_id, member_id)
