"""The sizes and the traffic of partitions, and how a plan spreads them over the brokers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import click

from ottla.cli.support.output import print_table, size_text
from ottla.client.admin.cluster_admin import ClusterInfo, describe_log_dirs
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.common.ids import TopicPartition
from ottla.common.placement import NO_WEIGHTS, Plan, Weights
from ottla.protocol.errors import KafkaError

SAMPLE_S = 2.0


async def measured(connected: Cluster, info: ClusterInfo, sample_s: float) -> Weights:
    """Return the bytes of partitions, and the bytes per second that were appended to them in a sample."""
    try:
        first = await _sizes(connected, info)
        if sample_s <= 0:
            return Weights(first)
        await asyncio.sleep(sample_s)
        second = await _sizes(connected, info)
    except (KafkaError, ClientError):
        return NO_WEIGHTS  # not allowed, or a broker went away: replicas are counted instead
    grown = {at: max(0.0, second.get(at, 0) - size) / sample_s for at, size in first.items()}
    return Weights(second, grown)


async def _sizes(connected: Cluster, info: ClusterInfo) -> dict[TopicPartition, float]:
    """Return the size of each partition: that of its largest replica."""
    sizes: dict[TopicPartition, float] = {}
    for directories in (await describe_log_dirs(connected, info.alive)).values():
        for directory in directories:
            for at, replica in directory.replicas.items():
                sizes[at] = max(sizes.get(at, 0.0), float(replica.size_bytes))
    return sizes


def loads(info: ClusterInfo, plan: Plan, weights: Weights) -> list[dict[str, Any]]:
    """Return what each broker has now, and with the plan."""
    now = {at: info.target(at) for at in info.partitions}
    before, after = _load(now, weights), _load({**now, **plan}, weights)
    return [
        {
            "broker": node_id,
            "rack": broker.rack,
            "replicas": [before[node_id, "replicas"], after[node_id, "replicas"]],
            "leaders": [before[node_id, "leaders"], after[node_id, "leaders"]],
            "bytes": [round(before[node_id, "bytes"]), round(after[node_id, "bytes"])],
            "leader_bytes_per_second": [
                round(before[node_id, "traffic"]),
                round(after[node_id, "traffic"]),
            ],
        }
        for node_id, broker in info.brokers.items()
    ]


def _load(plan: Mapping[TopicPartition, tuple[int, ...]], weights: Weights) -> Counter[tuple[int, str]]:
    found: Counter[tuple[int, str]] = Counter()
    for at, replicas in plan.items():
        for node_id in replicas:
            found[node_id, "replicas"] += 1
            found[node_id, "bytes"] += weights.bytes.get(at, 0)  # type: ignore[assignment]
        if replicas:
            found[replicas[0], "leaders"] += 1
            found[replicas[0], "traffic"] += weights.traffic.get(at, 0)  # type: ignore[assignment]
    return found


def print_loads(rows: list[dict[str, Any]]) -> None:
    """Print the brokers, before and after."""

    def change(pair: list[int], text: Any = str) -> str:
        return text(pair[0]) if pair[0] == pair[1] else f"{text(pair[0])} -> {text(pair[1])}"

    shown = {
        "replicas": [change(row["replicas"]) for row in rows],
        "preferred leaders": [change(row["leaders"]) for row in rows],
    }
    if any(any(row["bytes"]) for row in rows):  # otherwise it was not measured
        shown["records"] = [change(row["bytes"], size_text) for row in rows]
    if any(any(row["leader_bytes_per_second"]) for row in rows):
        shown["written as leader"] = [
            change(row["leader_bytes_per_second"], lambda rate: f"{size_text(rate)}/s") for row in rows
        ]
    table = [
        [str(row["broker"]), row["rack"] or "-", *cells]
        for row, *cells in zip(rows, *shown.values(), strict=True)
    ]
    click.echo()
    print_table(["broker", "rack", *shown], table, right=["broker", *shown])
