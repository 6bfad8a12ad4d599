"""Reassignments: plan, start, follow, cancel."""

from __future__ import annotations

from typing import Any

from ottla.client.admin.moves import MoveWatch, throttle
from ottla.common.ids import TopicPartition
from ottla.common.placement import spread
from ottla.console.access.roles import ADMIN
from ottla.console.clusters.snapshot import Snapshot
from ottla.console.context import Context
from ottla.console.table import Action, Data, Form, Outcome, Parameter, Section, UserError, View

MIB = 1024 * 1024


async def reassignments(ctx: Context) -> Data:
    """Return the ongoing reassignments and how far they are."""
    snapshot = await ctx.live.snapshot()
    moves = await ctx.admin.list_reassignments()
    progress = None
    if moves:
        async for each in MoveWatch(ctx.admin.cluster, moves).progress():
            progress = {
                "left": each.partitions_left,
                "copied": each.copied_bytes,
                "total": each.total_bytes,
                "part": each.copied_bytes / each.total_bytes if each.total_bytes else None,
            }
            break
    return {
        "moves": [
            {
                "topic": at.topic,
                "partition": at.partition,
                "replicas": list(each.replicas),
                "adding": list(each.adding),
                "removing": list(each.removing),
            }
            for at, each in sorted(moves.items())
        ],
        "progress": progress,
        "brokers": snapshot.info.alive,
        "topics": sorted(snapshot.info.topics),
        "topic": ctx.query("topic"),
        "plan": None,
        "given": {},
    }


def _plan(snapshot: Snapshot, form: Form) -> dict[TopicPartition, tuple[int, ...]]:
    chosen = form.wholes("broker") or snapshot.info.alive
    unknown = [each for each in chosen if each not in snapshot.info.alive]
    if unknown:
        raise UserError(f"Broker {unknown[0]} is not alive.")
    topic = form.text("topic", "")
    if topic and topic not in snapshot.info.topics:
        raise UserError(f"There is no topic {topic!r}.", status=404)
    partitions = {at: each.replicas for at, each in snapshot.all_partitions() if topic in ("", at.topic)}
    racks = {node_id: snapshot.info.brokers[node_id].rack for node_id in chosen}
    factor = form.whole("replication", 0, least=0) or None
    try:
        planned = spread(partitions, racks, replication_factor=factor)
    except ValueError as error:
        raise UserError(str(error)) from None
    return {at: replicas for at, replicas in planned.items() if replicas != tuple(partitions[at])}


async def preview(ctx: Context, form: Form) -> Outcome:
    """Show which partitions would move where."""
    snapshot = await ctx.live.snapshot()
    planned = _plan(snapshot, form)
    rows: list[dict[str, Any]] = [
        {
            "topic": at.topic,
            "partition": at.partition,
            "before": list(snapshot.info.topics[at.topic].partitions[at.partition].replicas),
            "after": list(replicas),
        }
        for at, replicas in sorted(planned.items())
    ]
    page = await reassignments(ctx)
    given = {
        "topic": form.text("topic", ""),
        "replication": form.text("replication", ""),
        "rate": form.text("rate", ""),
        "brokers": form.wholes("broker"),
    }
    page |= {"plan": rows, "given": given, "topic": given["topic"]}
    return Outcome("", "", {"plan": rows}, page, "reassignments.html")


async def start(ctx: Context, form: Form) -> Outcome:
    """Start to move the partitions of a plan."""
    snapshot = await ctx.live.snapshot()
    planned = _plan(snapshot, form)
    if not planned:
        raise UserError("Nothing would move: the replicas are where they should be.")
    rate = form.whole("rate", 0, least=0)
    if rate:
        await throttle(ctx.admin.cluster, {at.topic for at in planned}, snapshot.info.alive, rate * MIB)
    outcomes = await ctx.admin.reassign(planned)
    failed = next((each for each in outcomes.values() if each is not None), None)
    if failed is not None:
        raise failed
    message = f"{len(planned)} partition{'s are' if len(planned) != 1 else ' is'} on the way."
    return Outcome(message, ctx.url("reassignments"), {"partitions": len(planned)})


async def cancel(ctx: Context, form: Form) -> Outcome:
    """Cancel all ongoing reassignments."""
    moves = await ctx.admin.list_reassignments()
    if moves:
        await ctx.admin.reassign(dict.fromkeys(moves))
    return Outcome("The reassignments are cancelled.", ctx.url("reassignments"), {"cancelled": len(moves)})


_PLAN = (
    Parameter("topic", "A topic; absent: all"),
    Parameter("broker", "Brokers that may hold replicas; absent: all", "array"),
    Parameter("replication", "Replicas of each partition; absent: as many as now", "integer"),
    Parameter("rate", "MiB per second at most; absent: no limit", "integer"),
)

SECTION = Section(
    "reassignments",
    "Reassignments",
    "/reassignments",
    "r",
    views=(
        View(
            "/reassignments",
            "Ongoing reassignments",
            "reassignments.html",
            reassignments,
            query=(Parameter("topic", "A topic to begin with"),),
            fragment="parts/moves.html",
        ),
    ),
    actions=(
        Action("/reassignments/preview", "Preview of a reassignment", preview, fields=_PLAN, is_change=False),
        Action("/reassignments", "Start a reassignment", start, ADMIN, fields=_PLAN),
        Action("/reassignments/cancel", "Cancel reassignments", cancel, ADMIN),
    ),
    group="Cluster",
)
