"""A service's membership in a group: what it does when its coordinator goes away or its own code fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4 import HeartbeatRequest, HeartbeatResponse
from kio.schema.join_group.v9 import JoinGroupRequest, JoinGroupResponse
from kio.schema.leave_group.v5 import LeaveGroupRequest
from kio.schema.sync_group.v5 import SyncGroupRequest, SyncGroupResponse
from tests.waiting import until

from ottla.client import group_membership
from ottla.client.errors import ClientError
from ottla.client.group_membership import GroupMembership, GroupOptions
from ottla.protocol.types import i32

OPTIONS = GroupOptions("g", "connect", "compatible", session_timeout_ms=50, heartbeat_interval_ms=1)


class Coordinator:
    """Answers as a coordinator of one member does; `beats` answers heartbeats."""

    def __init__(self, beats: Callable[[], ErrorCode]) -> None:
        self.joins, self.beats = 0, beats
        self.is_away = False

    async def connect(self, *_: object) -> Coordinator:
        if self.is_away:
            raise ClientError("nothing listens")
        return self

    def forget(self, *_: object) -> None:
        """Nothing is kept."""

    async def request(self, request: Any, kind: Any, **_: object) -> Any:
        if isinstance(request, JoinGroupRequest):
            self.joins += 1
            return JoinGroupResponse(
                throttle_time=i32_ms(0),
                error_code=ErrorCode.none,
                generation_id=i32(self.joins),
                protocol_type="connect",
                protocol_name="compatible",
                leader="other",
                skip_assignment=False,
                member_id="m",
                members=(),
            )
        if isinstance(request, SyncGroupRequest):
            return SyncGroupResponse(
                throttle_time=i32_ms(0),
                error_code=ErrorCode.none,
                protocol_type="connect",
                protocol_name="compatible",
                assignment=b"ours",
            )
        if isinstance(request, HeartbeatRequest):
            return HeartbeatResponse(throttle_time=i32_ms(0), error_code=self.beats())
        assert isinstance(request, LeaveGroupRequest)
        raise ClientError("it stops")


def i32_ms(value: int) -> Any:
    from datetime import timedelta

    from kio.static.primitive import i32Timedelta

    return i32Timedelta.parse(timedelta(milliseconds=value))


class Events:
    """The callbacks of a member."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        self.assigned = asyncio.Event()
        self.rejoins = 0

    async def group_metadata(self) -> bytes:
        return b"metadata"

    async def assign(self, *_: object) -> dict[str, bytes]:
        raise AssertionError("this member does not lead")

    async def on_assigned(self, assignment: bytes, generation: int, member_id: str) -> bool:
        assert (assignment, member_id) == (b"ours", "m")
        self.assigned.set()
        return False

    async def on_rejoin(self) -> None:
        self.rejoins += 1

    async def on_lost(self) -> None:
        self.lost.set()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_membership, "PAUSE_S", 0.001)


def member(coordinator: Coordinator, events: Events) -> GroupMembership:
    any_cluster: Any = None
    made = GroupMembership(any_cluster, OPTIONS, events)
    made._coordinators = coordinator  # type: ignore[assignment]
    return made


async def test_an_error_of_the_heartbeat_loop_does_not_end_the_membership(quick: None) -> None:
    beats = 0

    def beat() -> ErrorCode:
        nonlocal beats
        beats += 1
        if beats == 2:
            raise RuntimeError("a mistake in our own code")
        return ErrorCode.none

    coordinator, events = Coordinator(beat), Events()
    group = member(coordinator, events)
    group.start()
    await until(lambda: coordinator.joins == 2 and beats > 4)
    assert not events.lost.is_set()
    await group.stop()


async def test_a_rebalance_ends_the_assignment_before_the_member_joins_again(quick: None) -> None:
    answers = iter([ErrorCode.none, ErrorCode.rebalance_in_progress])
    coordinator, events = Coordinator(lambda: next(answers, ErrorCode.none)), Events()
    group = member(coordinator, events)
    group.start()
    await until(lambda: coordinator.joins == 2)
    assert events.rejoins == 1
    assert not events.lost.is_set()
    await group.stop()


async def test_an_unknown_member_stops_everything_and_joins_as_a_new_one(quick: None) -> None:
    answers = iter([ErrorCode.none, ErrorCode.unknown_member_id])
    coordinator, events = Coordinator(lambda: next(answers, ErrorCode.none)), Events()
    group = member(coordinator, events)
    group.start()
    await until(lambda: coordinator.joins == 2)
    assert events.lost.is_set()
    await group.stop()


async def test_a_member_without_a_coordinator_gives_everything_up_after_the_session(quick: None) -> None:
    coordinator, events = Coordinator(lambda: ErrorCode.none), Events()
    group = member(coordinator, events)
    group.start()
    await events.assigned.wait()
    events.assigned.clear()
    coordinator.is_away = True
    await asyncio.wait_for(events.lost.wait(), 10)
    coordinator.is_away = False
    await asyncio.wait_for(events.assigned.wait(), 10)
    await group.stop()
