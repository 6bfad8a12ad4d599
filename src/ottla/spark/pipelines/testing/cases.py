"""Tests of a pipeline: sample records in, expected records out, compared. Pure code and files; no Spark.

    tests/<case>/input/<topic or dataset>.jsonl       one record or row per line
    tests/<case>/expected/<topic or dataset>.jsonl

A line is the value of a record, JSON or not. To give more, write it as an object with `value` and any of
`key`, `headers` (an object), `timestamp` (ms). Expected lines are compared with the results as JSON, in any
order; of a record, only the fields that the line gives.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.spark.pipelines.problems import PipelineProblem, Place

ENVELOPE = {"key", "value", "headers", "timestamp"}
MAX_SHOWN = 10


@dataclass(frozen=True)
class Sample:
    """One record: an input, or a result."""

    value: Any
    key: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    timestamp: int | None = None
    given: frozenset[str] = frozenset({"value"})
    """The fields that the line gives."""

    def value_bytes(self) -> bytes | None:
        """Return the value to send: text unchanged, other JSON in one line."""
        if self.value is None:
            return None
        return (self.value if isinstance(self.value, str) else json.dumps(self.value)).encode()

    def key_bytes(self) -> bytes | None:
        """Return the key to send."""
        if self.key is None:
            return None
        return (self.key if isinstance(self.key, str) else json.dumps(self.key)).encode()


@dataclass(frozen=True)
class Case:
    """A folder with samples, by topic or dataset."""

    name: str
    inputs: dict[str, list[Sample]]
    expected: dict[str, list[Sample]]


def find_cases(folder: Path) -> list[Case]:
    """Return the cases under `folder`/tests, by name."""
    found = [
        Case(each.name, _read_folder(each / "input"), _read_folder(each / "expected"))
        for each in sorted((folder / "tests").glob("*"))
        if (each / "expected").is_dir()
    ]
    if not found:
        raise PipelineProblem(
            f"there are no tests in {folder / 'tests'}",
            "a test is a folder: tests/NAME/input/TOPIC.jsonl and tests/NAME/expected/TOPIC.jsonl",
            "an example: ottla pipeline init FOLDER",
        )
    return found


def read_samples(text: str, file: str) -> list[Sample]:
    """Return the samples of a file, one per line, skipping empty lines."""
    return [
        _sample(line, Place(file, number)) for number, line in enumerate(text.splitlines(), 1) if line.strip()
    ]


def compare(expected: Sequence[Sample], actual: Sequence[Sample]) -> list[str]:
    """Return the differences as lines: missing and unexpected records."""
    left = list(actual)
    missing = []
    for wanted in expected:
        match = next((each for each in left if _fits(wanted, each)), None)
        if match is None:
            missing.append(wanted)
        else:
            left.remove(match)
    shown = [f"- {_line(each, each.given)}" for each in missing]
    given = frozenset(set().union(*(each.given for each in expected)) or {"value"})
    shown += [f"+ {_line(each, given)}" for each in left]
    more = len(shown) - MAX_SHOWN
    return [*shown[:MAX_SHOWN], *([f"... and {more} more"] if more > 0 else [])]


def _fits(wanted: Sample, found: Sample) -> bool:
    return all(getattr(wanted, name) == getattr(found, name) for name in wanted.given)


def _line(sample: Sample, given: Iterable[str]) -> str:
    names = sorted(given)
    if names == ["value"]:
        return json.dumps(sample.value, ensure_ascii=False)
    return json.dumps({name: getattr(sample, name) for name in names}, ensure_ascii=False)


def _sample(line: str, place: Place) -> Sample:
    try:
        value = json.loads(line)
    except ValueError:
        return Sample(line)
    if isinstance(value, dict) and "value" in value and set(value) <= ENVELOPE:
        headers = value.get("headers") or {}
        if not isinstance(headers, dict):
            raise PipelineProblem('headers are written {"name": "value"}', place=place)
        return Sample(
            value["value"], value.get("key"), headers, value.get("timestamp"), given=frozenset(value)
        )
    return Sample(value)


def decoded(data: bytes | None) -> Any:
    """Return a value or key of a result: as JSON if it is valid, else as text."""
    if data is None:
        return None
    text = data.decode("utf-8", errors="backslashreplace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read_folder(folder: Path) -> dict[str, list[Sample]]:
    return {
        file.stem: read_samples(file.read_text(encoding="utf-8"), str(file))
        for file in sorted(folder.glob("*.jsonl"))
    }
