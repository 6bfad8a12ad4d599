"""Several registry processes over one simulated partition, with lost answers, new leaders and crashes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.common.clock import ManualClock
from ottla.common.tasks import cancel_and_wait
from ottla.registry import decisions
from ottla.registry.errors import RegistryError
from ottla.registry.jobs import Job
from ottla.registry.records import decode
from ottla.registry.registration import RegisterRequest
from ottla.registry.schema_log import SchemaLog
from ottla.registry.service import Registry
from ottla.registry.state import RegistryState
from ottla.registry.topic import Conflict, LogRecord, Read, Unavailable
from ottla.registry.worker_process import outcome_of

SUBJECTS = ("a", "b", "c", ":.x:a")


def schema_text(number: int) -> str:
    return f'{{"type":"record","name":"R{number}","fields":[]}}'


@dataclass
class SimLog:
    """The partition: what is committed, and what the leader has beyond that."""

    chance: random.Random
    committed: list[LogRecord] = field(default_factory=list)
    tail: list[LogRecord] = field(default_factory=list)
    epoch: int = 0
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def end(self) -> int:
        return len(self.committed) + len(self.tail)

    def commit(self, up_to: int) -> None:
        count = up_to - len(self.committed)
        if count > 0:
            self.committed += self.tail[:count]
            del self.tail[:count]
            self.moved.set()
            self.moved = asyncio.Event()

    def change_leader(self) -> None:
        """Elect a leader that may not have what is not committed."""
        self.epoch += 1
        if self.chance.random() < 0.5:
            self.tail.clear()
        else:
            self.commit(self.end)

    def compacted(self, end: int) -> list[LogRecord]:
        """Return what compaction leaves of the records before `end`."""
        last = {record.key: record.offset for record in self.committed[:end]}
        return [each for each in self.committed[:end] if last[each.key] == each.offset]


class SimTopic:
    """One process's view of the partition."""

    reads_before_writes = False

    def __init__(self, log: SimLog) -> None:
        self._log = log
        self._chance = log.chance
        self._position = 0
        self._compacted_to = 0
        self.rewind()

    def rewind(self) -> None:
        self._position = 0
        self._compacted_to = self._chance.randint(0, len(self._log.committed))

    async def _network(self) -> None:
        await asyncio.sleep(self._chance.random() * 0.02)

    async def read(self, timeout_s: float) -> Read:
        await self._network()
        if self._chance.random() < 0.05:
            raise Unavailable("the connection broke")
        if self._position < self._compacted_to:
            records = self._log.compacted(self._compacted_to)
            self._position = self._compacted_to
            return Read(records, self._position)
        if self._position == len(self._log.committed):
            try:
                async with asyncio.timeout(timeout_s):
                    await self._log.moved.wait()
            except TimeoutError:
                pass
        records = self._log.committed[self._position :]
        self._position = len(self._log.committed)
        return Read(records, self._position)

    async def end_offset(self) -> int:
        await self._network()
        if self._chance.random() < 0.05:
            raise Unavailable("no answer")
        end = len(self._log.committed)
        await self._network()
        return end

    async def append(
        self, records: Sequence[tuple[bytes, bytes | None]], expected: int, write_id: bytes, now_ms: int
    ) -> int:
        outcome = self._chance.random()
        if outcome < 0.08:
            raise Unavailable("the request was lost")
        if outcome < 0.16:  # the client gives up, the request arrives later
            delay = self._chance.random() * 0.5
            asyncio.get_running_loop().call_later(
                delay, self._arrive_late, records, expected, write_id, now_ms
            )
            raise Unavailable("no answer in time")
        await self._network()
        end = self._arrive(records, expected, write_id, now_ms)
        if end is None:
            raise Conflict
        epoch = self._log.epoch
        await self._network()
        if self._log.epoch != epoch:
            raise Unavailable("the leader changed")
        if self._chance.random() < 0.1:
            raise Unavailable("not committed in time")
        self._log.commit(end)
        await self._network()
        if self._chance.random() < 0.08:
            raise Unavailable("the answer was lost")
        return expected

    def _arrive(
        self, records: Sequence[tuple[bytes, bytes | None]], expected: int, write_id: bytes, now_ms: int
    ) -> int | None:
        if self._log.end != expected:
            return None
        for offset, (key, value) in enumerate(records, expected):
            self._log.tail.append(LogRecord(offset, now_ms, key, value, write_id))
        return self._log.end

    def _arrive_late(
        self, records: Sequence[tuple[bytes, bytes | None]], expected: int, write_id: bytes, now_ms: int
    ) -> None:
        end = self._arrive(records, expected, write_id, now_ms)
        if end is not None:
            self._log.commit(end)


