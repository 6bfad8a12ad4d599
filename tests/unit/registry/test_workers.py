"""Hostile schemas: each costs its client an error, and others nothing."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.common.tasks import cancel_and_wait
from ottla.registry.errors import RegistryError
from ottla.registry.jobs import InvalidSchema, JobFailed, Parse
from ottla.registry.registration import RegisterRequest, Source
from ottla.registry.service import Registry
from ottla.registry.state import RegistryState
from ottla.registry.workers import LARGE_CHARS, JobTimedOut, Workers, WorkersBusy


@dataclass(frozen=True, slots=True)
class Hang:
    """A job that never ends."""

    size: int = 1

    def run(self) -> None:
        while True:
            pass


@dataclass(frozen=True, slots=True)
class Slow:
    """A job that takes its time."""

    number: int
    size: int = 1

    def run(self) -> int:
        time.sleep(0.8)
        return self.number


def avro(text: str) -> Parse:
    return Parse(Source("AVRO", text))


async def test_a_job_that_hangs_is_ended_and_the_next_ones_are_done() -> None:
    hang: Any = Hang()
    async with Workers(count=1, deadline_s=0.5) as workers:
        with pytest.raises(JobTimedOut):
            await workers.run(hang)
        workers._deadline_s = 30
        jobs = [avro(f'{{"type":"fixed","name":"F{n}","size":1}}') for n in range(5)]
        results = await asyncio.gather(*map(workers.run, jobs))
        assert [json.loads(each)["name"] for each in results] == [f"F{n}" for n in range(5)]


@pytest.mark.parametrize(
    "source",
    [
        Source("AVRO", "[" * 100_000),
        Source("AVRO", '{"type":"array","items":' * 3_000 + '"int"' + "}" * 3_000),
        Source("JSON", '{"items":' * 5_000 + "{}" + "}" * 5_000),
        Source("JSON", "not json"),
        Source("PROTOBUF", "message A {" * 5_000),
        Source("XML", "<a/>"),
    ],
)
async def test_hostile_schemas_are_refused_in_words(source: Source) -> None:
    async with Workers(count=1, deadline_s=20) as workers:
        with pytest.raises(InvalidSchema):
            await workers.run(Parse(source))
        assert await workers.run(avro('"int"')) == '"int"'


async def test_results_are_kept_within_a_limit() -> None:
    async with Workers(count=1, deadline_s=20) as workers:
        first = await workers.run(avro('"int"'))
        assert await workers.run(avro('"int"')) is first
        with pytest.raises(InvalidSchema):
            await workers.run(avro('"nix"'))
        with pytest.raises(InvalidSchema):
            await workers.run(avro('"nix"'))
        assert len(workers._cache) == 2


async def test_a_job_that_waited_for_others_has_its_whole_deadline() -> None:
    slow: Any = [Slow(number) for number in range(4)]
    async with Workers(count=1, deadline_s=2.4) as workers:
        assert await asyncio.gather(*map(workers.run, slow)) == [0, 1, 2, 3]


async def test_a_wait_in_vain_is_retriable_and_not_an_invalid_schema() -> None:
    hang: Any = Hang()
    async with Workers(count=1, deadline_s=30, wait_s=0.1) as workers:
        hanging = asyncio.create_task(workers.run(hang))
        await asyncio.sleep(0)
        with pytest.raises(WorkersBusy):
            await workers.run(avro('"int"'))
        log: Any = None
        with pytest.raises(RegistryError) as caught:
            await Registry(log, workers)._process(avro('"int"'))
        assert caught.value.code == 50002
        await cancel_and_wait(hanging)


async def test_large_jobs_leave_a_process_to_small_ones() -> None:
    large: list[Any] = [Hang(LARGE_CHARS + 1), Hang(LARGE_CHARS + 2)]
    async with Workers(count=2, deadline_s=30) as workers:
        hanging = [asyncio.create_task(workers.run(each)) for each in large]
        await asyncio.sleep(0)
        assert await workers.run(avro('"int"')) == '"int"'
        for each in hanging:
            each.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
    assert workers._large._value == 1


class WrittenByOthers:
    """A log to which others write all the time."""

    def __init__(self) -> None:
        self.state = RegistryState()

    async def catch_up(self) -> RegistryState:
        self.state.position += 1
        return self.state


@pytest.mark.parametrize("why", [JobTimedOut, WorkersBusy, JobFailed])
async def test_a_schema_that_takes_too_long_is_not_tried_again_and_again(why: type[Exception]) -> None:
    class Failing:
        jobs = 0

        async def run(self, job: Any) -> Any:
            self.jobs += 1
            raise why

    log: Any = WrittenByOthers()
    workers: Any = Failing()
    with pytest.raises(RegistryError):
        await Registry(log, workers).register("s", RegisterRequest('"int"', None, (), None, None))
    assert workers.jobs == 1
