"""The command line as a user runs it; each of these starts a Spark of its own, so there are few."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from ottla.common.java import JavaNotFound, find_java

OTTLA = [sys.executable, "-m", "ottla.cli", "pipeline"]


@pytest.fixture(autouse=True)
def java():
    try:
        find_java()
    except JavaNotFound as error:
        pytest.skip(str(error))


def ottla(*arguments, cwd):
    return subprocess.run([*OTTLA, *arguments], cwd=cwd, capture_output=True, text=True, timeout=280)


@pytest.mark.slow
def test_a_new_project_passes_its_test_without_a_broker(tmp_path):
    assert ottla("init", "shop", cwd=tmp_path).returncode == 0
    done = ottla("test", "shop", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "ok  minutes\n"), done.stderr
    assert done.stderr == "1 test passed\n"


@pytest.mark.slow
def test_a_running_pipeline_can_be_watched_and_stopped_from_another_terminal(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "1.json").write_text('{"n": 1}\n{"n": 2}\n')
    (tmp_path / "p.py").write_text(
        "from ottla.spark import pipelines as dp\n\n"
        "@dp.table\n"
        "def numbers():\n"
        f"    return spark.readStream.schema('n INT').json('{data}')\n"
    )
    with subprocess.Popen(
        [*OTTLA, "run", "p.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        assert driver.stderr is not None
        first = json.loads(driver.stdout.readline())
        assert (first["flow"], first["rows"], first["batch"]) == ("numbers", 2, 0)
        status = json.loads(ottla("status", "p", "--format", "json", cwd=tmp_path).stdout)
        assert (status["state"], status["pid"]) == ("running", driver.pid)
        second = ottla("run", "p.py", cwd=tmp_path)
        assert second.returncode == 1
        assert "is already running" in second.stderr
        driver.send_signal(signal.SIGTERM)
        said = driver.stderr.read()
        assert driver.wait(60) == 0, said
    assert said.splitlines()[0] == "starting Spark"
    assert said.splitlines()[-1] == "p: stopped"
    assert "Traceback" not in said
    assert ottla("list", cwd=tmp_path).stdout.splitlines()[1].split()[:2] == ["p", "stopped"]
