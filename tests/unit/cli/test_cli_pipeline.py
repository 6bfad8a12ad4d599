import json
import signal
import subprocess
import sys

import pytest

from ottla.cli.pipeline.command import COMMANDS
from ottla.cli.pipeline.view import JsonLines, cells
from ottla.spark.pipelines.run.progress import FlowProgress
from ottla.spark.pipelines.run.state import new_state, process_start
from ottla.spark.pipelines.run.storage import open_storage


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("OTTLA_PIPELINES", str(tmp_path / "root"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "root"


def remember(root, name="shop", **fields):
    state = new_state(name, "/p/shop", "", 1_700_000_000_000)
    state.flows = [FlowProgress("revenue", "revenue", "running", 3, 20, 5, 99.6, 50, 7).as_json()]
    for field, value in {"state": "running", **fields}.items():
        setattr(state, field, value)
    state.write(open_storage(root, name, root))
    return state


def test_help_lists_every_command(ottla):
    shown = ottla("pipeline", "--help")
    assert [
        line.split()[0] for line in shown.lines if line.startswith("  ") and line.split()[0] in COMMANDS
    ] == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(ottla, name):
    assert ottla("pipeline", name, "--help").code == 0


def test_help_does_not_import_spark():
    script = (
        "import sys; from ottla.cli.main import run; run(['pipeline', 'run', '-h']); print(list(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "'pyspark'" not in done.stdout.splitlines()[-1]


def test_init_makes_a_project_and_says_how_to_try_it(ottla, root):
    made = ottla("pipeline", "init", "shop")
    assert made.code == 0
    assert "shop/transformations/orders.py" in made.lines
    assert "try it:  ottla pipeline test shop" in made.err
    again = ottla("pipeline", "init", "shop")
    assert again.code == 1
    assert "is not empty" in again.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no file or folder"),
        ("def broken(:\n", "broken.py:1: invalid syntax"),
    ],
)
def test_mistakes_are_found_before_spark_starts(ottla, root, tmp_path, text, words):
    if text is not None:
        (tmp_path / "broken.py").write_text(text)
    shown = ottla("pipeline", "run", "broken.py")
    assert shown.code == 1
    assert words in shown.err
    assert "Traceback" not in shown.err


def test_pipelines_are_listed_and_those_that_died_are_noticed(ottla, root):
    assert "no pipelines" in ottla("pipeline", "list").err
    remember(root)
    remember(root, "other", process_start=1)
    remember(root, "ended", state="done", process_start=1)
    rows = [line.split()[:2] for line in ottla("pipeline", "list").lines[1:]]
    assert rows == [["ended", "done"], ["other", "died"], ["shop", "running"]]
    listed = json.loads(ottla("pipeline", "list", "--format", "json").out)
    assert [each["state"] for each in listed] == ["done", "died", "running"]


def test_status_shows_the_flows_and_what_to_do_if_it_died(ottla, root):
    remember(root, url="http://driver:9404")
    assert "metrics: http://driver:9404/metrics" in ottla("pipeline", "status", "shop").err
    remember(root, process_start=1, url="http://driver:9404")
    shown = ottla("pipeline", "status", "shop")
    assert "shop: died" in shown.err
    assert "metrics" not in shown.err
    assert "ottla pipeline run /p/shop" in shown.err
    assert shown.lines[1].split() == ["revenue", "revenue", "running", "3", "20", "100", "50", "ms", "7"]
    unknown = ottla("pipeline", "status", "shpo")
    assert unknown.code == 1
    assert "did you mean: shop?" in unknown.err


def test_stop_asks_the_driver_to_end_and_waits_for_it(ottla, root):
    with subprocess.Popen(
        [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"], stdout=-1
    ) as driver:
        assert driver.stdout is not None
        driver.stdout.readline()
        remember(root, pid=driver.pid, process_start=process_start(driver.pid))
        stopped = ottla("pipeline", "stop", "shop")
        assert stopped.code == 0
        assert "shop: stopped" in stopped.err
        assert driver.wait() == -signal.SIGTERM
    assert "is not running: died" in ottla("pipeline", "stop", "shop").err


def test_a_driver_that_does_not_end_in_time_is_named(ottla, root):
    ignoring = "import signal, time; signal.signal(15, 1); print(1, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", ignoring], stdout=-1) as driver:
        assert driver.stdout is not None
        driver.stdout.readline()
        remember(root, pid=driver.pid, process_start=process_start(driver.pid))
        shown = ottla("pipeline", "stop", "shop", "--timeout", "0.2")
        assert shown.code == 1
        assert f"kill -9 {driver.pid}" in shown.err
        driver.kill()


def test_each_batch_is_a_json_line(capsys):
    progress = FlowProgress("f", "t", "running", 1, 2)
    JsonLines().batch(progress)
    assert json.loads(capsys.readouterr().out) == progress.as_json()
    assert cells(FlowProgress("f", "t", "restarting", restarts=2))[2] == "restarting x2"


def test_a_copy_that_makes_no_sense_is_refused_before_spark_starts(ottla, root):
    shown = ottla("pipeline", "copy", "topic:orders", "postgres:orders")
    assert shown.code == 1
    assert "--schema" in shown.err
    assert "did you mean: topic?" in ottla("pipeline", "copy", "topc:orders", "csv:x").err


def test_a_unit_runs_the_pipelines_and_restarts_them_with_growing_pauses(ottla, root):
    made = ottla("pipeline", "unit", "shop", "stock", "--name", "shops", "--metrics", "0.0.0.0:9404")
    assert made.code == 0
    unit = dict(line.split("=", 1) for line in made.lines if "=" in line and not line.startswith("#"))
    words = unit["ExecStart"].split()
    assert words[1:] == [
        *("pipeline", "run", f"{root.parent}/shop", f"{root.parent}/stock"),
        *("--metrics", "0.0.0.0:9404"),
    ]
    assert (unit["Restart"], unit["RestartSec"], unit["RestartMaxDelaySec"]) == ("on-failure", "5", "300")
    assert (unit["StateDirectory"], unit["KillSignal"]) == ("shops", "SIGTERM")


def test_a_pipeline_that_does_not_run_cannot_be_paused_and_two_may_not_have_one_name(ottla, root):
    remember(root, state="stopped")
    paused = ottla("pipeline", "pause", "shop")
    assert paused.code == 1
    assert "shop is not running: stopped" in paused.err
    assert ottla("pipeline", "resume", "shop").err.strip().endswith("shop: stopped")
    restarted = ottla("pipeline", "restart", "shop")
    assert restarted.code == 1
    assert "start it: ottla pipeline run /p/shop" in restarted.err
    for folder in ("a", "b"):
        (root.parent / folder).mkdir()
        (root.parent / folder / "same.py").write_text("")
    twice = ottla("pipeline", "run", "a/same.py", "b/same.py")
    assert twice.code == 2
    assert "the same name" in twice.err
