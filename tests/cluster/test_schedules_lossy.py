"""Slow links that lose packets, between brokers and to clients, under load and kill -9."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.conditions import ConditionedCluster, Conditions
from tests.cluster.trial import Trial

pytestmark = [pytest.mark.cluster]


def test_links_that_delay_lose_packets_and_break(tmp_path: Path) -> None:
    cluster = ConditionedCluster(tmp_path, Conditions(loss=True))
    weather = cluster.weather
    with cluster, Trial(cluster) as trial:
        weather.delay_ms, weather.loss = (1.0, 20.0), 0.02
        trial.wait_for_acks()
        cluster.proxies.reset_all()
        print(f"acks=all resumed {trial.wait_for_acks():.2f} s after all connections broke")
        leader = trial.leader()
        cluster.kill(leader)
        print(f"acks=all resumed {trial.wait_for_acks():.2f} s after the leader's death")
        cluster.start(leader)
        trial.wait_for_acks()
        assert cluster.proxies.lost > 0
