"""Members of consumer groups that join, leave, stall, crash and change their minds, by the thousand.

OTTLA_SEEDS=20000 runs more of them; a failure names its seed.
"""

import os

import pytest
from tests.simulation.consumer_classic_client import ClassicClient
from tests.simulation.consumer_client import ConsumerClient
from tests.simulation.consumer_world import World

SEEDS = int(os.environ.get("OTTLA_SEEDS", "400"))
CHUNKS = 8
FAULTS = (0.1, 0.4, 0.8)


def play(seed: int, *, with_classic: bool) -> World:
    world = World(seed, FAULTS[seed % 3])
    dice = world.random
    for place in range(1 + seed % 5):
        world.clients.append(ConsumerClient(world, f"m{place}", is_static=dice.random() < 0.3))
    if with_classic:
        is_cooperative = dice.random() < 0.5
        for place in range(1 + seed % 3):
            world.clients.append(ClassicClient(world, f"c{place}", is_cooperative=is_cooperative))
    try:
        world.run(200_000)
        world.settle()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    return world


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_partition_has_one_owner_and_groups_come_to_rest(chunk: int) -> None:
    for seed in range(chunk, SEEDS, CHUNKS):
        play(seed, with_classic=False)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_so_it_is_in_groups_that_change_their_protocol_to_and_fro(chunk: int) -> None:
    for seed in range(chunk, SEEDS, CHUNKS):
        play(seed, with_classic=True)
