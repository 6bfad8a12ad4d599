"""Brokers that die or sleep under load: nothing that was acknowledged is lost, reordered or doubled."""

from __future__ import annotations

import time

import pytest
from tests.cluster.conditions import ClusterMaker
from tests.cluster.trial import TOPIC, Trial

from ottla.testing.cluster_process import wait_until

SESSION_S = 2.0
FAILOVER_S = 4.0
IN_SYNC_AGAIN_S = 10.0


def test_kill_9_of_the_leader(under_conditions: ClusterMaker) -> None:
    with under_conditions() as cluster, Trial(cluster) as trial:
        for _ in range(2):
            leader = trial.leader()
            cluster.kill(leader)
            assert trial.wait_for_acks() < cluster.within(FAILOVER_S + 2), "all partitions, on a busy machine"
            cluster.start(leader)
            started = time.monotonic()
            cluster.wait_until_in_sync(cluster.within(IN_SYNC_AGAIN_S))
            print(f"in sync {time.monotonic() - started:.2f} s after the restart")


@pytest.mark.cluster
def test_kill_9_of_the_controller(under_conditions: ClusterMaker) -> None:
    with under_conditions() as cluster, Trial(cluster) as trial:
        for _ in range(2):
            controller = cluster.controller()
            cluster.kill(controller)
            print(f"acks=all resumed after {trial.wait_for_acks():.2f} s")
            assert cluster.controller() != controller
            cluster.start(controller)
            cluster.wait_until_in_sync(cluster.within(IN_SYNC_AGAIN_S))


@pytest.mark.cluster
def test_kill_9_of_the_coordinator_of_a_group(under_conditions: ClusterMaker) -> None:
    """The group continues with the next leader of its part of `__consumer_offsets`, where it left off."""
    with under_conditions() as cluster, Trial(cluster) as trial:
        for _ in range(2):
            coordinator = trial.coordinator()
            cluster.kill(coordinator)
            trial.wait_for_acks()
            before = trial.group_position()
            wait_until(lambda before=before: trial.group_position() > before + 500)
            assert trial.coordinator() != coordinator
            cluster.start(coordinator)
            cluster.wait_until_in_sync(cluster.within(IN_SYNC_AGAIN_S))


@pytest.mark.cluster
def test_kill_9_of_a_follower(under_conditions: ClusterMaker) -> None:
    with under_conditions() as cluster, Trial(cluster) as trial:
        for _ in range(2):
            follower = trial.follower()
            cluster.kill(follower)
            print(f"acks=all resumed after {trial.wait_for_acks():.2f} s")
            cluster.start(follower)
            cluster.wait_until_in_sync(cluster.within(IN_SYNC_AGAIN_S))


def test_a_leader_that_sleeps_past_its_session(under_conditions: ClusterMaker) -> None:
    """When it wakes up it believes for a moment that it still leads: its epoch gives it away."""
    with under_conditions() as cluster, Trial(cluster) as trial:
        leader = trial.leader()
        cluster.pause(leader)
        cluster.wait_for_leader(TOPIC, 0, other_than=leader)
        print(f"acks=all resumed {trial.wait_for_acks():.2f} s after another leader was elected")
        trial.run_for(SESSION_S)
        cluster.resume(leader)
        cluster.wait_until_in_sync(cluster.within(IN_SYNC_AGAIN_S))


@pytest.mark.cluster
def test_brokers_that_are_killed_one_after_the_other_until_all_were(under_conditions: ClusterMaker) -> None:
    """Each is back, but perhaps not yet in sync, when the next one goes."""
    with under_conditions() as cluster, Trial(cluster) as trial:
        for number in cluster.brokers:
            cluster.kill(number)
            trial.run_for(SESSION_S + 1)
            cluster.start(number)
        trial.wait_for_acks()


def test_a_rolling_restart_under_load(under_conditions: ClusterMaker) -> None:
    """Leaders move before their broker stops; producers with default retries never see an error."""
    with under_conditions() as cluster, Trial(cluster) as trial:
        for number in cluster.brokers:
            cluster.restart(number)
            cluster.wait_until_in_sync(cluster.within(IN_SYNC_AGAIN_S))
        assert trial.longest_wait_s < cluster.within(5), "a restart is hardly noticed"
