"""Timers that are pushed back a thousand times before they fire."""

from __future__ import annotations

import asyncio
import time

import pytest
import uvloop

from ottla.coordinator.effects import TimerKey
from ottla.coordinator.runtime import Timers


@pytest.fixture
def fired() -> list[TimerKey]:
    return []


async def until_fired(fired: list[TimerKey], count: int = 1) -> None:
    async with asyncio.timeout(2):
        while len(fired) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_timers_fire_in_the_order_of_their_deadlines(fired: list[TimerKey]) -> None:
    timers = Timers(fired.append)
    timers.set(("second",), 20)
    timers.set(("first",), 5)
    await until_fired(fired, 2)
    assert fired == [("first",), ("second",)]
    assert len(timers) == 0


async def test_a_timer_that_is_pushed_back_fires_at_the_later_time(fired: list[TimerKey]) -> None:
    timers = Timers(fired.append)
    start = asyncio.get_running_loop().time()
    timers.set(("session",), 10)
    timers.set(("session",), 40)
    await until_fired(fired)
    assert asyncio.get_running_loop().time() - start >= 0.04
    assert fired == [("session",)]


async def test_a_timer_that_is_pulled_forward_fires_at_the_earlier_time(fired: list[TimerKey]) -> None:
    timers = Timers(fired.append)
    timers.set(("join",), 60_000)
    timers.set(("join",), 1)
    await until_fired(fired)


async def test_cancelled_timers_never_fire(fired: list[TimerKey]) -> None:
    timers = Timers(fired.append)
    timers.set(("a",), 1)
    timers.set(("b",), 1)
    timers.cancel(("a",))
    timers.cancel(("never set",))
    timers.clear()
    timers.set(("c",), 5)
    await until_fired(fired)
    assert fired == [("c",)]


async def test_after_the_loop_was_blocked_signs_of_life_are_read_before_timers_fire(
    fired: list[TimerKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.coordinator.runtime.LATE_S", 0.01)
    monkeypatch.setattr("ottla.coordinator.runtime.GRACE_S", 0.05)
    timers = Timers(fired.append)
    timers.set(("alive",), 1)
    timers.set(("dead",), 1)
    await asyncio.sleep(0)
    time.sleep(0.05)  # noqa: ASYNC251  a pause of the whole process
    await asyncio.sleep(0.002)
    assert fired == []
    timers.set(("alive",), 60_000)  # its heartbeat was in the socket all the time
    await until_fired(fired)
    assert fired == [("dead",)]
    timers.clear()


def test_a_timer_that_is_due_at_once_can_be_set_again_on_the_brokers_own_loop(fired: list[TimerKey]) -> None:
    async def set_twice() -> None:
        timers = Timers(fired.append)
        timers.set(("join",), 0)
        timers.set(("join",), -1)
        timers.set(("join",), 5)
        await until_fired(fired)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(set_twice())
    assert fired == [("join",)]
