"""Hostile schemas: each costs its client an error, and others nothing."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.registry.jobs import InvalidSchema, Parse
from ottla.registry.registration import Source
from ottla.registry.workers import JobTimedOut, Workers


@dataclass(frozen=True, slots=True)
class Hang:
    """A job that never ends."""

    size: int = 1

    def run(self) -> None:
        while True:
            pass


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
