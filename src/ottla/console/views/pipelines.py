"""Pipelines on Spark: their flows, progress and lag, from the state files that their drivers write."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from ottla.console.context import Context
from ottla.console.messages import positions
from ottla.console.messages.message import Message, Reading
from ottla.console.table import Action, Data, Form, Outcome, Parameter, Section, UserError, View
from ottla.console.views.messages import MAX_SHOWN, SHOWN, check_messages_shown
from ottla.protocol.errors import UnknownTopicOrPartition

SERIES = ("rows_per_second", "lag", "batch_ms", "state_rows")


def states(root: Path | None) -> list[Any]:
    """Return the states of the pipelines in a folder; none if there is no folder."""
    if root is None or not root.is_dir():
        return []
    from ottla.spark.pipelines.run.state import all_states

    return all_states(root)


def _alive() -> tuple[str, ...]:
    from ottla.spark.pipelines.run.state import ALIVE

    return ALIVE


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
    is_alive = state.now() in _alive()
    return {
        "name": state.name,
        "state": state.now(),
        "is_alive": is_alive,
        "flows": len(state.flows),
        "rows": sum(flow.get("rows", 0) for flow in state.flows),
        "rate": sum(flow.get("rows_per_second", 0.0) for flow in state.flows) if is_alive else None,
        "lag": sum(lags) if lags else None,
        "started": state.started_ms,
        "updated": state.updated_ms,
        "path": state.path,
        "host": state.host,
        "error": state.error,
        "master": state.master,
    }


def _flows(state: Any) -> list[dict[str, Any]]:
    """Return the flows; those that a driver which died last called running do not run any more."""
    if state.now() in _alive():
        return list(state.flows)
    return [
        {**flow, "state": state.now() if flow["state"] in _alive() else flow["state"]} for flow in state.flows
    ]


async def _the_pipeline(ctx: Context) -> Any:
    name = ctx.params["pipeline"]
    for each in await asyncio.to_thread(states, ctx.console.options.pipelines):
        if each.name == name:
            return each
    raise UserError(f"There is no pipeline {name!r}.", status=404)


async def pipeline(ctx: Context) -> Data:
    """Return a pipeline with its flows."""
    state, tab = await _the_pipeline(ctx), ctx.query("tab", "flows")
    return {
        "tab": tab,
        "has_other_flows": tab == "flows" and ctx.number("flows", len(state.flows)) != len(state.flows),
        "pipeline": _row(state),
        "flows": _flows(state),
        "can_stop": state.is_here() and state.now() in _alive(),
        "dead_letters": list(state.dead_letters),
    }


async def dead_letters(ctx: Context) -> Data:
    """Return the newest records that the flows of a pipeline could not process, with their reasons."""
    check_messages_shown(ctx)
    state = await _the_pipeline(ctx)
    limit = ctx.number("limit", SHOWN, least=1, most=MAX_SHOWN)
    found: list[dict[str, Any]] = []
    missing = []
    for topic in state.dead_letters:
        try:
            found += await _letters_of(ctx, topic, limit)
        except UnknownTopicOrPartition:
            missing.append(topic)  # nothing was written to it yet
    found.sort(key=lambda each: (each["timestamp"], each["offset"]), reverse=True)
    return {
        "tab": "dead-letters",
        "pipeline": _row(state),
        "can_stop": state.is_here() and state.now() in _alive(),
        "dead_letters": list(state.dead_letters),
        "missing": missing,
        "letters": found[:limit],
    }


async def _letters_of(ctx: Context, topic: str, limit: int) -> list[dict[str, Any]]:
    from ottla.spark.pipelines.records import REASON, SOURCE_OFFSET, SOURCE_PARTITION, SOURCE_TOPIC

    cluster = ctx.admin.cluster
    ranges = await positions.ranges_of(cluster, topic, None)
    begin = await positions.start_offsets(cluster, topic, ranges, positions.NEWEST, "")
    page = await positions.backward(cluster, topic, ranges, begin, limit)
    decoder, masking = ctx.console.decoders[ctx.live.name], ctx.console.masking(topic)
    reading = Reading(topic, decoder, masking=masking, masks=ctx.console.options.masks)
    rows = []
    for message in (Message(record, reading) for record in page.records):
        shown = message.as_json(preview=True)
        shown["reason"] = message.header(REASON)
        shown["source"] = [message.header(name) for name in (SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET)]
        rows.append(shown)
    return rows


async def stop(ctx: Context, form: Form) -> Outcome:
    """Stop a pipeline after its current batches."""
    state = await _the_pipeline(ctx)
    if not state.is_here():
        raise UserError(f"{state.name} does not run on this machine.", f"It runs on {state.host}.")
    os.kill(state.pid, signal.SIGTERM)
    return Outcome(f"{state.name} stops after its current batches.", ctx.url("pipelines", state.name))


async def _ask_driver(ctx: Context, what: str, *, is_wanted: bool = True) -> Any:
    """Leave a request for the driver in the pipeline's folder, as `ottla pipeline` does."""
    state, root = await _the_pipeline(ctx), ctx.console.options.pipelines
    assert root is not None
    if state.now() not in _alive():
        raise UserError(f"{state.name} is not running: {state.now()}.", f"ottla pipeline run {state.path}")
    file = root / state.name / what
    if is_wanted:
        file.touch()
    else:
        file.unlink(missing_ok=True)
    return state


async def restart(ctx: Context, form: Form) -> Outcome:
    """Restart a pipeline after its current batches, with its files as they are now."""
    from ottla.spark.pipelines.run.storage import RESTART_FILE

    state = await _ask_driver(ctx, RESTART_FILE)
    return Outcome(f"{state.name} restarts after its current batches.", ctx.url("pipelines", state.name))


async def pause(ctx: Context, form: Form) -> Outcome:
    """Pause a pipeline after its current batches; its driver stays."""
    from ottla.spark.pipelines.run.storage import PAUSE_FILE

    state = await _ask_driver(ctx, PAUSE_FILE)
    return Outcome(f"{state.name} pauses after its current batches.", ctx.url("pipelines", state.name))


async def resume(ctx: Context, form: Form) -> Outcome:
    """Resume a paused pipeline."""
    from ottla.spark.pipelines.run.storage import PAUSE_FILE

    state = await _ask_driver(ctx, PAUSE_FILE, is_wanted=False)
    return Outcome(f"{state.name} resumes.", ctx.url("pipelines", state.name))


SECTION = Section(
    "pipelines",
    "Pipelines",
    "/pipelines",
    "p",
    views=(
        View("/pipelines", "List of pipelines", "pipelines.html", pipelines),
        View(
            "/pipelines/{pipeline}",
            "A pipeline and its flows",
            "pipeline.html",
            pipeline,
            query=(
                Parameter("tab", "The page that its state is shown on"),
                Parameter("flows", "How many flows it shows", "integer"),
            ),
            fragment="parts/pipeline_state.html",
        ),
        View(
            "/pipelines/{pipeline}/dead-letters",
            "The newest dead letters of a pipeline",
            "pipeline_dead_letters.html",
            dead_letters,
            query=(Parameter("limit", "How many", "integer"),),
        ),
    ),
    actions=(
        Action("/pipelines/{pipeline}/stop", "Stop a pipeline", stop),
        Action("/pipelines/{pipeline}/restart", "Restart a pipeline with its files as they are now", restart),
        Action("/pipelines/{pipeline}/pause", "Pause a pipeline", pause),
        Action("/pipelines/{pipeline}/resume", "Resume a paused pipeline", resume),
    ),
    group="Data",
)
