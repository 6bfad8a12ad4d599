"""ZooKeeper that dies or sleeps under load: brokers go on without it as long as nobody else does."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.trial import Trial

from ottla.testing.cluster_process import ClusterProcess

SESSION_S = 2.0


@pytest.mark.cluster
def test_zookeeper_is_killed_and_started_again(tmp_path: Path) -> None:
    """It keeps the sessions on its disk; nothing happens but that nothing can be changed meanwhile."""
    with ClusterProcess(tmp_path) as cluster, Trial(cluster) as trial:
        cluster.zookeeper.kill()
        trial.wait_for_acks(within_s=10)  # records need no ZooKeeper
        cluster.zookeeper.start()
        trial.run_for(1)
        leader = trial.leader()
        cluster.kill(leader)
        print(f"acks=all resumed after {trial.wait_for_acks():.2f} s")
        cluster.start(leader)


def test_zookeeper_sleeps_longer_than_every_session(tmp_path: Path) -> None:
    """When it wakes up every session may be over at once: all brokers, the controller too, begin anew."""
    with ClusterProcess(tmp_path) as cluster, Trial(cluster) as trial:
        cluster.zookeeper.pause()
        trial.run_for(2 * SESSION_S)
        cluster.zookeeper.resume()
        trial.run_for(1)
        print(f"acks=all resumed after {trial.wait_for_acks():.2f} s")
        cluster.wait_until_in_sync()


@pytest.mark.cluster
def test_a_leader_dies_while_zookeeper_is_away(tmp_path: Path) -> None:
    with ClusterProcess(tmp_path) as cluster, Trial(cluster) as trial:
        leader = trial.leader()
        cluster.zookeeper.kill()
        cluster.kill(leader)
        trial.run_for(1)
        cluster.zookeeper.start()
        print(f"acks=all resumed after {trial.wait_for_acks():.2f} s")
        cluster.start(leader)
