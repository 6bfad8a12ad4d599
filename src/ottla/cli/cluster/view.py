"""The state of a cluster, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from ottla.cli.support.output import count, print_table
from ottla.client.admin.cluster_admin import ClusterInfo, MoveInfo
from ottla.client.admin.cluster_health import WARNING, WRONG, ClusterFinding, Examination
from ottla.common.ids import TopicPartition

SHOWN = 20
"""How many partitions are listed by name, before only their number is shown."""


COLOURS = {WRONG: "red", WARNING: "yellow"}


def print_examination(found: Examination) -> None:
    """Print the state of a cluster, the worst first, and the verdict if it is good."""
    for each in found.findings:
        if each.severity == WRONG:
            _print_finding(each)
    _print_kind(found.health.moving, "being moved to other brokers")
    _print_kind(found.health.not_preferred, "not led by the preferred leader (ottla cluster elect)")
    if found.is_healthy:
        click.echo(click.style("every partition has a leader and all replicas in sync", fg="green"))
    for each in found.findings:
        if each.severity == WARNING:
            _print_finding(each)


def _print_finding(found: ClusterFinding) -> None:
    """Print what, the subjects, and what to type."""
    click.echo(click.style(f"{found.where}{found.what}", fg=COLOURS[found.severity]))
    for each in found.subjects[:SHOWN]:
        click.echo(f"  {each}")
    if len(found.subjects) > SHOWN:
        click.echo(f"  and {len(found.subjects) - SHOWN:,} more")
    click.echo(f"  next: {found.fix}")


def _print_kind(partitions: list[TopicPartition], what: str) -> None:
    if not partitions:
        return
    click.echo(f"{count(len(partitions), 'partition')} {what}")
    for at in partitions[:SHOWN]:
        click.echo(f"  {at}")
    if len(partitions) > SHOWN:
        click.echo(f"  and {len(partitions) - SHOWN:,} more")


def print_cluster(info: ClusterInfo) -> None:
    """Print the brokers with their partitions."""
    click.echo(
        f"cluster {click.style(info.cluster_id, bold=True)}, {count(len(info.topics), 'topic')}, "
        f"{count(len(info.partitions), 'partition')}"
    )
    click.echo()
    leads, holds, in_sync = _loads(info)
    rows = [
        [
            str(each.node_id) + ("*" if each.node_id == info.controller_id else ""),
            str(each.address),
            each.rack or "-",
            "alive" if each.is_alive else click.style("not there", fg="red"),
            str(leads[each.node_id]),
            str(holds[each.node_id]),
            str(in_sync[each.node_id]),
        ]
        for each in info.brokers.values()
    ]
    columns = ["broker", "address", "rack", "state", "leads", "holds", "in sync"]
    print_table(columns, rows, right=["broker", "leads", "holds", "in sync"])
    click.echo()
    click.echo("* the controller")
    click.echo()


def cluster_as_json(info: ClusterInfo) -> dict[str, Any]:
    """Return the brokers with their partitions as JSON."""
    leads, holds, in_sync = _loads(info)
    return {
        "cluster_id": info.cluster_id,
        "controller": info.controller_id,
        "topics": len(info.topics),
        "partitions": len(info.partitions),
        "brokers": [
            {
                "broker": each.node_id,
                "host": each.address.host,
                "port": each.address.port,
                "rack": each.rack,
                "alive": each.is_alive,
                "leads": leads[each.node_id],
                "holds": holds[each.node_id],
                "in_sync": in_sync[each.node_id],
            }
            for each in info.brokers.values()
        ],
        "moves": moves_as_json(info.moves),
    }


def moves_as_json(moves: Mapping[TopicPartition, MoveInfo]) -> list[dict[str, Any]]:
    """Return ongoing moves as JSON."""
    return [
        {
            "topic": at.topic,
            "partition": at.partition,
            "replicas": list(each.replicas),
            "adding": list(each.adding),
            "removing": list(each.removing),
        }
        for at, each in moves.items()
    ]


def print_plan(rows: Iterable[tuple[TopicPartition, tuple[int, ...], tuple[int, ...]]]) -> None:
    """Print the current and the new replicas of partitions."""
    table = [[at.topic, str(at.partition), _nodes(before), _nodes(after)] for at, before, after in rows]
    print_table(["topic", "partition", "from", "to"], table, right=["partition"])


def plan_as_json(plan: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Any]:
    """Return a plan in the format of Kafka's reassignment tool, which `ottla cluster reassign --plan`
    reads.
    """
    partitions = [
        {"topic": at.topic, "partition": at.partition, "replicas": list(replicas)}
        for at, replicas in plan.items()
    ]
    return {"version": 1, "partitions": partitions}


def _nodes(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))


def _loads(info: ClusterInfo) -> tuple[Counter[int], Counter[int], Counter[int]]:
    partitions = info.partitions.values()
    leads = Counter(each.leader for each in partitions)
    holds = Counter(node for each in partitions for node in each.replicas)
    in_sync = Counter(node for each in partitions for node in each.isr)
    return leads, holds, in_sync
