"""The command line as a user runs it; each of these starts a Spark of its own, so there are few."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request

import pytest
from tests.integration.console_stage import RunningConsole
from tests.waiting import wait_until

from ottla.common.java import JavaNotFound, find_java
from ottla.testing.local_broker import OttlaBroker

ROOT = "ottla-pipelines"
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


def scraped(url):
    with urllib.request.urlopen(url) as answer:
        return answer.read().decode()


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
        remote = json.loads(ottla("status", status["url"], "--format", "json", cwd=data).stdout)
        assert (remote["name"], remote["flows"][0]["rows"]) == ("p", 2)
        # Spark tells its listeners about a batch later than it writes the batch's progress.
        rows = 'ottla_spark_query_rows_total{id="'
        wait_until(lambda: rows in scraped(f"{status['url']}/metrics"), "the rows in /metrics")
        assert ottla("pause", "p", cwd=tmp_path).stderr.splitlines() == ["p: paused"]
        (data / "2.json").write_text('{"n": 3}\n')
        assert ottla("resume", "p", cwd=tmp_path).stderr.splitlines() == ["p: running"]
        again = json.loads(driver.stdout.readline())
        assert (again["flow"], again["rows"], again["batch"]) == ("numbers", 3, 1)
        second = ottla("run", "p.py", cwd=tmp_path)
        assert second.returncode == 1
        assert "is already running" in second.stderr
        operate_with_the_console(tmp_path, data, driver)
        said = driver.stderr.read()
        assert driver.wait(60) == 0, said
    assert said.splitlines()[0] == "starting Spark"
    assert said.splitlines()[-1] == "p: stopped"
    assert "Traceback" not in said
    assert ottla("list", cwd=tmp_path).stdout.splitlines()[1].split()[:2] == ["p", "stopped"]


def operate_with_the_console(folder, data, driver):
    """Pause, resume, restart and stop a pipeline as the buttons of the console do."""
    with (
        OttlaBroker() as broker,
        RunningConsole(broker.bootstrap_servers, pipelines=folder / ROOT) as console,
        console.api() as api,
    ):

        def ask(what):
            answer = api.post(f"/pipelines/p/{what}", json={})
            assert answer.status_code == 200, answer.text

        def is_now(state):
            found = api.get("/pipelines/p").json()
            return found["pipeline"]["state"] == state and all(
                each["state"] == state for each in found["flows"]
            )

        ask("pause")
        wait_until(lambda: is_now("paused"), "the driver to pause")
        (data / "3.json").write_text('{"n": 4}\n')
        ask("resume")
        assert json.loads(driver.stdout.readline())["rows"] == 4
        wait_until(lambda: api.get("/pipelines").json()["pipelines"][0]["rows"] == 4, "its rows to be shown")
        started = api.get("/pipelines/p").json()["pipeline"]["started"]
        ask("restart")
        wait_until(
            lambda: api.get("/pipelines/p").json()["pipeline"]["started"] != started and is_now("running"),
            "the driver to take its files again",
        )
        ask("stop")
        wait_until(lambda: is_now("stopped"), "the driver to stop")
        assert api.post("/pipelines/p/pause", json={}).status_code == 422


def test_several_pipelines_share_one_driver(tmp_path):
    for name in ("east", "west"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.json").write_text('{"n": 1}\n{"n": 2}\n')
        (tmp_path / f"{name}.py").write_text(
            "from pyspark.sql import SparkSession\n"
            "from ottla.spark import pipelines as dp\n\n"
            "spark = SparkSession.active()\n\n"
            "@dp.temporary_view\n"
            "def numbers():\n"
            f"    return spark.readStream.schema('n INT').json('{tmp_path / name}')\n\n"
            "@dp.table\n"
            "def doubled():\n"
            f"    return spark.readStream.table('numbers').selectExpr('n * 2 AS n', '\"{name}\" AS name')\n"
        )
    (tmp_path / "broken.py").write_text(
        "from ottla.spark import pipelines as dp\n\n@dp.table\ndef broken():\n    return 1 // 0\n"
    )
    done = ottla("run", "east.py", "west.py", "broken.py", "--available-now", cwd=tmp_path)
    assert done.returncode == 1
    assert "broken.py:5: ZeroDivisionError" in done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(each["flow"], each["rows"]) for each in lines if each["rows"]} == {
        ("east.doubled", 2),
        ("west.doubled", 2),
    }
    listed = ottla("list", cwd=tmp_path).stdout.splitlines()[1:]
    assert [line.split()[:2] for line in listed] == [["broken", "failed"], ["east", "done"], ["west", "done"]]
