"""Members of a classic group that join, leave, stall, crash and time out, by the thousand.

OTTLA_SEEDS=20000 runs more of them; a failure names its seed.
"""

import os

import pytest
from tests.simulation.classic_world import World

SEEDS = int(os.environ.get("OTTLA_SEEDS", "1000"))
CHUNKS = 10


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_groups_keep_their_promises_whatever_their_members_do(chunk: int) -> None:
    for seed in range(chunk, SEEDS, CHUNKS):
        world = World(seed, clients=1 + seed % 8, faults=(0.1, 0.4, 0.8)[seed % 3])
        try:
            world.run(60_000)
            world.settle()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
