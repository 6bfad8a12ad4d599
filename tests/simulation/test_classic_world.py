"""The simulation of classic groups finds the bugs that are planted in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.classic_world import World

from ottla.coordinator.group.classic import join, members, rebalance
from ottla.coordinator.group.classic.group import ClassicGroup, Member
from ottla.coordinator.group.classic.update import GroupUpdate

SEEDS = 60


def nothing(*_: Any, **__: Any) -> None:
    """Do nothing, where something ought to happen."""


def begin_without_counting(group: ClassicGroup, now_ms: int) -> None:
    generation_id = group.generation_id
    begin_generation(group, now_ms)
    if generation_id > 3:
        group.generation_id = generation_id


def remove_in_silence(turn: GroupUpdate, member: Member) -> None:
    turn.group.remove(member.member_id)
    turn.cancel_session_timer(member.member_id)


def remove_but_let_it_lead(group: ClassicGroup, member_id: str) -> None:
    leader_id = group.leader_id
    remove(group, member_id)
    group.leader_id = leader_id


def answer_without_writing(turn: GroupUpdate, *args: Any) -> None:
    written = len(turn.records)
    answer_without_rebalance(turn, *args)
    del turn.records[written:]


begin_generation, remove = ClassicGroup.begin_generation, ClassicGroup.remove
answer_without_rebalance = join._answer_without_rebalance

BUGS: list[tuple[object, str, Callable[..., Any]]] = [
    (GroupUpdate, "set_sync_timer", nothing),
    (GroupUpdate, "set_session_timer", nothing),
    (GroupUpdate, "write", nothing),
    (ClassicGroup, "begin_generation", begin_without_counting),
    (ClassicGroup, "remove", remove_but_let_it_lead),
    (ClassicGroup, "copy", lambda group: group),
    (members, "remove_member", remove_in_silence),
    (rebalance, "_take_assignments_back", nothing),
    (join, "_answer_without_rebalance", answer_without_writing),
]


@pytest.mark.parametrize(("owner", "name", "bug"), BUGS, ids=[name for _, name, _ in BUGS])
def test_a_planted_bug_is_found(
    owner: object, name: str, bug: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, bug)
    with pytest.raises(AssertionError):
        for seed in range(SEEDS):
            world = World(seed, clients=1 + seed % 8, faults=(0.1, 0.4, 0.8)[seed % 3])
            world.run(60_000)
            world.settle()
