"""Members of consumer groups that join, leave, stall, crash and change their minds, by the thousand.

OTTLA_SEEDS=20000 runs more of them; a failure names its seed.
"""

import os
from collections.abc import Callable

import pytest
from tests.simulation.consumer_classic_client import ClassicClient
from tests.simulation.consumer_client import ConsumerClient
from tests.simulation.consumer_world import World

from ottla.coordinator.group import classic_in_consumer_group, migration
from ottla.coordinator.group.consumer import heartbeat, leave, reconcile
from ottla.coordinator.group.consumer.group import ConsumerGroup

SEEDS = int(os.environ.get("OTTLA_SEEDS", "320"))
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


# Bugs that were planted have to be found, or the above shows nothing.


def plant_revocation_without_consent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconcile.Target, "may_still_have", lambda *_: False)


def plant_consent_by_silence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconcile.Target, "may_still_have", lambda target, _: target.owned is None)


def plant_taking_what_others_have(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "is_free", lambda *_: True)


def plant_blindness_to_topics(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(heartbeat, "have_topics_changed", lambda _: False)


def plant_no_rebalance_after_leaving(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leave, "bump_epoch", lambda _: None)


def plant_forgetting_what_classic_members_have(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(migration, "by_topic_id", lambda *_: {})


def plant_forgetting_what_classic_members_wait_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        classic_in_consumer_group, "_must_rejoin", lambda group, member: member.current.epoch < group.epoch
    )


@pytest.mark.parametrize(
    "plant",
    [
        plant_revocation_without_consent,
        plant_consent_by_silence,
        plant_taking_what_others_have,
        plant_blindness_to_topics,
        plant_no_rebalance_after_leaving,
        plant_forgetting_what_classic_members_have,
        plant_forgetting_what_classic_members_wait_for,
    ],
)
def test_planted_bugs_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="seed"):
        for seed in range(100):
            play(seed, with_classic=True)
