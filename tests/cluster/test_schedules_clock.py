"""Wall clocks that jump by an hour, forwards and backwards, each broker's by itself, under load.

Order, leadership and sessions hang on no wall clock: only timestamps and retention look at it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.conditions import ConditionedCluster, Conditions
from tests.cluster.trial import Trial

pytestmark = [pytest.mark.cluster]

HOUR_S = 3_600


def test_wall_clocks_that_jump_by_an_hour(tmp_path: Path) -> None:
    with ConditionedCluster(tmp_path, Conditions(clocks=True)) as cluster, Trial(cluster) as trial:
        leader, follower = trial.leader(), trial.follower()
        for one, other in ((HOUR_S, -HOUR_S), (-HOUR_S, HOUR_S), (0, 0)):
            cluster.move_clock(leader, one)
            cluster.move_clock(follower, other)
            trial.wait_for_acks(within_s=10)  # nothing waits for a wall clock
            trial.run_for(0.5)
        cluster.move_clock(leader, -HOUR_S)
        cluster.kill(leader)
        print(f"acks=all resumed after {trial.wait_for_acks():.2f} s")
        cluster.start(leader)
        assert trial.longest_wait_s < 10
