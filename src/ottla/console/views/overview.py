"""The overview: health in one sentence, throughput, lag, brokers, disks; and the numbers as they move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Container, Mapping
from typing import Any

from ottla.console import sse
from ottla.console.access.roles import ADMIN
from ottla.console.clusters.health import findings, sentence
from ottla.console.clusters.snapshot import Snapshot
from ottla.console.context import Context
from ottla.console.table import Data, Download, Parameter, Section, Stream, View

TOP = 8
MAX_HOURS = 24
EVENT_WAIT_S = 10.0


async def overview(ctx: Context) -> Data:
    """Return the state of the cluster."""
    snapshot = await ctx.live.snapshot()
    shared = ctx.console.clusters[ctx.live.name]
    measured = snapshot if _is_limited(ctx) else shared.last or snapshot
    lags = await visible_lags(ctx)
    found = findings(measured, lags, shared.reports)
    return {
        "health": sentence(found),
        "findings": found,
        "cluster_id": snapshot.info.cluster_id,
        "controller": snapshot.info.controller_id,
        "numbers": numbers(ctx, snapshot),
        "brokers": broker_rows(snapshot),
        "busiest": busiest(measured),
        "latest_groups": late_groups(lags),
    }


def numbers(ctx: Context, snapshot: Snapshot) -> dict[str, Any]:
    """Return the numbers that move."""
    shared = ctx.console.clusters[ctx.live.name]
    topics = [each for each in snapshot.info.topics.values() if not each.is_internal]
    latest = ctx.console.history.latest
    return {
        "brokers": len(snapshot.info.alive),
        "brokers_all": len(snapshot.info.brokers),
        "topics": len(topics),
        "partitions": sum(len(each.partitions) for each in topics),
        "under_replicated": sum(len(each.isr) < len(each.replicas) for _, each in snapshot.all_partitions()),
        "records_per_second": latest(ctx.live.name, "records") or 0.0,
        "bytes_per_second": latest(ctx.live.name, "bytes_in") or 0.0,
        "bytes": sum(snapshot.sizes.values()),
        "records": sum(snapshot.records.values()),
        "groups": len(shared.lags),
        "lag": sum(each.records for each in shared.lags.values()),
    }


def broker_rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the brokers with what they lead and hold."""
    leads: dict[int, int] = {}
    holds: dict[int, int] = {}
    late: dict[int, int] = {}
    for _, each in snapshot.all_partitions():
        leads[each.leader] = leads.get(each.leader, 0) + 1
        for node_id in each.replicas:
            holds[node_id] = holds.get(node_id, 0) + 1
            if node_id not in each.isr:
                late[node_id] = late.get(node_id, 0) + 1
    rows = []
    for node_id, broker in snapshot.info.brokers.items():
        disks = snapshot.disks_of(node_id)
        used = [each.used for each in disks if each.used is not None]
        rows.append(
            {
                "id": node_id,
                "address": str(broker.address),
                "rack": broker.rack,
                "is_alive": broker.is_alive,
                "is_controller": node_id == snapshot.info.controller_id,
                "leads": leads.get(node_id, 0),
                "replicas": holds.get(node_id, 0),
                "out_of_sync": late.get(node_id, 0),
                "bytes": sum(each.log_bytes for each in disks),
                "disk_used": max(used) if used else None,
            }
        )
    return rows


def busiest(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the topics that are written to most."""
    names = [name for name in snapshot.info.topics if not snapshot.info.topics[name].is_internal]
    names.sort(key=lambda name: (-snapshot.rates.get(name, 0.0), -snapshot.sizes.get(name, 0), name))
    return [
        {
            "name": name,
            "rate": snapshot.rates.get(name, 0.0),
            "bytes": snapshot.sizes.get(name),
            "records": snapshot.records.get(name),
        }
        for name in names[:TOP]
    ]


def _is_limited(ctx: Context) -> bool:
    """Return whether the person may see less than the console, which measures with its own credentials."""
    return ctx.live is not ctx.console.clusters[ctx.live.name] and ctx.role < ADMIN


async def visible_lags(ctx: Context) -> dict[str, Any]:
    """Return the lags of the groups that the person may see."""
    lags = ctx.console.clusters[ctx.live.name].lags
    if not _is_limited(ctx):
        return dict(lags)
    seen = {each.group_id for each in await ctx.admin.list_groups()}
    return {name: lag for name, lag in lags.items() if name in seen}


async def _visible_series(ctx: Context, names: list[str]) -> list[str]:
    """Return the series that are not about a topic or a group that the person may not see."""
    if not _is_limited(ctx):
        return names
    seen: dict[str, Container[str]] = {
        "topic": (await ctx.live.snapshot()).info.topics,
        "group": await visible_lags(ctx),
    }
    found = []
    for each in names:
        kind, _, rest = each.partition(".")
        if kind not in seen or rest.rpartition(".")[0] in seen[kind]:
            found.append(each)
    return found


def late_groups(lags: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the groups that are furthest behind."""
    names = sorted(lags, key=lambda name: (-(lags[name].seconds or 0), -lags[name].records, name))
    return [
        {"name": name, "records": lags[name].records, "seconds": lags[name].seconds} for name in names[:TOP]
    ]


async def history(ctx: Context) -> Data:
    """Return samples of series, as columns: times in seconds, then the values of each."""
    names = await _visible_series(ctx, [each for each in ctx.query("series").split("|") if each][:20])
    hours = ctx.number("hours", 1, least=1, most=MAX_HOURS)
    now = ctx.live.clock.wall_ms()
    found = ctx.console.history.read(ctx.live.name, names, now - hours * 3_600_000, now)
    times = sorted({at for rows in found.values() for at, _ in rows})
    columns: list[list[float | None]] = []
    for name in names:
        values = dict(found[name])
        columns.append([values.get(at) for at in times])
    return {"times": [at / 1000 for at in times], "series": names, "values": columns}


async def events(ctx: Context) -> Download:
    """Send the state of the cluster and its numbers after each sample."""
    return Download(sse.CONTENT_TYPE, None, _events(ctx))


async def _events(ctx: Context) -> AsyncIterator[bytes]:
    shared = ctx.console.clusters[ctx.live.name]
    sampler = ctx.console.samplers[ctx.live.name]
    while True:
        if shared.problem is not None:
            yield sse.event("state", {"ok": False, "message": f"{shared.problem}".rstrip(".") + "."})
        elif shared.last is not None:
            yield sse.event("state", {"ok": True})
            yield sse.event("numbers", numbers(ctx, shared.last))
        try:
            async with asyncio.timeout(EVENT_WAIT_S), sampler.sampled:
                await sampler.sampled.wait()
        except TimeoutError:
            yield sse.KEEP_ALIVE


SECTION = Section(
    "overview",
    "Overview",
    "",
    "o",
    views=(
        View("", "State of the cluster", "overview.html", overview),
        View(
            "/history",
            "Samples of the last hours",
            "",
            history,
            query=(
                Parameter("series", "Names of series, separated by |"),
                Parameter("hours", "How far back, 1 to 24", "integer"),
            ),
        ),
    ),
    streams=(Stream("/events", "Numbers as they move (server-sent events)", events),),
)
