"""Plans of where partitions should be."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.admin.reassignment_planner import spread
from ottla.common.ids import TopicPartition


def topic(*replicas: tuple[int, ...]) -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition("t", index): each for index, each in enumerate(replicas)}


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[TopicPartition, tuple[int, ...]], dict[int, str | None], int]:
    brokers = draw(st.lists(st.integers(1, 9), min_size=1, max_size=7, unique=True))
    racks = {each: draw(st.sampled_from([None, "a", "b", "c"])) for each in brokers}
    factor = draw(st.integers(1, len(brokers)))
    everyone = [*brokers, 11, 12, 13, 14, 15, 16, 17]  # some replicas are on brokers that are to be left
    held = st.permutations(everyone).map(lambda order: tuple(order[:factor]))
    return topic(*draw(st.lists(held, max_size=25))), racks, factor


@settings(max_examples=150, deadline=None)
@given(clusters(), st.booleans())
def test_every_plan_is_whole_and_on_the_brokers_asked_for(cluster: tuple, even: bool) -> None:
    partitions, racks, factor = cluster
    plan = spread(partitions, racks, even=even)
    assert plan.keys() == partitions.keys()
    for replicas in plan.values():
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= racks.keys()


@settings(max_examples=150, deadline=None)
@given(clusters())
def test_without_racks_an_even_plan_is_even(cluster: tuple) -> None:
    partitions, racks, _ = cluster
    plan = spread(partitions, dict.fromkeys(racks))
    holds = Counter(dict.fromkeys(racks, 0))
    holds.update(each for replicas in plan.values() for each in replicas)
    assert max(holds.values()) - min(holds.values()) <= 1


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_a_plan_that_was_followed_stays(cluster: tuple) -> None:
    partitions, racks, _ = cluster
    plan = spread(partitions, racks)
    assert spread(plan, racks) == plan


def test_only_what_is_on_the_broker_that_leaves_moves() -> None:
    partitions = topic((1, 2), (2, 3), (3, 1), (1, 3))
    plan = spread(partitions, {1: None, 2: None}, even=False)
    assert plan[TopicPartition("t", 0)] == (1, 2)
    assert all(set(each) == {1, 2} for each in plan.values())


def test_a_new_broker_gets_its_share_and_little_moves() -> None:
    partitions = topic(*[(1, 2), (2, 1)] * 6)
    plan = spread(partitions, {1: None, 2: None, 3: None})
    moved = sum(len(set(plan[at]) - set(before)) for at, before in partitions.items())
    assert moved == 8  # a third of the 24 replicas
    leads = Counter(each[0] for each in plan.values())
    assert leads == {1: 4, 2: 4, 3: 4}


def test_copies_go_to_other_racks() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b"}
    plan = spread(topic((1,), (3,)), racks, replication_factor=2)
    assert all({racks[each] for each in replicas} == {"a", "b"} for replicas in plan.values())


def test_there_must_be_enough_brokers() -> None:
    with pytest.raises(ValueError, match="3 replicas need as many brokers, and there are 2"):
        spread(topic((1, 2, 3)), {1: None, 2: None})
