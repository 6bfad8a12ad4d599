"""What is remembered of a registry's answers, and when it is asked again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.api.schema_validation.known_schemas import KNOWN_S, MAX_KNOWN, KnownSchema, KnownSchemas
from ottla.api.schema_validation.registry_http import RegistryUnavailable


class FakeRegistry:
    """Answers about one schema, and counts."""

    def __init__(self) -> None:
        self.subjects: list[str] = []
        self.is_away = False
        self.asked = 0

    async def get(self, path: str) -> tuple[int, Any]:
        await asyncio.sleep(0)
        if self.is_away:
            raise RegistryUnavailable("away")
        if path.endswith("/subjects"):
            self.asked += 1
            return (200, list(self.subjects)) if self.subjects else (404, {"error_code": 40403})
        return 200, {"schema": '"string"'}


def is_good(schema: KnownSchema) -> bool:
    return "a" in schema.subjects


async def test_a_good_answer_is_asked_for_once() -> None:
    registry, now = FakeRegistry(), [0.0]
    known = KnownSchemas(registry, lambda: now[0])
    registry.subjects = ["a"]
    assert known.get(1, is_good) is None
    await asyncio.gather(*(known.ask(1, is_good) for _ in range(5)))
    assert registry.asked == 1
    assert known.get(1, is_good) is not None
    now[0] = KNOWN_S * 1000 + 1
    assert known.get(1, is_good) is None
    registry.is_away = True
    assert is_good(await known.ask(1, is_good)), "an old answer is better than none"


async def test_a_bad_answer_does_not_count_for_the_next_batch() -> None:
    registry = FakeRegistry()
    loop = asyncio.get_running_loop()
    known = KnownSchemas(registry, lambda: loop.time() * 1000)
    assert not is_good(await known.ask(1, is_good))
    late = asyncio.create_task(known.ask(1, is_good))
    registry.subjects = ["a"]
    assert is_good(await known.ask(1, is_good))
    assert is_good(await late)
    assert registry.asked == 2


async def test_a_request_in_flight_is_too_early_for_a_bad_answer() -> None:
    registry = FakeRegistry()
    now = [1000.0]
    known = KnownSchemas(registry, lambda: now[0])
    first = asyncio.create_task(known.ask(1, is_good))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    now[0] += 1000
    second = asyncio.create_task(known.ask(1, is_good))
    await first
    registry.subjects = ["a"]
    assert is_good(await second)


async def test_without_an_answer_there_is_an_error() -> None:
    registry = FakeRegistry()
    registry.is_away = True
    known = KnownSchemas(registry, lambda: 0.0)
    with pytest.raises(RegistryUnavailable):
        await known.ask(1, is_good)


async def test_the_number_of_schemas_is_bounded() -> None:
    registry = FakeRegistry()
    registry.subjects = ["a"]
    known = KnownSchemas(registry, lambda: 0.0)
    await asyncio.gather(*(known.ask(each, is_good) for each in range(MAX_KNOWN + 5)))
    assert sum(known.get(each, is_good) is not None for each in range(MAX_KNOWN + 5)) == MAX_KNOWN
