"""ZooKeeper that dies or sleeps under load: brokers go on without it as long as nobody else does."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.trial import Trial

from ottla.testing.cluster_process import ClusterProcess, ZooKeeperProcess, ensemble

SESSION_S = 2.0


class Ensemble(ZooKeeperProcess):
    """Three servers with the face of one."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.servers = ensemble(data, 3)
        for each in self.servers:
            each.settings["tickTime"] = "200"

    @property
    def address(self) -> str:
        """Where clients reach them."""
        return ",".join(each.address for each in self.servers)

    @property
    def is_running(self) -> bool:
        """Whether any of them runs."""
        return any(each.is_running for each in self.servers)

    def start(self, ready_within_s: float = 30.0) -> None:
        """Start those that do not run, and wait until all serve."""
        for each in self.servers:
            if not each.is_running:
                each.launch()
        for each in self.servers:
            each.wait_until_ready(ready_within_s)

    def stop(self, within_s: float = 30.0) -> None:
        """End all of them."""
        for each in self.servers:
            each.stop(within_s)

    def kill(self) -> None:
        """End all of them without warning."""
        for each in self.servers:
            each.kill()


class EnsembleCluster(ClusterProcess):
    """Brokers on an ensemble of three."""

    def make_zookeeper(self, data: Path) -> Ensemble:
        """Return the ensemble, not yet started."""
        return Ensemble(data)


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


@pytest.mark.cluster
def test_every_server_of_an_ensemble_dies_in_turn_and_a_leader_with_each(tmp_path: Path) -> None:
    with EnsembleCluster(tmp_path) as cluster, Trial(cluster) as trial:
        assert isinstance(cluster.zookeeper, Ensemble)
        for server in cluster.zookeeper.servers:
            leader = trial.leader()
            server.kill()
            cluster.kill(leader)
            print(f"acks=all resumed after {trial.wait_for_acks():.2f} s")
            cluster.zookeeper.start()
            cluster.start(leader)
            cluster.wait_until_in_sync()
