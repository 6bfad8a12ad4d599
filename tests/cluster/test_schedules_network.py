"""Links that are cut under load: a leader without its followers, a leader without ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.namespaces import NoNamespaces
from tests.cluster.network_cluster import NetworkCluster, network_cluster
from tests.cluster.trial import TOPIC, Trial

pytestmark = [pytest.mark.root, pytest.mark.cluster]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NetworkCluster]:
    """A cluster on a network of its own."""
    try:
        with network_cluster(tmp_path) as started:
            yield started
    except NoNamespaces as reason:
        pytest.skip(f"no network namespaces: {reason}")


def test_a_leader_that_is_cut_from_its_followers(cluster: NetworkCluster) -> None:
    """It keeps its session; it can only shrink the ISR to itself, and that is below min.insync.replicas."""
    with Trial(cluster) as trial:
        leader = trial.leader()
        for other in cluster.brokers.keys() - {leader}:
            cluster.cut_brokers(leader, other)
        trial.run_for(5)
        cluster.heal()
        print(f"acks=all resumed {trial.wait_for_acks():.2f} s after the links were back")


def test_a_leader_that_is_cut_from_zookeeper_only(cluster: NetworkCluster) -> None:
    """Another broker is elected behind its back; whatever it still takes in it must not acknowledge."""
    with Trial(cluster) as trial:
        leader = trial.leader()
        cluster.cut_from_zookeeper(leader)
        cluster.wait_for_leader(TOPIC, 0, other_than=leader)
        print(f"acks=all resumed {trial.wait_for_acks():.2f} s after another leader was elected")
        cluster.heal()


def test_a_follower_that_is_cut_off_from_everything(cluster: NetworkCluster) -> None:
    with Trial(cluster) as trial:
        follower = trial.follower()
        for other in cluster.brokers.keys() - {follower}:
            cluster.cut_brokers(follower, other)
        cluster.cut_from_zookeeper(follower)
        trial.run_for(3)
        trial.wait_for_acks()
        cluster.heal()


def test_followers_that_hear_their_leader_but_are_not_heard(cluster: NetworkCluster) -> None:
    """Cut one way: what the followers send is lost."""
    with Trial(cluster) as trial:
        leader = trial.leader()
        for other in cluster.brokers.keys() - {leader}:
            cluster.network.cut_one_way(f"broker-{other}", f"broker-{leader}")
        trial.run_for(3)
        cluster.heal()
        trial.wait_for_acks()
