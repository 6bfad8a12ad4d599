"""Every place for a connection is taken by idle peers, under load: brokers still reach each other."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from tests.cluster.conditions import ClusterMaker
from tests.cluster.hostile import connections, is_closed
from tests.cluster.trial import Trial

from ottla.testing.cluster_process import wait_until

pytestmark = [pytest.mark.cluster]

PLACES, CROWD = 60, 100
IN_SYNC_AGAIN_S = 20.0


def test_a_broker_comes_back_while_idle_connections_fill_the_others(under_conditions: ClusterMaker) -> None:
    settings = {"max.connections": str(PLACES)}
    with under_conditions(settings=settings) as cluster, Trial(cluster) as trial:
        for victim in (trial.follower(), cluster.controller()):
            with ExitStack() as stack:
                for number, broker in cluster.brokers.items():
                    if number != victim:
                        crowd = stack.enter_context(connections(broker, CROWD))
                        assert is_closed(crowd[-1])
                cluster.kill(victim)
                cluster.start(victim)  # its peers have places for it that no client may use
                wait_until(
                    lambda victim=victim: cluster.view(victim).is_whole, cluster.within(IN_SYNC_AGAIN_S)
                )
            print(f"acks=all resumed {trial.wait_for_acks():.2f} s after the crowd had left")
