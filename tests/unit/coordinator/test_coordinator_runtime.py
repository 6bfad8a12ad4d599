"""The runtime, with a machine that counts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from tests.unit.coordinator.memory_writer import MemoryWriter
from tests.waiting import until

from ottla.common.clock import ManualClock
from ottla.coordinator.effects import CancelTimer, Reply, SetTimer, Step, TimerKey
from ottla.coordinator.runtime import Runtime, as_coordinator_error
from ottla.protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidRequest,
    KafkaStorageError,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RebalanceInProgress,
    UnknownServerError,
)


@dataclass
class Counting:
    """Records are numbers, whose sum is the state; a change is the token of whoever waits."""

    total: int = 0
    waiting: int | None = None
    fired: list[tuple[int, TimerKey]] = field(default_factory=list)
    alarm: TimerKey | None = None

    def loaded(self, now_ms: int) -> Step:
        return Step(timers=(SetTimer(self.alarm, now_ms),)) if self.alarm else Step()

    def add(self, now_ms: int, token: int, number: int) -> Step:
        if number < 0:
            raise InvalidRequest("too small")
        return Step(records=(number,), replies=(Reply(token, self.total + number),))

    def add_many(self, now_ms: int, token: int, *numbers: int) -> Step:
        return Step(records=numbers, replies=(Reply(token, None),))

    def wait(self, now_ms: int, token: int) -> Step:
        return Step(changes=(token,))

    def wake(self, now_ms: int, token: int, response: object) -> Step:
        assert self.waiting is not None
        return Step(replies=(Reply(self.waiting, response), Reply(token, "woken")))

    def set_alarm(self, now_ms: int, token: int, key: TimerKey, after_ms: int) -> Step:
        return Step(timers=(SetTimer(key, now_ms + after_ms),), replies=(Reply(token, None),))

    def cancel_alarm(self, now_ms: int, token: int, key: TimerKey) -> Step:
        return Step(timers=(CancelTimer(key),), replies=(Reply(token, None),))

    def on_timer(self, now_ms: int, key: TimerKey) -> Step:
        self.fired.append((now_ms, key))
        return Step(records=(100,)) if key[0] == "writes" else Step()

    def replay(self, record: int) -> None:
        self.total += record

    def apply(self, change: object) -> None:
        assert isinstance(change, int)
        self.waiting = change


def make(
    writer: MemoryWriter | None = None, machine: Counting | None = None, commit_timeout_ms: int = 5000
) -> tuple[Runtime[Counting], MemoryWriter]:
    writer = writer or MemoryWriter()
    return Runtime(machine or Counting(), writer, ManualClock(), commit_timeout_ms), writer


async def start(
    writer: MemoryWriter | None = None, machine: Counting | None = None, commit_timeout_ms: int = 5000
) -> tuple[Runtime[Counting], MemoryWriter]:
    runtime, writer = make(writer, machine, commit_timeout_ms)
    await runtime.load()
    runtime.activate()
    return runtime, writer


async def test_what_is_committed_at_once_is_answered_at_once() -> None:
    runtime, writer = await start()
    assert runtime.call(Counting.add, 5) == 5
    assert runtime.call(Counting.add, 2) == 7
    assert writer.records == [5, 2]
    assert runtime.parked_count == 0


async def test_a_reply_waits_for_the_commit_of_its_records() -> None:
    runtime, writer = await start()
    writer.holds_back = True
    reply = runtime.call(Counting.add, 5)
    await asyncio.sleep(0)
    assert not reply.done()
    assert runtime.machine.total == 5
    writer.commit()
    assert await reply == 5


async def test_a_reply_without_records_waits_for_those_of_others() -> None:
    runtime, writer = await start()
    writer.holds_back = True
    first = runtime.call(Counting.add, 5)
    second = runtime.call(Counting.wait)
    third = runtime.call(Counting.wake, "good morning")
    await asyncio.sleep(0)
    assert not third.done()
    writer.commit()
    assert await asyncio.gather(first, second, third) == [5, "good morning", "woken"]


async def test_a_parked_request_is_answered_by_a_later_step() -> None:
    runtime, _ = await start()
    parked = runtime.call(Counting.wait)
    assert runtime.parked_count == 1
    assert runtime.call(Counting.wake, "good morning") == "woken"
    assert await parked == "good morning"
    assert runtime.parked_count == 0


async def test_an_error_as_a_reply_is_raised_where_the_request_waits() -> None:
    runtime, _ = await start()
    parked = runtime.call(Counting.wait)
    runtime.call(Counting.wake, RebalanceInProgress("again"))
    with pytest.raises(RebalanceInProgress):
        await parked


async def test_one_who_goes_away_frees_the_token() -> None:
    runtime, _ = await start()
    parked = runtime.call(Counting.wait)
    parked.cancel()
    await asyncio.sleep(0)
    assert runtime.parked_count == 0
    assert runtime.call(Counting.wake, "nobody hears it") == "woken"


async def test_a_refused_event_changes_nothing() -> None:
    runtime, writer = await start()
    with pytest.raises(InvalidRequest):
        runtime.call(Counting.add, -1)
    assert (writer.records, runtime.machine.total, runtime.parked_count) == ([], 0, 0)


async def test_a_step_that_cannot_be_written_has_not_happened() -> None:
    runtime, writer = await start()
    writer.failure = KafkaStorageError("the disk is full")
    with pytest.raises(NotCoordinator):
        runtime.call(Counting.add, 5)
    assert (runtime.machine.total, runtime.parked_count) == (0, 0)
    writer.failure = None
    assert runtime.call(Counting.add, 5) == 5


async def test_what_is_too_much_for_one_batch_is_written_in_several() -> None:
    runtime, writer = await start()
    writer.per_batch = 2
    runtime.call(Counting.add_many, 1, 2, 3, 4, 5)
    assert writer.records == [1, 2, 3, 4, 5]
    assert runtime.machine.total == 15


async def test_a_commit_that_fails_is_reported_to_those_who_wait() -> None:
    runtime, writer = await start()
    writer.holds_back = True
    reply = runtime.call(Counting.add, 5)
    writer.commit(NotEnoughReplicas("1 of 3"))
    with pytest.raises(CoordinatorNotAvailable):
        await reply


async def test_a_commit_that_takes_too_long_is_given_up() -> None:
    runtime, writer = await start(commit_timeout_ms=10)
    writer.holds_back = True
    reply = runtime.call(Counting.add, 5)
    with pytest.raises(CoordinatorNotAvailable, match="not committed in time"):
        await reply
    writer.commit()
    await asyncio.sleep(0)
    assert runtime.machine.total == 5


async def test_loading_replays_the_log_and_refuses_requests_meanwhile() -> None:
    runtime, _ = make(MemoryWriter([1, 2, 3]))
    with pytest.raises(CoordinatorLoadInProgress):
        runtime.call(Counting.add, 5)
    await runtime.load()
    runtime.activate()
    assert runtime.is_active
    assert runtime.call(Counting.add, 4) == 10


async def test_unloading_answers_everyone_and_stops_the_timers() -> None:
    runtime, _ = await start()
    parked = runtime.call(Counting.wait)
    runtime.call(Counting.set_alarm, ("late",), 1)
    runtime.unload()
    with pytest.raises(NotCoordinator):
        await parked
    with pytest.raises(NotCoordinator):
        runtime.call(Counting.add, 1)
    await asyncio.sleep(0.02)
    assert runtime.machine.fired == []
    assert not runtime.is_active


async def test_a_timer_fires_once_it_has_run_out_and_not_if_it_was_cancelled() -> None:
    runtime, _ = await start()
    runtime.call(Counting.set_alarm, ("cancelled",), 1)
    runtime.call(Counting.set_alarm, ("kept",), 10)
    runtime.call(Counting.cancel_alarm, ("cancelled",))
    await until(lambda: runtime.machine.fired)
    assert [key for _, key in runtime.machine.fired] == [("kept",)]


async def test_the_machine_may_set_timers_when_it_has_loaded() -> None:
    runtime, _ = await start(machine=Counting(alarm=("first",)))
    await until(lambda: runtime.machine.fired)


async def test_a_timer_whose_records_cannot_be_written_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.coordinator.runtime.RETRY_MS", 5)
    runtime, writer = await start()
    writer.failure = KafkaStorageError("the disk is full")
    runtime.call(Counting.set_alarm, ("writes",), 0)
    await until(lambda: len(runtime.machine.fired) >= 2)
    writer.failure = None
    await until(lambda: runtime.machine.total == 100)


async def test_a_timer_that_met_a_defect_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One transaction that cannot be aborted must not keep all others from timing out, forever."""
    monkeypatch.setattr("ottla.coordinator.runtime.RETRY_AFTER_DEFECT_MS", 5)
    runtime, writer = await start()
    writer.failure = ZeroDivisionError("nobody had thought of this")
    runtime.call(Counting.set_alarm, ("writes",), 0)
    await until(lambda: len(runtime.machine.fired) >= 2)
    writer.failure = None
    await until(lambda: runtime.machine.total == 100)


def test_what_befalls_the_partition_is_reported_in_the_words_of_a_coordinator() -> None:
    assert isinstance(as_coordinator_error(NotLeaderOrFollower()), NotCoordinator)
    assert isinstance(as_coordinator_error(MessageTooLarge()), UnknownServerError)
    assert isinstance(as_coordinator_error(RebalanceInProgress()), RebalanceInProgress)
    assert isinstance(as_coordinator_error(ZeroDivisionError()), UnknownServerError)
