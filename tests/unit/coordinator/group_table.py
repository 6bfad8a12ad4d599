"""A group machine and its log at a table, without a runtime: events go in, answers come out at once.

`Table` takes every step the way the runtime does, keeps what is parked, and moves time by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from ottla.common.config.broker import BrokerConfig
from ottla.coordinator.effects import InTransaction, SetTimer, Step, TimerKey
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.records import Record
from ottla.coordinator.group.requests import JoinRequest, SyncRequest
from ottla.metadata.image import ClusterImage
from ottla.protocol.errors import KafkaError, MemberIdRequired
from ottla.protocol.records.control import Marker

START_MS = 1_000_000
PARKED = object()
"""The answer of a request that is not answered yet."""


def subscription(*topics: str) -> bytes:
    """What a consumer says it subscribes to."""
    names = b"".join(len(each.encode()).to_bytes(2, "big") + each.encode() for each in topics)
    return b"\x00\x00" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


class Table:
    """One machine, in virtual time."""

    def __init__(self, image: ClusterImage | None = None, **settings: int | str) -> None:
        raw = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.config = BrokerConfig(raw)
        self.image = image or ClusterImage()
        self.machine = GroupMachine(self.config, self.image)
        self.now_ms = START_MS
        self.log: list[Record | InTransaction | Marker] = []
        self.timers: dict[TimerKey, int] = {}
        self.answers: dict[int, Any] = {}
        self._tokens = count(1)

    # Events

    def ask(self, method: Callable[..., Step], *args: Any, **kwargs: Any) -> Any:
        """Return the answer, or PARKED; a KafkaError is raised."""
        answer = self.answers.get(self.send(method, *args, **kwargs), PARKED)
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    def send(self, method: Callable[..., Step], *args: Any, **kwargs: Any) -> int:
        """Send a request and return its token; errors are answers."""
        token = next(self._tokens)
        try:
            self.take(method(self.machine, self.now_ms, token, *args, **kwargs))
        except KafkaError as error:
            self.answers[token] = error
        return token

    def take(self, step: Step) -> None:
        """Do what the runtime does with a step."""
        for record in step.records:
            assert isinstance(record, Record | InTransaction | Marker)
            self.log.append(record)
            self.machine.replay(record)
        for change in step.changes:
            self.machine.apply(change)
        for timer in step.timers:
            if isinstance(timer, SetTimer):
                self.timers[timer.key] = timer.at_ms
            else:
                self.timers.pop(timer.key, None)
        for reply in step.replies:
            assert reply.token not in self.answers, "answered twice"
            self.answers[reply.token] = reply.response

    def wait(self, ms: int) -> None:
        """Let time pass, and timers run out."""
        end_ms = self.now_ms + ms
        while self.timers:
            key, at_ms = min(self.timers.items(), key=lambda item: item[1])
            if at_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, at_ms)
            del self.timers[key]
            self.take(self.machine.on_timer(self.now_ms, key))
        self.now_ms = end_ms

    def restart(self) -> None:
        """Lose everything but the log, and load it."""
        self.timers.clear()
        self.machine = GroupMachine(self.config, self.image)
        for record in self.log:
            self.machine.replay(record)
        self.take(self.machine.loaded(self.now_ms))

    # What members do

    def group(self, group_id: str = "g") -> ClassicGroup:
        """The group; it must exist."""
        group = self.machine.groups[group_id]
        assert isinstance(group, ClassicGroup)
        return group

    def send_join(self, member_id: str = "", **changes: Any) -> int:
        """Send a JoinGroup, with whatever is special about it."""
        request = {
            "group_id": "g",
            "member_id": member_id,
            "instance_id": None,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": (("range", subscription("orders")),),
            "fresh_id": str(next(self._tokens)),
            **changes,
        }
        return self.send(GroupMachine.join, JoinRequest(**request))

    def new_member(self, **changes: Any) -> tuple[str, int]:
        """Let a dynamic member get its id and join with it; return the id and the token that is parked."""
        refused = self.answers[self.send_join(**changes)]
        assert isinstance(refused, MemberIdRequired)
        return refused.member_id, self.send_join(refused.member_id, **changes)

    def send_sync(self, member_id: str, generation_id: int, **changes: Any) -> int:
        """Send a SyncGroup."""
        request = {
            "group_id": "g",
            "member_id": member_id,
            "instance_id": None,
            "generation_id": generation_id,
            "protocol_type": None,
            "protocol_name": None,
            "assignments": (),
            **changes,
        }
        return self.send(GroupMachine.sync, SyncRequest(**request))

    def stable_group(self, size: int = 1, **changes: Any) -> list[str]:
        """Let a group become Stable; return the ids, the leader's first."""
        joins = [self.new_member(**changes) for _ in range(size)]
        self.wait(self.config.group_initial_rebalance_delay_ms * (size + 1))
        generation_id = self.group().generation_id
        ids = [member_id for member_id, _ in joins]
        leader_id = self.group().leader_id
        assert leader_id is not None
        ids.sort(key=lambda each: each != leader_id)
        assignments = tuple((each, f"of {each}".encode()) for each in ids)
        for member_id in reversed(ids):
            self.send_sync(
                member_id, generation_id, assignments=assignments if member_id == leader_id else ()
            )
        assert self.group().state.value == "Stable"
        return ids
