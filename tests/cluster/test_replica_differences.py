"""Replicas that differ are found, wherever they part."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.replicas import differences
from tests.cluster.wire import batch_of

from ottla.protocol.records.batch import stamp

HERE = ("t", 0)


def batch(number: int, value: bytes = b"value") -> bytes:
    made = bytearray(batch_of([value], timestamps=[1_700_000_000_000]))
    stamp(memoryview(made), number, 0)
    return bytes(made)


def replica(folder: Path, number: int, *segments: tuple[int, bytes]) -> Path:
    for base_offset, content in segments:
        path = folder / f"broker-{number}" / "t-0" / f"{base_offset:020}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder / f"broker-{number}"


def test_replicas_may_have_rolled_at_different_places(tmp_path: Path) -> None:
    one = replica(tmp_path, 1, (0, batch(0) + batch(1)), (2, batch(2)))
    two = replica(tmp_path, 2, (0, batch(0)), (1, batch(1) + batch(2)))
    assert differences({1: one, 2: two}, HERE) == []


@pytest.mark.parametrize(
    "other",
    [batch(0), batch(0) + batch(1, b"other"), batch(0) + batch(1) + batch(2), batch(0) + batch(2)],
    ids=["shorter", "another-value", "longer", "gap"],
)
def test_any_difference_is_reported(tmp_path: Path, other: bytes) -> None:
    one = replica(tmp_path, 1, (0, batch(0) + batch(1)))
    two = replica(tmp_path, 2, (0, other))
    assert any("part at byte" in problem for problem in differences({1: one, 2: two}, HERE))
