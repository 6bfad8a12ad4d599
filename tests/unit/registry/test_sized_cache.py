"""What is remembered of schemas and names takes a limited amount of memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ottla.registry import jobs, subjects
from ottla.registry.jobs import Parse
from ottla.registry.registration import Source
from ottla.registry.sized_cache import SizedCache
from ottla.registry.worker_process import outcome_of


def test_the_least_recently_used_values_are_forgotten_by_number_and_by_size() -> None:
    cache: SizedCache[str, int] = SizedCache(3, 100)
    for number, name in enumerate("abc"):
        assert cache.get(name, 10, lambda number=number: number) == number  # type: ignore[misc]
    assert cache["a"] == 0
    cache.put("d", 3, 10)
    assert [name for name in "abcd" if name in cache] == ["a", "c", "d"]
    cache.put("e", 4, 85)
    assert ([name for name in "abcde" if name in cache], cache.size) == (["d", "e"], 95)
    cache.put("f", 5, 101)
    assert "f" not in cache
    assert len(cache) == 2
    cache.put("e", 6, 20)
    assert (cache["e"], cache.size) == (6, 30)
    cache.clear()
    assert (len(cache), cache.size) == (0, 0)


def schema(number: int, chars: int) -> Parse:
    return Parse(Source("JSON", json.dumps({"title": f"{number}", "description": "x" * chars})))


def test_large_schemas_are_not_all_kept_parsed() -> None:
    jobs.forget()
    for number in range(12):
        schema(number, 1_000_000).run()
    assert 1_000_000 < jobs._kept.size <= jobs.MAX_KEPT_CHARS


@dataclass(frozen=True, slots=True)
class Hungry:
    """A job that finds memory only if nothing is kept."""

    size: int = 1

    def run(self) -> str:
        if len(jobs._kept):
            raise MemoryError
        return "done"


def test_a_job_without_memory_is_repeated_when_earlier_schemas_are_forgotten() -> None:
    schema(0, 10).run()
    hungry: Any = Hungry()
    assert outcome_of(hungry) == "done"


def test_long_names_of_subjects_are_not_kept() -> None:
    before = subjects._parse_kept.cache_info().currsize
    name = "x" * 1_000_000
    for number in range(3):
        assert subjects.parse_subject(f":.a:{number}{name}").context == ".a"
    assert subjects._parse_kept.cache_info().currsize == before
