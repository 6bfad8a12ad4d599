"""Three brokers for the tests in which coordinators die, and who coordinates what.

With OTTLA_TEST_CLUSTER=kafka they are Apache Kafka's: that distinguishes a client's own faults from ours.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.cluster.failover import OFFSETS_PARTITIONS, STATE_PARTITIONS
from tests.cluster.load import create_topic

from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.coordinator.partitions import partition_for
from ottla.testing.cluster_process import ClusterProcess

IN_SYNC_WITHIN_S = 60.0
IS_KAFKA = os.environ.get("OTTLA_TEST_CLUSTER") == "kafka"
SETTINGS = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
    "transaction.two.phase.commit.enable": "true",
    "transaction.max.timeout.ms": "60000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}

Victim = Callable[[], int]


def three_brokers(folder: Path) -> ClusterProcess:
    """Return the cluster, not yet started."""
    if not IS_KAFKA:
        return ClusterProcess(folder, settings=SETTINGS)
    from tests.interop.kafka_cluster import KafkaCluster

    return KafkaCluster(folder, settings=SETTINGS)


def make_topic(cluster: ClusterProcess, name: str, partitions: int) -> str:
    """Create a topic with three replicas, of which two must have what is acknowledged."""
    create_topic(cluster.bootstrap, name, partitions, {"min.insync.replicas": "2"}, replicas=3)
    return name


def transaction_coordinator(cluster: ClusterProcess, transactional_id: str) -> int:
    """Return the broker that coordinates an id's transactions."""
    return cluster.leader_of(TRANSACTION_STATE_TOPIC, partition_for(transactional_id, STATE_PARTITIONS))


def group_coordinator(cluster: ClusterProcess, group: str) -> int:
    """Return the broker that coordinates a group."""
    return cluster.leader_of(CONSUMER_OFFSETS_TOPIC, partition_for(group, OFFSETS_PARTITIONS))


def kill_and_restart(cluster: ClusterProcess, victim: Victim, meanwhile: Callable[[], None]) -> None:
    """Kill -9, let the work continue without that broker, and restart it."""
    number = victim()
    cluster.kill(number)
    meanwhile()
    cluster.start(number)
    cluster.wait_until_in_sync(IN_SYNC_WITHIN_S)


def make_whole(cluster: ClusterProcess) -> None:
    """Bring everybody back, and into sync."""
    cluster.start_all()
    cluster.wait_until_in_sync(IN_SYNC_WITHIN_S)
