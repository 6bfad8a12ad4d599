"""The table of workloads: which peers they are for, and how these are set up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.peers import (
    work_coordination,
    work_lifecycle,
    work_requests,
    work_scaling,
    work_streams,
    work_throughput,
)
from benchmarks.peers.goals import GOALS
from benchmarks.peers.kafka import KafkaNodes, OlderKafka, ThreeKafkas
from benchmarks.peers.load import Figures
from benchmarks.peers.nats import Nats
from benchmarks.peers.ottla import OneOttla, OttlaCluster, ThreeOttlas
from benchmarks.peers.rabbitmq import RabbitMQ
from benchmarks.peers.redis import Redis
from benchmarks.peers.scale import Scale
from benchmarks.peers.servers import Server

Maker = Callable[[Path, dict[str, str]], Server]
PEERS: dict[str, Maker] = {
    "ottla": OneOttla,
    "kafka": KafkaNodes,
    "kafka39": OlderKafka,
    "ottla1": partial(OttlaCluster, brokers=1),
    "ottla2": partial(OttlaCluster, brokers=2),
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
    brief: Sequence[str] = ()
    """Peers that do only the cases that have a goal, once."""

    @property
    def has_goals(self) -> bool:
        """Whether some of it is measured in every round."""
        return any(goal.workload == self.name for goal in GOALS)


WORKLOADS = [
    Workload("throughput", work_throughput.main_rows, ("ottla", "kafka", "kafka39"), brief=("kafka39",)),
    Workload(
        "requests",
        work_requests.requests,
        ("ottla", "kafka", "kafka39"),
        settings=work_requests.SETTINGS,
        brief=("kafka39",),
    ),
    Workload("latency", work_requests.latency, ("ottla", "kafka", "kafka39"), brief=("kafka39",)),
    Workload("replication", work_throughput.replicated, ("ottla3", "kafka3")),
    Workload("lifecycle", work_lifecycle.lifecycle, is_started=False),
    Workload("groups", work_coordination.rebalances, settings=work_coordination.GROUP_SETTINGS),
    Workload("transactions", work_coordination.in_transactions),
    Workload("streams", work_streams.one_stream, ("ottla", "kafka", "nats", "redis", "rabbitmq")),
    Workload("scaling", work_scaling.scaling, ("ottla1", "ottla2", "ottla3")),
    Workload("matrix-1024", partial(work_throughput.matrix, record_bytes=1024)),
    Workload("matrix-200", partial(work_throughput.matrix, record_bytes=200)),
]
"""What has a goal first: a run that is ended early has that."""
