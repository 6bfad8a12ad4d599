"""`ottla connect` on a worker; and the connector that `ottla connect init` writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.integration.connect_stage import IdleEngine, RunningWorker

from ottla.cli.connect.command import connect
from ottla.testing.local_broker import OttlaBroker


def test_the_commands_on_connectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.connect.herder.task_runner.EngineSupervisor", IdleEngine)
    with OttlaBroker() as broker, RunningWorker(broker.bootstrap_servers, tmp_path / "storage") as worker:

        def run(*arguments: str, code: int = 0) -> str:
            result = CliRunner().invoke(connect, [*arguments, "--url", worker.url], standalone_mode=False)
            assert (result.return_value or 0) == code, result.output
            assert result.exception is None, result.exception
            return result.output

        assert "DatagenSource" in run("plugins")
        assert "Records per second" in run("plugins", "DatagenSource")
        wrong = run("validate", "name=x", "connector.class=DatagenSource", "rate=fast", code=3)
        assert "rate: Invalid value fast for configuration rate: Not a number of type LONG" in wrong
        run("create", "orders", "connector.class=DatagenSource", "topic=orders")
        worker.wait_for("orders", "RUNNING", "RUNNING")
        assert "orders  source  DatagenSource  RUNNING  1 RUNNING" in run("list")
        file = tmp_path / "more.json"
        file.write_text(
            json.dumps({"name": "more", "config": {"connector.class": "DatagenSource", "topic": "more"}})
        )
        run("create", "--file", str(file), "--state", "stopped")
        worker.wait_for("more", "STOPPED")
        run("offsets", "more", "--set", '{"task":0}={"count":5}')
        assert '{"count": 5}' in run("offsets", "more")
        run("offsets", "more", "--reset")
        assert json.loads(run("offsets", "more", "--format", "json")) == {"offsets": []}
        run("create", "orders", "--replace", "connector.class=DatagenSource", "topic=orders", "rate=7")
        described = run("describe", "orders")
        assert "rate" in described
        run("pause", "orders")
        worker.wait_for("orders", "PAUSED", "PAUSED")
        run("resume", "orders")
        worker.wait_for("orders", "RUNNING", "RUNNING")
        run("restart", "orders")
        run("restart", "orders", "--task", "0")
        worker.wait_for("orders", "RUNNING", "RUNNING")
        run("stop", "orders")
        worker.wait_for("orders", "STOPPED")
        run("delete", "orders", "--yes")
        assert "orders" not in json.loads(run("list", "--format", "json"))
        missing = CliRunner().invoke(
            connect, ["describe", "orders", "--url", worker.url], standalone_mode=False
        )
        assert "not found" in str(missing.exception)


def test_the_connector_that_init_writes_passes_its_test_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my-connectors"
    result = CliRunner().invoke(connect, ["init", str(folder)])
    assert result.exit_code == 0, result.output
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    monkeypatch.setattr("ottla.connect.herder.task_runner.EngineSupervisor", IdleEngine)
    with (
        OttlaBroker() as broker,
        RunningWorker(broker.bootstrap_servers, tmp_path / "storage", plugins=(str(folder),)) as worker,
    ):
        config = {"connector.class": "CounterSource", "topic": "numbers"}
        assert worker("PUT", "/connectors/numbers/config", config).status == 201
        worker.wait_for("numbers", "RUNNING", "RUNNING")