class InlineWorkers:
    """Parses and checks in place, after a moment."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    async def run(self, job: Job) -> Any:
        await asyncio.sleep(self._chance.random() * 0.01)
        outcome = outcome_of(job)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@dataclass
class Acked:
    """The responses to clients, in order."""

    registered: list[tuple[str, int, int, str]] = field(default_factory=list)
    """Subject, version, id and text of each."""
    refused: int = 0
    unknown: int = 0
    conflicts: int = 0


class World:
    """Processes with their clients, and trouble."""

    def __init__(self, seed: int, processes: int = 3, clients: int = 3, calls: int = 25) -> None:
        self.chance = random.Random(seed)
        self.log = SimLog(self.chance)
        self.acked = Acked()
        self._processes, self._clients, self._calls = processes, clients, calls
        self._done = False

    async def run(self) -> None:
        """Run until every client has made its calls, then let everything settle."""
        trouble = asyncio.create_task(self._trouble())
        await asyncio.gather(*(self._process() for _ in range(self._processes)))
        self._done = True
        await trouble
        self.log.commit(self.log.end)

    async def _trouble(self) -> None:
        while not self._done:
            await asyncio.sleep(self.chance.random() * 0.5)
            self.log.change_leader()

    async def _process(self) -> None:
        """Run a process; let it crash now and then, and start another in its place."""
        left = [self._calls] * self._clients
        while any(left):
            life = asyncio.create_task(self._live(left))
            await asyncio.wait([life], timeout=self.chance.random() * 4)
            await cancel_and_wait(life)

    async def _live(self, left: list[int]) -> None:
        schema_log = SchemaLog(SimTopic(self.log), ManualClock(), timeout_s=3.0)
        workers: Any = InlineWorkers(self.chance)
        async with schema_log:
            registry = Registry(schema_log, workers)
            await asyncio.gather(*(self._client(registry, left, number) for number in range(self._clients)))
            self.acked.conflicts += schema_log.conflicts

    async def _client(self, registry: Registry, left: list[int], number: int) -> None:
        while left[number]:
            left[number] -= 1
            try:
                await self._call(registry)
            except RegistryError as error:
                if error.status == 500:
                    self.acked.unknown += 1
                else:
                    self.acked.refused += 1

    async def _call(self, registry: Registry) -> None:
        subject = self.chance.choice(SUBJECTS)
        what = self.chance.random()
        if what < 0.65:
            text = schema_text(self.chance.randrange(12))
            found = await registry.register(subject, RegisterRequest(text), force=True)
            self.acked.registered.append((subject, found.version, found.id, text))
        elif what < 0.75:
            await registry.change(lambda state: decisions.delete_version(state, subject, -1, permanent=False))
        elif what < 0.85:
            await registry.change(lambda state: decisions.delete_subject(state, subject, permanent=False))
        else:
            await registry.change(lambda state: decisions.delete_subject(state, subject, permanent=True))


def replayed(records: Sequence[LogRecord]) -> RegistryState:
    """Return the state that records add up to."""
    state = RegistryState()
    for record in records:
        state.replay(decode(record.key, record.value), record.offset, record.timestamp)
    return state


def contents(state: RegistryState) -> dict[str, Any]:
    """Return everything in a state that clients can see, for comparison."""
    return {
        "subjects": {name: dict(versions) for name, versions in sorted(state.subjects.items()) if versions},
        "configs": {name: state.configs[name] for name in sorted(state.configs, key=str)},
        "modes": {name: state.modes[name] for name in sorted(state.modes, key=str)},
        "contexts": sorted(state.contexts),
        "max_ids": dict(sorted(state.max_ids.items())),
        "uses": {
            (context, number): [
                (each.subject, each.version) for each in state.uses_of(context, number, deleted=True)
            ]
            for context in state.all_contexts()
            for number in range(1, state.max_ids.get(context, 0) + 1)
        },
    }
