"""The state of a cluster, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from ottla.cli.support.output import count, print_table
from ottla.client.admin.cluster_admin import ClusterInfo, MoveInfo
from ottla.common.ids import TopicPartition

SHOWN = 20
"""How many partitions are listed by name, before only their number is shown."""


@dataclass(frozen=True)
class Health:
    """The problems of a cluster. Moves and leaders that are not preferred do not count as problems."""

    dead_brokers: list[int]
    offline: list[TopicPartition]
    under_min_isr: list[TopicPartition]
    under_replicated: list[TopicPartition]
    moving: list[TopicPartition]
    not_preferred: list[TopicPartition]
    out_of_sync: dict[TopicPartition, list[int]]
    """The out-of-sync replicas of the under-replicated partitions."""

    @classmethod
    def of(cls, info: ClusterInfo, min_insync: Mapping[str, int]) -> Health:
        """Check a cluster; `min_insync` is min.insync.replicas of every topic."""
        partitions = info.partitions
        out_of_sync = {
            at: sorted(missing)
            for at, each in partitions.items()
            if (missing := {*info.target(at)} - {*each.isr}) and at not in info.moves
        }
        return cls(
            dead_brokers=sorted(each.node_id for each in info.brokers.values() if not each.is_alive),
            offline=[at for at, each in partitions.items() if each.leader < 0],
            under_min_isr=[
                at
                for at, each in partitions.items()
                if each.leader >= 0 and len(each.isr) < min(min_insync.get(at.topic, 1), len(info.target(at)))
            ],
            under_replicated=list(out_of_sync),
            moving=list(info.moves),
            not_preferred=[
                at
                for at, each in partitions.items()
                if each.leader >= 0 and each.leader != info.target(at)[0]
            ],
            out_of_sync=out_of_sync,
        )

    @property
    def is_healthy(self) -> bool:
        """Whether there are no problems."""
        return not (self.dead_brokers or self.offline or self.under_min_isr or self.under_replicated)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "healthy": self.is_healthy,
            "dead_brokers": self.dead_brokers,
            "offline": list(map(str, self.offline)),
            "under_min_isr": list(map(str, self.under_min_isr)),
            "under_replicated": list(map(str, self.under_replicated)),
            "moving": list(map(str, self.moving)),
            "not_led_by_preferred": list(map(str, self.not_preferred)),
        }

    def print(self) -> None:
        """Print it as text, the worst first."""
        red, yellow = "red", "yellow"
        for node_id in self.dead_brokers:
            click.echo(click.style(f"broker {node_id} is not alive", fg=red))
        _print_kind(self.offline, "offline: no leader, cannot be read or written", red)
        _print_kind(self.under_min_isr, "below min.insync.replicas: produce with acks=all is rejected", red)
        lacking = {at: f", without {_nodes(nodes)}" for at, nodes in self.out_of_sync.items()}
        _print_kind(self.under_replicated, "under-replicated: replicas are out of sync", yellow, lacking)
        _print_kind(self.moving, "being moved to other brokers", None)
        _print_kind(self.not_preferred, "not led by the preferred leader (ottla cluster elect)", None)
        if self.is_healthy:
            click.echo(click.style("every partition has a leader and all replicas in sync", fg="green"))


def _print_kind(
    partitions: list[TopicPartition],
    what: str,
    colour: str | None,
    details: Mapping[TopicPartition, str] | None = None,
) -> None:
    if not partitions:
        return
    click.echo(click.style(f"{count(len(partitions), 'partition')} {what}", fg=colour))
    for at in partitions[:SHOWN]:
        click.echo(f"  {at}{(details or {}).get(at, '')}")
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
