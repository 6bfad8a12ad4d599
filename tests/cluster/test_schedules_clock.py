"""Wall clocks that jump by an hour, forwards and backwards, each broker's by itself, under load.

Order, leadership and sessions hang on no wall clock: only timestamps and retention look at it.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from tests.cluster.trial import Trial

from ottla.testing.broker_process import BrokerProcess
from ottla.testing.cluster_process import ClusterProcess

pytestmark = [pytest.mark.cluster]

HOUR_S = 3_600


class SkewedCluster(ClusterProcess):
    """A cluster whose brokers have wall clocks of their own."""

    def __init__(self, data: Path, library: Path) -> None:
        self._library = library
        super().__init__(data)

    def make_broker(
        self, number: int, settings: dict[str, str], arguments: list[str], environment: dict[str, str]
    ) -> BrokerProcess:
        """Return a broker whose clock can be moved."""
        self._skew_file(number).write_bytes(struct.pack("=q", 0))
        skewed = {"LD_PRELOAD": str(self._library), "OTTLA_SKEW": str(self._skew_file(number))}
        return super().make_broker(number, settings, arguments, {**environment, **skewed})

    def move_clock(self, number: int, seconds: int) -> None:
        """Have the wall clock of a broker be ahead by this much (behind, if negative)."""
        with self._skew_file(number).open("r+b") as file:
            file.write(struct.pack("=q", seconds))

    def _skew_file(self, number: int) -> Path:
        return self.data / f"skew-{number}"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """The library that moves clocks, compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    made = tmp_path / "skewed_clock.so"
    source = Path(__file__).with_name("skewed_clock.c")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", str(made), str(source), "-ldl"], check=True
    )
    return made


def test_wall_clocks_that_jump_by_an_hour(tmp_path: Path, library: Path) -> None:
    with SkewedCluster(tmp_path, library) as cluster, Trial(cluster) as trial:
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
