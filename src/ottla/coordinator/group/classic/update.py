"""One event on one classic group: a copy of the group to change, and the effects as they add up."""

from __future__ import annotations

from typing import Any

from ottla.common.config.broker import BrokerConfig
from ottla.coordinator.effects import CancelTimer, Reply, SetTimer, Step, Timer
from ottla.coordinator.group.classic.group import ClassicGroup, Member
from ottla.coordinator.group.classic.record import record_of
from ottla.coordinator.group.records import Record


class GroupUpdate:
    """What a handler works on. Nothing of it has happened before the step is taken."""

    __slots__ = ("_replies", "_timers", "config", "group", "now_ms", "records")

    def __init__(self, group: ClassicGroup, now_ms: int, config: BrokerConfig) -> None:
        self.group = group.copy()
        self.now_ms = now_ms
        self.config = config
        self.records: list[Record] = []
        self._replies: list[Reply[Any]] = []
        self._timers: list[Timer] = []

    @classmethod
    def of_new_group(cls, group_id: str, now_ms: int, config: BrokerConfig) -> GroupUpdate:
        """Start with a group that does not exist yet; its first record says that it does."""
        update = cls(ClassicGroup(group_id, state_since_ms=now_ms), now_ms, config)
        update.write()
        return update

    def step(self) -> Step[Any]:
        """Return all of it."""
        return Step(tuple(self.records), (self.group,), tuple(self._replies), tuple(self._timers))

    def write(self) -> None:
        """Keep the group as it is now."""
        self.records.append(record_of(self.group))

    def reply(self, token: int | None, response: object) -> None:
        """Answer a request, if there is one."""
        if token is not None:
            self._replies.append(Reply(token, response))

    def set_session_timer(self, member: Member, timeout_ms: int | None = None) -> None:
        """Expect the next sign of life within the member's session timeout, or within `timeout_ms`."""
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        key = ("session", self.group.group_id, member.member_id)
        self._timers.append(SetTimer(key, self.now_ms + timeout_ms))

    def cancel_session_timer(self, member_id: str) -> None:
        """Expect nothing any more."""
        self._timers.append(CancelTimer(("session", self.group.group_id, member_id)))

    def set_join_timer(self, timeout_ms: int) -> None:
        """End the time for joining after `timeout_ms`."""
        self._timers.append(SetTimer(("join", self.group.group_id), self.now_ms + timeout_ms))

    def cancel_join_timer(self) -> None:
        """Let the time for joining have no end: it is over."""
        self._timers.append(CancelTimer(("join", self.group.group_id)))

    def set_sync_timer(self, timeout_ms: int) -> None:
        """End the time for asking for assignments after `timeout_ms`."""
        self._timers.append(SetTimer(("sync", self.group.group_id), self.now_ms + timeout_ms))

    def cancel_sync_timer(self) -> None:
        """Let everybody have asked."""
        self._timers.append(CancelTimer(("sync", self.group.group_id)))
