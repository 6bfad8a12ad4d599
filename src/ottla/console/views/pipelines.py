"""Pipelines on Spark: their flows, progress and lag, from the state files that their drivers write."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from ottla.console.context import Context
from ottla.console.table import Action, Data, Form, Outcome, Section, UserError, View

SERIES = ("rows_per_second", "lag", "state_rows")


def states(root: Path | None) -> list[Any]:
    """Return the states of the pipelines in a folder; none if there is no folder."""
    if root is None or not root.is_dir():
        return []
    from ottla.spark.pipelines.run.state import all_states

    return all_states(root)


def samples(root: Path | None) -> dict[str, float]:
    """Return the series of all flows of pipelines that run, for the plots."""
    found: dict[str, float] = {}
    for state in states(root):
        if state.now() == "running":
            for flow in state.flows:
                for name in SERIES:
                    if flow.get(name) is not None:
                        found[f"pipeline.{state.name}.{flow['flow']}.{name}"] = float(flow[name])
    return found


async def pipelines(ctx: Context) -> Data:
    """Return the pipelines and their states."""
    root = ctx.console.options.pipelines
    rows = [_row(each) for each in await asyncio.to_thread(states, root)]
    return {"pipelines": rows, "root": "" if root is None else str(root)}


def _row(state: Any) -> dict[str, Any]:
    lags = [flow["lag"] for flow in state.flows if flow.get("lag") is not None]
    return {
        "name": state.name,
        "state": state.now(),
        "flows": len(state.flows),
        "rows": sum(flow.get("rows", 0) for flow in state.flows),
        "rate": sum(flow.get("rows_per_second", 0.0) for flow in state.flows),
        "lag": sum(lags) if lags else None,
        "started": state.started_ms,
        "updated": state.updated_ms,
        "path": state.path,
        "host": state.host,
        "error": state.error,
        "master": state.master,
    }


async def _the_pipeline(ctx: Context) -> Any:
    name = ctx.params["pipeline"]
    for each in await asyncio.to_thread(states, ctx.console.options.pipelines):
        if each.name == name:
            return each
    raise UserError(f"There is no pipeline {name!r}.", status=404)


async def pipeline(ctx: Context) -> Data:
    """Return a pipeline with its flows."""
    state = await _the_pipeline(ctx)
    return {"pipeline": _row(state), "flows": list(state.flows), "can_stop": state.is_here()}


async def stop(ctx: Context, form: Form) -> Outcome:
    """Stop a pipeline after its current batches."""
    state = await _the_pipeline(ctx)
    if not state.is_here():
        raise UserError(f"{state.name} does not run on this machine.", f"It runs on {state.host}.")
    os.kill(state.pid, signal.SIGTERM)
    return Outcome(f"{state.name} stops after its current batches.", ctx.url("pipelines", state.name))


SECTION = Section(
    "pipelines",
    "Pipelines",
    "/pipelines",
    "p",
    views=(
        View("/pipelines", "List of pipelines", "pipelines.html", pipelines),
        View("/pipelines/{pipeline}", "A pipeline and its flows", "pipeline.html", pipeline),
    ),
    actions=(Action("/pipelines/{pipeline}/stop", "Stop a pipeline", stop),),
    group="Data",
)
