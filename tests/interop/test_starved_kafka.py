"""Apache Kafka beside Ottla: three brokers on the same part of one core, under more load than they can take.

The load is that of tests/cluster/test_schedules_starved.py: one producer, not idempotent, acks=all, 100 KB
records. Neither may store a record twice; what each takes is printed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.load import create_topic
from tests.cluster.starved import flood
from tests.interop.java_process import require_java
from tests.interop.kafka_cluster import KafkaCluster

from ottla.testing.cluster_process import ClusterProcess

pytestmark = [pytest.mark.timeout(600)]

CORES = {"Ottla": (0.3, 0.1), "Kafka": (0.3,)}
"""On a tenth of a core Kafka 4.3.1 does not acknowledge in 120 s what the producer has queued (100 MB)."""
LOAD_S = 12.0
SESSION_TIMEOUT_MS = 60_000
PATIENCE = {
    "broker.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "controller.quorum.fetch.timeout.ms": "20000",
}


def clusters(folder: Path) -> dict[str, ClusterProcess]:
    """Return the two clusters, not yet started."""
    return {
        "Ottla": ClusterProcess(folder / "ottla", session_timeout_ms=SESSION_TIMEOUT_MS),
        "Kafka": KafkaCluster(folder / "kafka", settings=PATIENCE),
    }


@pytest.mark.parametrize("name", ["Ottla", "Kafka"])
def test_starved_clusters_store_nothing_twice(tmp_path: Path, name: str) -> None:
    require_java()
    with clusters(tmp_path)[name] as cluster:
        for cores in CORES[name]:
            topic = f"starved-{cores}"
            create_topic(cluster.bootstrap, topic, 1, {"min.insync.replicas": "2"}, replicas=3)
            cluster.wait_until_in_sync()
            flooded = flood(cluster, topic, "all", LOAD_S, list(cluster.brokers.values()), cores)
            print(
                f"{name}, {cores} core: {flooded.acked} records acknowledged, {flooded.mb_per_s:.1f} MB/s, "
                f"{flooded.doubled} doubled, {len(flooded.failures)} failed"
            )
            assert (flooded.doubled, flooded.failures) == (0, [])
