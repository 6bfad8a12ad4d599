"""(f) groups: members that come and go, commits; (g) transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from statistics import median

from benchmarks import groups, transactions
from benchmarks.peers import topics
from benchmarks.peers.load import Figures, load, measure
from benchmarks.peers.scale import Scale
from benchmarks.peers.servers import Server

COMMITS_PER_S, COMMITTERS, COMMIT_S, WARM_S = 1_000, 8, 20, 5
GROUP_SETTINGS = groups.SETTINGS
ROUNDS = 3
"""Of transactions, on every server: the kinds take turns."""


def rebalances(server: Server, scale: Scale) -> Iterator[tuple[str, Figures]]:
    """100 members join, shrink, grow, and lose some; then 1,000 commits a second."""
    for protocol in groups.PROTOCOLS:
        if scale.wants(protocol):
            changes, overlaps = asyncio.run(groups.run(server, protocol))
            for change in changes:
                figures = {
                    "settled_s": round(change.settled_s, 3),
                    "server_cpu_s": round(change.broker_cpu_s, 3),
                }
                yield f"{protocol}: {change.what}", {**figures, "overlaps": len(overlaps)}
    name = f"{COMMITS_PER_S:,} commits/s"
    if scale.wants(name):
        topics.create(server, ["committed"], 1)
        _commits(server, "warm-up", scale.exact(COMMITS_PER_S * WARM_S))
        yield name, _commits(server, "committers", scale.count(COMMITS_PER_S * COMMIT_S))


def _commits(server: Server, group: str, count: int) -> Figures:
    """Every committer has a group of its own, and waits for each commit."""
    share, rate = count // COMMITTERS, COMMITS_PER_S // COMMITTERS
    options = {"address": server.address, "topic": "committed", "rate": rate, "records": share}
    loads = [load("commits.commit", **options, group=f"{group}-{number}") for number in range(COMMITTERS)]
    return {**measure(server, loads), "records": share * COMMITTERS}


def in_transactions(server: Server, scale: Scale) -> Iterator[tuple[str, Figures]]:
    """The same records, idempotent and in transactions of 1,000, by librdkafka and by our producers."""
    for who in transactions.GENERATORS:
        if scale.wants(who):
            for row in transactions.rows(server, scale.part, who, ROUNDS):
                yield from _transactions(row)


def _transactions(row: transactions.Row) -> Iterator[tuple[str, Figures]]:
    load = row.load
    crowd = f"{row.generator}, {load.record_bytes} B, {load.producers} producer{'s' * (load.producers > 1)}"
    for kind, costs in row.costs.items():
        figures = {
            "records": load.records,
            "bytes": load.records * load.record_bytes,
            "wall_s": round(load.records / row.speed(kind), 4),
            "server_cpu_s": round(row.cpu(kind) * load.records / 1e6, 3),
            "generator_cpu_s": round(median(each.client_cpu_s for each in costs), 3),
        }
        yield f"{crowd}, {kind.value}", figures
