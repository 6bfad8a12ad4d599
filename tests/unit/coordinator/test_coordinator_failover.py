"""A coordinator answers only while it leads, and only what is committed."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.coordinator.coordinator_bench import CoordinatorBench
from tests.unit.coordinator.memory_writer import MemoryWriter

from ottla.common.clock import ManualClock
from ottla.coordinator.effects import Reply, Step
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import FetchRequest
from ottla.coordinator.runtime import Runtime
from ottla.protocol.errors import NotCoordinator


@dataclass
class Remembers:
    """Replays records, and tells how many."""

    records: list[Any] = field(default_factory=list)

    def loaded(self, now_ms: int) -> Step:
        return Step()

    def on_timer(self, now_ms: int, key: object) -> Step:
        return Step()

    def replay(self, record: Any) -> None:
        self.records.append(record)

    def apply(self, change: object) -> None:
        raise AssertionError(change)

    def count(self, now_ms: int, token: int) -> Step:
        return Step(replies=(Reply(token, len(self.records)),))


async def test_loaded_state_is_not_reported_before_it_is_committed() -> None:
    writer = MemoryWriter(["one", "two"])
    asked: list[int] = []

    def committed(offset: int) -> asyncio.Future[None] | None:
        asked.append(offset)
        return MemoryWriter.committed(writer, offset)

    writer.committed = committed  # type: ignore[method-assign]
    runtime = Runtime(Remembers(), writer, ManualClock(), commit_timeout_ms=5_000)
    await runtime.load()
    runtime.activate()
    writer.holds_back = True
    answer = runtime.call(Remembers.count)
    assert not answer.done()
    assert asked == [2], "the end of what was loaded"
    writer.commit()
    assert await answer == 2


async def test_a_broker_without_a_session_coordinates_nothing_until_it_leads_again() -> None:
    bench = CoordinatorBench()
    await bench.start()
    await bench.groups.find("g")
    await bench.loaded()
    bench.groups.call("g", GroupMachine.fetch, FetchRequest("g", None))
    bench.partitions.fence()
    with pytest.raises(NotCoordinator):
        bench.groups.call("g", GroupMachine.fetch, FetchRequest("g", None))
    await bench.partitions.unfence(bench.cluster.image)
    bench.groups.call("g", GroupMachine.fetch, FetchRequest("g", None))
    await bench.stop()


async def test_a_partition_that_is_led_only_later_is_loaded_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.coordinator.partitions.LEAD_AGAIN_S", 0.01)
    bench = CoordinatorBench()
    await bench.start()
    bench.partitions.fence()
    await bench.groups.create_topic()
    with pytest.raises(NotCoordinator):
        bench.groups.call("g", GroupMachine.fetch, FetchRequest("g", None))
    await bench.partitions.unfence(bench.cluster.image)
    async with asyncio.timeout(10):
        while not list(bench.groups._shards):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    await bench.loaded()
    bench.groups.call("g", GroupMachine.fetch, FetchRequest("g", None))
    await bench.stop()
