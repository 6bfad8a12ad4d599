"""The table of workloads: which peers they are for, and how these are set up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers import (
    work_coordination,
    work_lifecycle,
    work_requests,
    work_streams,
    work_throughput,
)
from benchmarks.peers.kafka import KafkaNodes, OlderKafka, ThreeKafkas
from benchmarks.peers.load import Figures
from benchmarks.peers.nats import Nats
from benchmarks.peers.ottla import OneOttla, ThreeOttlas
from benchmarks.peers.rabbitmq import RabbitMQ
from benchmarks.peers.redis import Redis
from benchmarks.peers.scale import Scale
from benchmarks.peers.servers import Server

Maker = Callable[[Path, dict[str, str]], Server]
PEERS: dict[str, Maker] = {
    "ottla": OneOttla,
    "kafka": KafkaNodes,
    "kafka39": OlderKafka,
    "ottla3": ThreeOttlas,
    "kafka3": ThreeKafkas,
    "nats": Nats,
    "redis": Redis,
    "rabbitmq": RabbitMQ,
}


@dataclass(frozen=True)
class Workload:
    """One letter of the issue."""

    name: str
    run: Callable[[Server, Scale], Iterator[tuple[str, Figures]]]
    peers: Sequence[str] = ("ottla", "kafka")
    settings: Mapping[str, str] = field(default_factory=dict)
    """Beside the defaults, the same for every peer."""
    is_started: bool = True
    """Whether the server runs when the workload gets it."""


WORKLOADS = [
    Workload("throughput", work_throughput.alone, ("ottla", "kafka", "kafka39")),
    Workload("requests", work_requests.requests),
    Workload("latency", work_requests.latency),
    Workload("replication", work_throughput.replicated, ("ottla3", "kafka3")),
    Workload("lifecycle", work_lifecycle.lifecycle, is_started=False),
    Workload("groups", work_coordination.rebalances, settings=work_coordination.GROUP_SETTINGS),
    Workload("transactions", work_coordination.in_transactions),
    Workload("streams", work_streams.one_stream, ("ottla", "kafka", "nats", "redis", "rabbitmq")),
]
