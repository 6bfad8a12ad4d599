"""`ottla pipeline list`, `status`, `stop`, `pause`, `resume` and `restart`, by the state files."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from ottla.cli.pipeline.options import guarded, root_option
from ottla.cli.pipeline.view import COLUMNS, NUMBERS, cells
from ottla.cli.support.options import format_option
from ottla.cli.support.output import echo_err, print_json, print_table
from ottla.cli.support.problems import Problem
from ottla.common.near_names import did_you_mean
from ottla.spark.pipelines.problems import PipelineProblem
from ottla.spark.pipelines.project import open_project
from ottla.spark.pipelines.run.progress import progress_of
from ottla.spark.pipelines.run.state import (
    ALIVE,
    DIED,
    DONE,
    FAILED,
    PAUSED,
    RUNNING,
    STOPPED,
    State,
    all_states,
    state_of,
)
from ottla.spark.pipelines.run.storage import PAUSE_FILE, RESTART_FILE

POLL_INTERVAL_S = 0.1
TIMEOUT_S = 5.0
ENDED = (STOPPED, DONE, FAILED, DIED)


@click.command("list")
@format_option
@root_option
def list_command(output_format: str, root: Path) -> None:
    """List pipelines and their states.

    \b
    ottla pipeline list
    """
    found = all_states(root)
    if output_format == "json":
        print_json([_as_json(state) for state in found])
        return
    if not found:
        echo_err(f"no pipelines in {root}; create one with: ottla pipeline init NAME")
        return
    rows = [
        [state.name, state.now(), str(len(state.flows)), _time(state.started_ms), _rows(state), state.path]
        for state in found
    ]
    columns = ["pipeline", "state", "flows", "started", "rows", "path"]
    print_table(columns, rows, right=["flows", "rows"])


@click.command("status")
@click.argument("name")
@format_option
@root_option
@guarded
def status_command(name: str, output_format: str, root: Path) -> None:
    """Show the progress of a pipeline's flows; NAME may be its path, or the address of its driver.

    A driver serves its state where `ottla pipeline run --metrics` says, so it can be seen from anywhere.

    \b
    ottla pipeline status shop
    ottla pipeline status http://driver:9404
    """
    state = remote_state(name) if name.startswith(("http://", "https://")) else find_state(name, root)
    if output_format == "json":
        print_json(_as_json(state))
        return
    where = f"process {state.pid} on {state.host}" if state.now() in ALIVE else "not running"
    echo_err(f"{state.name}: {state.now()}, {where}, as of {_time(state.updated_ms)}")
    if state.now() == DIED:
        echo_err(f"its process died; to resume: ottla pipeline run {state.path}")
    if state.error:
        echo_err(state.error)
    if state.url and state.now() in ALIVE:
        echo_err(f"metrics: {state.url}/metrics")
    print_table(COLUMNS, [cells(progress_of(flow)) for flow in state.flows], right=NUMBERS)


_wait_option = click.option(
    "--timeout",
    type=click.FloatRange(0),
    default=90.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for it.",
)


@click.command("stop")
@click.argument("name")
@_wait_option
@root_option
@guarded
def stop_command(name: str, timeout: float, root: Path) -> None:
    """Stop a pipeline after its current batches; NAME may be its path.

    \b
    ottla pipeline stop shop
    """
    state = find_state(name, root)
    if state.now() not in ALIVE:
        echo_err(f"{state.name} is not running: {state.now()}")
        return
    if not state.is_here():
        raise Problem(f"{state.name} runs on {state.host}", f"stop it there: kill {state.pid}")
    os.kill(state.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while state.is_here():
        if time.monotonic() >= deadline:
            raise Problem(
                f"{state.name} has not ended after {timeout:g} s: a batch is still running",
                f"wait longer with --timeout, or kill it: kill -9 {state.pid}; the next run redoes it",
            )
        time.sleep(POLL_INTERVAL_S)
    echo_err(f"{state.name}: stopped")


@click.command("pause")
@click.argument("name")
@_wait_option
@root_option
@guarded
def pause_command(name: str, timeout: float, root: Path) -> None:
    """Pause a running pipeline after its current batches; its driver and Spark keep running.

    It stays paused over a restart of its driver.

    \b
    ottla pipeline pause shop
    """
    state = find_state(name, root)
    if state.now() not in ALIVE:
        raise Problem(
            f"{state.name} is not running: {state.now()}", f"start it: ottla pipeline run {state.path}"
        )
    (root / state.name / PAUSE_FILE).touch()
    _wait_for(state.name, root, timeout, lambda now: now in (PAUSED, *ENDED))
    echo_err(f"{state.name}: {find_state(state.name, root).now()}")


@click.command("resume")
@click.argument("name")
@_wait_option
@root_option
@guarded
def resume_command(name: str, timeout: float, root: Path) -> None:
    """Resume a paused pipeline.

    \b
    ottla pipeline resume shop
    """
    state = find_state(name, root)
    (root / state.name / PAUSE_FILE).unlink(missing_ok=True)
    if state.now() == PAUSED:
        _wait_for(state.name, root, timeout, lambda now: now != PAUSED)
    echo_err(f"{state.name}: {find_state(state.name, root).now()}")


@click.command("restart")
@click.argument("name")
@_wait_option
@root_option
@guarded
def restart_command(name: str, timeout: float, root: Path) -> None:
    """Restart a running pipeline after its current batches, with its files as they are now.

    Its driver and Spark keep running, with their settings; flows resume from their checkpoints.

    \b
    ottla pipeline restart shop
    """
    state = find_state(name, root)
    if state.now() not in ALIVE:
        raise Problem(
            f"{state.name} is not running: {state.now()}", f"start it: ottla pipeline run {state.path}"
        )
    before = state.started_ms
    (root / state.name / RESTART_FILE).touch()
    deadline = time.monotonic() + timeout
    while True:
        state = find_state(state.name, root)
        if state.now() in ENDED:
            raise Problem(f"{state.name} has not restarted: {state.now()}", *filter(None, [state.error]))
        if state.started_ms > before and state.now() in (RUNNING, PAUSED):
            break
        if time.monotonic() >= deadline:
            raise Problem(f"{state.name} has not restarted after {timeout:g} s: a batch is still running")
        time.sleep(POLL_INTERVAL_S)
    echo_err(f"{state.name}: restarted")


def _wait_for(name: str, root: Path, timeout: float, is_so: Callable[[str], bool]) -> None:
    deadline = time.monotonic() + timeout
    while not is_so(find_state(name, root).now()):
        if time.monotonic() >= deadline:
            raise Problem(f"{name} has not changed after {timeout:g} s: a batch is still running")
        time.sleep(POLL_INTERVAL_S)


def remote_state(url: str) -> State:
    """Return the state that a driver serves; raise Problem if it does not answer."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/status", timeout=TIMEOUT_S) as answer:
            found = json.load(answer)["pipeline"]
    except (OSError, ValueError, KeyError) as error:
        raise Problem(f"no pipeline answers at {url}: {error}", "see: ottla pipeline run --metrics") from None
    if not isinstance(found, dict):
        raise Problem(f"the driver at {url} runs no pipeline", f"its queries: {url}/status")
    return state_of(found)


def find_state(name: str, root: Path) -> State:
    """Return the state of a pipeline by name or path; raise Problem with similar names if it is unknown."""
    found = {state.name: state for state in all_states(root)}
    if name not in found and Path(name).exists():
        name = open_project(Path(name)).name
    if name not in found:
        raise PipelineProblem(
            f"no pipeline {name!r} was run in {root}",
            *did_you_mean(name, found),
            "list them: ottla pipeline list",
        )
    return found[name]


def _as_json(state: State) -> dict[str, object]:
    return {**asdict(state), "state": state.now()}


def _rows(state: State) -> str:
    return f"{sum(flow.get('rows', 0) for flow in state.flows):,}"


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
