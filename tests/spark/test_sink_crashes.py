"""A driver is killed with queries at each named point of the sink's protocol; another one, with other tasks,
goes on with each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from tests.integration.clients import wait_until
from tests.spark.test_sink import write
from tests.spark.topics import Topics, numbers

from ottla.common.ids import new_uuid
from ottla.spark.sink.crash_points import AT, FOLDER, POINTS, place

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
AT_THEIR_POINTS_WITHIN_S = 200.0
BATCH = 1


@dataclass
class Crashed:
    """A query that was at its point when its driver was killed."""

    into: str
    out: str
    checkpoint: Path
    query_id: str
    was_there: bool = False

    def prepare(self, topics: Topics) -> None:
        """Fill its topic, and give it the id by which its point is known."""
        topics.fill(self.into, numbers(0, 300))
        self.checkpoint.mkdir()
        (self.checkpoint / "metadata").write_text(json.dumps({"id": self.query_id}))


@pytest.fixture(scope="module")
def crashed(topics: Topics, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Crashed]:
    """All queries, by the point at which they were when the one JVM in which they ran was killed."""
    folder = tmp_path_factory.mktemp("crashed")
    reached = folder / "reached"
    reached.mkdir()
    queries = {
        point: Crashed(
            topics.create(f"in-{point}"), topics.create(f"out-{point}"), folder / point, str(new_uuid())
        )
        for point in POINTS
    }
    for each in queries.values():
        each.prepare(topics)
    places = ",".join(place(point, BATCH, each.query_id) for point, each in queries.items())
    ways = json.dumps([(each.into, each.out, str(each.checkpoint)) for each in queries.values()])
    with (folder / "log").open("wb") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.crash_driver", topics.address, ways],
            env={**os.environ, AT: places, FOLDER: str(reached)},
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(
            lambda: len(list(reached.iterdir())) == len(POINTS) or driver.poll() is not None,
            "every query to be at its point",
            AT_THEIR_POINTS_WITHIN_S,
        )
        assert driver.poll() is None, (folder / "log").read_text()[-3_000:]
        [jvm] = [each for each in psutil.Process(driver.pid).children() if each.name() == "java"]
        jvm.kill()
        assert driver.wait(60) != 0
    finally:
        driver.kill()
        driver.wait()
    for point, each in queries.items():
        each.was_there = (reached / point).exists()
    return queries


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_driver_loses_and_repeats_nothing(
    point: str, crashed: dict[str, Crashed], stream: Callable[..., Any], topics: Topics
) -> None:
    query = crashed[point]
    assert query.was_there
    assert set(topics.values(query.out)) <= set(numbers(0, 300))

    tasks = {"minPartitions": "4"} if POINTS.index(point) % 2 else {}
    rows = stream(query.into, maxOffsetsPerTrigger="100", **tasks)
    write(rows, topics.address, str(query.checkpoint), topic=query.out)
    assert topics.values(query.out) == numbers(0, 300)
    assert [each for each in topics.open_transactions() if query.query_id in each] == []
