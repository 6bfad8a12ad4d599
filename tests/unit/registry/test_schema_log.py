"""The log under the registry: appends whose outcome is not known, look-ups that catch up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ottla.common.clock import ManualClock
from ottla.registry.errors import RegistryError
from ottla.registry.records import mode_record
from ottla.registry.schema_log import SchemaLog
from ottla.registry.topic import Conflict, LogRecord, Read, RecordTooLarge, Unavailable
from ottla.testing.simulation.loop import SimLoop

MODE = [mode_record(None, "READONLY")]


class ScriptedTopic:
    """A log whose appends end as a test wants them to."""

    reads_before_writes = False

    def __init__(self, *outcomes: str) -> None:
        self.records: list[LogRecord] = []
        self.outcomes = list(outcomes)
        self.ends_asked = 0
        self._position = 0

    def rewind(self) -> None:
        self._position = 0

    async def read(self, timeout_s: float) -> Read:
        await asyncio.sleep(0.01)
        found = self.records[self._position :]
        self._position = len(self.records)
        return Read(found, self._position)

    async def end_offset(self) -> int:
        self.ends_asked += 1
        await asyncio.sleep(0.01)
        return len(self.records)

    def write(self, records: Sequence[tuple[bytes, bytes | None]], write_id: bytes | None) -> None:
        for key, value in records:
            self.records.append(LogRecord(len(self.records), 1, key, value, write_id))

    async def append(
        self, records: Sequence[tuple[bytes, bytes | None]], expected: int, write_id: bytes, now_ms: int
    ) -> int:
        outcome = self.outcomes.pop(0) if self.outcomes else "fine"
        if outcome == "too large":
            raise RecordTooLarge
        if outcome == "lost":
            raise Unavailable("lost")
        if outcome == "others first":
            self.write(records, b"theirs")
        if len(self.records) != expected:
            raise Conflict
        self.write(records, write_id)
        if outcome == "unanswered":
            raise Unavailable("no answer")
        return expected


def run(topic: ScriptedTopic) -> SchemaLog:
    """Append one change; return the log after it."""

    async def main() -> SchemaLog:
        async with SchemaLog(topic, ManualClock(), timeout_s=2.0) as log:
            await log.append(MODE)
            return log

    return SimLoop(1).run(main())


@pytest.mark.parametrize("outcomes", [(), ("lost",), ("unanswered",), ("lost", "lost", "unanswered", "lost")])
def test_a_change_is_made_once_whatever_becomes_of_its_answers(outcomes: tuple[str, ...]) -> None:
    topic = ScriptedTopic(*outcomes)
    log = run(topic)
    assert len(topic.records) == 1
    assert log.state.modes == {None: "READONLY"}
    assert log.state.position == 1


@pytest.mark.parametrize("outcomes", [("others first",), ("lost", "others first")])
def test_a_change_that_somebody_else_made_first_is_a_conflict_even_if_it_looks_the_same(
    outcomes: tuple[str, ...],
) -> None:
    topic = ScriptedTopic(*outcomes)
    with pytest.raises(Conflict):
        run(topic)
    assert [each.write_id for each in topic.records] == [b"theirs"]


def test_what_is_not_known_in_time_or_too_large_is_reported() -> None:
    with pytest.raises(RegistryError) as late:
        run(ScriptedTopic(*["lost"] * 1000))
    assert late.value.code == 50002
    with pytest.raises(RegistryError) as large:
        run(ScriptedTopic("too large"))
    assert large.value.code == 42209


def test_look_ups_at_the_same_time_ask_for_the_end_together_and_none_gets_an_old_one() -> None:
    topic = ScriptedTopic()

    async def main() -> None:
        async with SchemaLog(topic, ManualClock(), timeout_s=2.0) as log:
            first = asyncio.create_task(log.catch_up())
            await asyncio.sleep(0.005)  # the first request is in flight
            topic.write([each.encode() for each in MODE], None)
            states = await asyncio.gather(first, *(log.catch_up() for _ in range(50)))
            assert all(state.modes == {None: "READONLY"} for state in states[1:])
        assert topic.ends_asked == 2

    SimLoop(1).run(main())
