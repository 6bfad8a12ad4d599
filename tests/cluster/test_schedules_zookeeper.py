"""ZooKeeper that dies or sleeps under load: brokers continue without it until another broker fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.conditions import ClusterMaker, ConditionedCluster, Conditions, Ensemble
from tests.cluster.trial import Trial

SESSION_S = 2.0


@pytest.mark.cluster
def test_zookeeper_is_killed_and_started_again(under_conditions: ClusterMaker) -> None:
    """It keeps the sessions on its disk; nothing happens but that nothing can be changed meanwhile."""
    with under_conditions() as cluster, Trial(cluster) as trial:
        cluster.zookeeper.kill()
        trial.wait_for_acks(within_s=cluster.within(10))  # records need no ZooKeeper
        cluster.zookeeper.start()
        trial.run_for(1)
        leader = trial.leader()
        cluster.kill(leader)
        print(f"acks=all resumed after {trial.wait_for_acks():.2f} s")
        cluster.start(leader)


def test_zookeeper_sleeps_longer_than_every_session(under_conditions: ClusterMaker) -> None:
    """When it wakes up every session may be over at once: all brokers, the controller too, begin anew."""
    with under_conditions() as cluster, Trial(cluster) as trial:
        cluster.zookeeper.pause()
        trial.run_for(2 * SESSION_S)
        cluster.zookeeper.resume()
        trial.run_for(1)
        print(f"acks=all resumed after {trial.wait_for_acks():.2f} s")
        cluster.wait_until_in_sync()


@pytest.mark.cluster
def test_a_leader_dies_while_zookeeper_is_away(under_conditions: ClusterMaker) -> None:
    with under_conditions() as cluster, Trial(cluster) as trial:
        leader = trial.leader()
        cluster.zookeeper.kill()
        cluster.kill(leader)
        trial.run_for(1)
        cluster.zookeeper.start()
        print(f"acks=all resumed after {trial.wait_for_acks():.2f} s")
        cluster.start(leader)


@pytest.mark.cluster
def test_every_server_of_an_ensemble_dies_in_turn_and_a_leader_with_each(tmp_path: Path) -> None:
    with ConditionedCluster(tmp_path, Conditions(ensemble=True)) as cluster, Trial(cluster) as trial:
        assert isinstance(cluster.zookeeper, Ensemble)
        for server in cluster.zookeeper.servers:
            leader = trial.leader()
            server.kill()
            cluster.kill(leader)
            print(f"acks=all resumed after {trial.wait_for_acks():.2f} s")
            cluster.zookeeper.start()
            cluster.start(leader)
            cluster.wait_until_in_sync()
