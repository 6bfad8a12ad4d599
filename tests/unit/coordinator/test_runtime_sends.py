"""What a step sends to others leaves when its records are committed, and not before."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.coordinator.memory_writer import MemoryWriter

from ottla.common.clock import ManualClock
from ottla.coordinator import runtime as runtime_module
from ottla.coordinator.effects import Reply, SetTimer, Step, TimerKey
from ottla.coordinator.runtime import Runtime
from ottla.protocol.errors import CoordinatorNotAvailable, NotEnoughReplicasAfterAppend


class Announcing:
    """A machine that announces its records."""

    def __init__(self) -> None:
        self.records: list[str] = []

    def loaded(self, now_ms: int) -> Step:
        return Step(sends=tuple(self.records))

    def on_timer(self, now_ms: int, key: TimerKey) -> Step:
        return Step(records=key, sends=key)

    def say(self, now_ms: int, token: int, text: str) -> Step:
        return Step(records=(text,), replies=(Reply(token, text),), sends=(text,))

    def set_alarm(self, now_ms: int, token: int, text: str) -> Step:
        return Step(timers=(SetTimer((text,), now_ms),), replies=(Reply(token, None),))

    def replay(self, record: str) -> None:
        self.records.append(record)

    def apply(self, change: object) -> None:
        raise AssertionError


async def start(
    *records: str, commit_timeout_ms: int = 1000
) -> tuple[Runtime[Announcing], MemoryWriter, list[object]]:
    writer = MemoryWriter(list(records))
    sent: list[object] = []
    runtime = Runtime(Announcing(), writer, ManualClock(), commit_timeout_ms, send=sent.append)
    await runtime.load()
    runtime.activate()
    return runtime, writer, sent


async def test_what_is_committed_at_once_is_sent_at_once() -> None:
    runtime, _, sent = await start()
    runtime.call(Announcing.say, "a")
    assert sent == ["a"]


async def test_nothing_is_sent_before_the_commit() -> None:
    runtime, writer, sent = await start()
    writer.holds_back = True
    reply = runtime.call(Announcing.say, "a")
    await asyncio.sleep(0)
    assert sent == []
    writer.commit()
    assert await reply == "a"
    assert sent == ["a"]


async def test_a_commit_that_fails_for_now_holds_the_sends_back_until_it_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runtime_module, "RETRY_MS", 5)
    runtime, writer, sent = await start()
    writer.holds_back = True
    reply = runtime.call(Announcing.say, "a")
    writer.commit(NotEnoughReplicasAfterAppend("1 of 2"))
    writer.holds_back = True
    with pytest.raises(CoordinatorNotAvailable):
        await reply
    await asyncio.sleep(0.02)
    assert sent == [], "it is in the state, but not committed"
    writer.commit()
    await asyncio.sleep(0.02)
    assert sent == ["a"], "a decision is carried out, also if its client received an error"


async def test_a_commit_that_failed_sends_nothing_once_the_partition_is_led_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runtime_module, "RETRY_MS", 5)
    runtime, writer, sent = await start()
    writer.holds_back = True
    runtime.call(Announcing.say, "a").add_done_callback(lambda done: done.exception())
    writer.commit(NotEnoughReplicasAfterAppend("1 of 2"))
    runtime.unload()
    await asyncio.sleep(0.02)
    assert sent == []


async def test_a_late_commit_is_sent_though_no_reply_is_awaited_any_more() -> None:
    runtime, writer, sent = await start(commit_timeout_ms=5)
    writer.holds_back = True
    with pytest.raises(CoordinatorNotAvailable):
        await runtime.call(Announcing.say, "a")
    writer.commit()
    await asyncio.sleep(0)
    assert sent == ["a"]


async def test_nothing_is_sent_for_a_partition_that_is_led_elsewhere() -> None:
    runtime, writer, sent = await start()
    writer.holds_back = True
    runtime.call(Announcing.say, "a").add_done_callback(lambda done: done.exception())
    runtime.unload()
    writer.commit()
    await asyncio.sleep(0)
    assert sent == []


async def test_loading_and_timers_send_too() -> None:
    runtime, _, sent = await start("old")
    assert sent == ["old"]
    runtime.call(Announcing.set_alarm, "tick")
    async with asyncio.timeout(2):
        while sent != ["old", "tick"]:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_a_runtime_without_an_owner_sends_nothing() -> None:
    runtime = Runtime(Announcing(), MemoryWriter(), ManualClock(), 1000)
    await runtime.load()
    runtime.activate()
    with pytest.raises(ValueError, match="unexpected message"):
        runtime.call(Announcing.say, "a")
