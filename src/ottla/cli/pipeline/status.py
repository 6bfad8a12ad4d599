"""`ottla pipeline list`, `status` and `stop`, by the state files."""

from __future__ import annotations

import os
import signal
import time
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
from ottla.spark.pipelines.run.progress import FlowProgress
from ottla.spark.pipelines.run.state import ALIVE, DIED, State, all_states

POLL_INTERVAL_S = 0.1


@click.command("list")
@format_option
@root_option
def list_command(output_format: str, root: Path) -> None:
    """List pipelines and their states."""
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
    """Show the progress of a pipeline's flows; NAME may be its path."""
    state = find_state(name, root)
    if output_format == "json":
        print_json(_as_json(state))
        return
    where = f"process {state.pid} on {state.host}" if state.now() in ALIVE else "not running"
    echo_err(f"{state.name}: {state.now()}, {where}, as of {_time(state.updated_ms)}")
    if state.now() == DIED:
        echo_err(f"its process died; to resume: ottla pipeline run {state.path}")
    if state.error:
        echo_err(state.error)
    print_table(COLUMNS, [cells(FlowProgress(**flow)) for flow in state.flows], right=NUMBERS)


@click.command("stop")
@click.argument("name")
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    default=90.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for it to end.",
)
@root_option
@guarded
def stop_command(name: str, timeout: float, root: Path) -> None:
    """Stop a pipeline after its current batches; NAME may be its path."""
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
