"""How long a cluster of three brokers is disturbed by the death of one of them, with sessions of 2 s.

leader        kill -9 of a partition's leader, until a producer with acks=all is answered again
in sync       from the ready line of the broker that is back, until it is in every ISR
controller    kill -9 of the controller, until a topic can be created again
many          1,000 partitions: kill -9 of a broker that leads a third of them, until all have leaders again
idle          the CPU of three brokers with 1,000 unused partitions
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.testing.cluster_process import ClusterProcess, view_of, wait_until

KILLS = 30
MANY_PARTITIONS = 1_000
IDLE_S = 10.0
TOPIC = "t"
QUICK: dict[str, Any] = {
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "log_level": 0,
    "error_cb": lambda _: None,
}


@dataclass
class Failovers:
    """What was measured, in seconds."""

    leader_s: list[float] = field(default_factory=list)
    in_sync_s: list[float] = field(default_factory=list)
    controller_s: list[float] = field(default_factory=list)
    many_s: float = math.nan
    idle_cores: float = math.nan


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value that `part` of them do not exceed."""
    return sorted(values)[min(len(values) - 1, math.ceil(part * len(values)) - 1)]


def kills(data: Path, count: int = KILLS) -> Failovers:
    """Kill leaders and controllers in turn."""
    measured = Failovers()
    with ClusterProcess(data) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUICK})
        _create(admin, TOPIC, 3)
        cluster.wait_until_in_sync()
        for number in range(count):
            measured.leader_s.append(_kill_leader(cluster, number % 3, measured))
        for number in range(max(1, count // 5)):
            measured.controller_s.append(_kill_controller(cluster, number))
    return measured


def _kill_leader(cluster: ClusterProcess, partition: int, measured: Failovers) -> float:
    answers: list[float] = []

    def answered(error: KafkaError | None, _: Message) -> None:
        if error is None:
            answers.append(time.monotonic())

    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 0, **QUICK}
    )

    def has_answer_after(moment: float) -> bool:
        producer.produce(TOPIC, b"x", partition=partition, on_delivery=answered)
        producer.poll(0.02)
        return bool(answers) and answers[-1] > moment

    wait_until(lambda: has_answer_after(0))
    leader = cluster.leader_of(TOPIC, partition)
    cluster.kill(leader)
    killed = time.monotonic()
    # Answers to what the dead leader had acknowledged are still on their way for a moment.
    wait_until(lambda: has_answer_after(killed + 0.2))
    took = next(each for each in answers if each > killed + 0.2) - killed
    producer.flush(30)
    cluster.start(leader)
    started = time.monotonic()
    cluster.wait_until_in_sync()
    measured.in_sync_s.append(time.monotonic() - started)
    return took


def _kill_controller(cluster: ClusterProcess, number: int) -> float:
    controller = cluster.controller()
    cluster.kill(controller)
    killed = time.monotonic()

    def is_created() -> bool:
        try:
            # A new client each time: librdkafka's keeps waiting for the controller that it knew.
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUICK})
            _create(admin, f"after-{number}", 1, replicas=2, within_s=1)
        except KafkaException as error:
            return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)  # by an earlier attempt
        return True

    wait_until(is_created)
    took = time.monotonic() - killed
    cluster.start(controller)
    cluster.wait_until_in_sync()
    return took


def many_partitions(data: Path, measured: Failovers, count: int = MANY_PARTITIONS) -> None:
    """Measure idle CPU, then kill a broker that leads a third of the partitions."""
    with ClusterProcess(data) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUICK})
        _create(admin, "many", count)
        cluster.wait_until_in_sync(60)
        before = sum(broker.cpu_seconds() for broker in cluster.running())
        time.sleep(IDLE_S)
        measured.idle_cores = (sum(broker.cpu_seconds() for broker in cluster.running()) - before) / IDLE_S
        victim = cluster.leader_of("many", 0)
        (watching, *_) = (broker for number, broker in cluster.brokers.items() if number != victim)
        cluster.kill(victim)
        killed = time.monotonic()

        def all_led() -> bool:
            leaders = {each.leader for each in view_of(watching.listen, 10).partitions.values()}
            return victim not in leaders and -1 not in leaders

        wait_until(all_led, 60)
        measured.many_s = time.monotonic() - killed


def _create(admin: AdminClient, name: str, partitions: int, replicas: int = 3, within_s: float = 60) -> None:
    topic = NewTopic(name, partitions, replicas)
    admin.create_topics([topic], operation_timeout=within_s, request_timeout=within_s)[name].result(60)
