"""The driver is killed at each named point of the sink's protocol; another one, with other tasks, goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spark.test_sink import write
from tests.spark.topics import Topics, numbers

from ottla.spark.sink.crash_points import AT, FILE, POINTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_driver_loses_and_repeats_nothing(
    point: str, stream: Callable[..., Any], topics: Topics, checkpoint: str, tmp_path: Path
) -> None:
    into, out = topics.create(f"in-{point}"), topics.create(f"out-{point}")
    topics.fill(into, numbers(0, 300))
    crashed = tmp_path / "crashed"
    killed = subprocess.run(
        [sys.executable, "-m", "tests.spark.crash_driver", topics.address, into, out, checkpoint],
        env={**os.environ, AT: f"{point}@1", FILE: str(crashed)},
        cwd=ROOT,
        capture_output=True,
        timeout=200,
        check=False,
    )
    assert crashed.exists(), killed.stderr.decode()[-3_000:]
    assert killed.returncode != 0
    assert set(topics.values(out)) <= set(numbers(0, 300))

    tasks = {"minPartitions": "4"} if POINTS.index(point) % 2 else {}
    write(stream(into, maxOffsetsPerTrigger="100", **tasks), topics.address, checkpoint, topic=out)
    assert topics.values(out) == numbers(0, 300)
    assert topics.open_transactions() == []
