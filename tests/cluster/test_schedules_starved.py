"""Brokers with hardly any CPU time stay in sync, and store nothing twice; see starved.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.load import create_topic
from tests.cluster.starved import flood

from ottla.testing.cluster_process import ClusterProcess

pytestmark = [pytest.mark.cluster]

LOAD_S = 10.0
LAG_MAX_MS = {"all": 2_000, "1": 5_000}
"""By acks: who does not wait for the followers is slowed down only when these lag."""
SESSION_TIMEOUT_MS = 30_000


@pytest.mark.parametrize("acks", ["all", "1"])
def test_starved_brokers_stay_in_sync_and_nothing_is_doubled(tmp_path: Path, acks: str) -> None:
    settings = {"replica.lag.time.max.ms": str(LAG_MAX_MS[acks])}
    with ClusterProcess(tmp_path, settings=settings, session_timeout_ms=SESSION_TIMEOUT_MS) as cluster:
        create_topic(cluster.bootstrap, "t", 1, {"min.insync.replicas": "2"}, replicas=3)
        cluster.wait_until_in_sync()
        leader = cluster.leader_of("t", 0)
        # If producers wait for the followers, these alone are slow: the leader would take everything at once.
        slow = [each for number, each in cluster.brokers.items() if acks == "1" or number != leader]
        flooded = flood(cluster, "t", acks, LOAD_S, slow)
        changes = cluster.brokers[leader].stderr_tail(10_000).count("t-0, epoch 0: proposing the ISR")
    print(
        f"acks={acks}: {flooded.acked} records acknowledged, {flooded.mb_per_s:.1f} MB/s, "
        f"{flooded.doubled} doubled, {changes} changes of the ISR"
    )
    assert not flooded.failures
    assert flooded.doubled == 0
    assert changes == 0, "followers that make progress stay in sync"
