"""(f) groups: members that come and go, commits; (g) transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from benchmarks import groups, transactions
from benchmarks.peers import topics
from benchmarks.peers.load import Figures, load, measure
from benchmarks.peers.scale import Scale
from benchmarks.peers.servers import Server

COMMITS_PER_S, COMMITTERS, COMMIT_S = 1_000, 4, 10
GROUP_SETTINGS = groups.SETTINGS


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
        yield name, _commits(server, scale)


def _commits(server: Server, scale: Scale) -> Figures:
    topics.create(server, ["committed"], 1)
    rate = COMMITS_PER_S // COMMITTERS
    count = scale.count(COMMITS_PER_S * COMMIT_S) // COMMITTERS
    options = {"address": server.address, "topic": "committed", "rate": rate, "records": count}
    loads = [load("commits.commit", **options, group=f"committers-{number}") for number in range(COMMITTERS)]
    return {**measure(server, loads), "records": count * COMMITTERS}


def in_transactions(server: Server, scale: Scale) -> Iterator[tuple[str, Figures]]:
    """The same records, idempotent and in transactions of 1,000."""
    for row in transactions.rows(server, 0.05 if scale.is_quick else 0.5):
        crowd = f"{row.record_bytes} B, {row.producers} producer{'s' * (row.producers > 1)}"
        for kind, costs in (("idempotent", row.idempotent), ("transactional", row.transactional)):
            yield (
                f"{crowd}, {kind}",
                {
                    "records": row.records,
                    "bytes": row.records * row.record_bytes,
                    "wall_s": round(row.records / row.speed(costs), 4),
                    "server_cpu_s": round(row.cpu(costs) * row.records / 1e6, 3),
                    "generator_cpu_s": round(sorted(each.client_cpu_s for each in costs)[len(costs) // 2], 3),
                },
            )
