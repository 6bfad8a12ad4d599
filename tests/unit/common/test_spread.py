"""Plans of where partitions should be."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.common.ids import TopicPartition
from ottla.common.placement import Weights, spread


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


def leaders(plan: dict[TopicPartition, tuple[int, ...]], topic: str) -> Counter[int]:
    return Counter(replicas[0] for at, replicas in plan.items() if at.topic == topic)


def test_the_leaders_of_each_topic_are_spread_not_only_of_all_together() -> None:
    busy = {TopicPartition("busy", index): (1, 2, 3) for index in range(9)}
    idle = {TopicPartition("idle", index): (2 + index % 2, 1, 5 - (2 + index % 2)) for index in range(12)}
    plan = spread({**busy, **idle}, {1: None, 2: None, 3: None})
    assert leaders(plan, "busy") == {1: 3, 2: 3, 3: 3}
    assert leaders(plan, "idle") == {1: 4, 2: 4, 3: 4}
    assert all(set(plan[at]) == set(before) for at, before in busy.items())  # nothing is copied


def test_leaders_are_passed_on_over_several_partitions() -> None:
    partitions = topic((1, 2), (1, 2), (2, 3), (2, 3))
    # 3 leads nothing; 1 shares no partition with it, so 2 has to pass one on
    plan = spread(partitions, {1: None, 2: None, 3: None})
    assert max(leaders(plan, "t").values()) - min(leaders(plan, "t").get(each, 0) for each in (1, 2, 3)) <= 1


@settings(max_examples=100, deadline=None)
@given(st.lists(st.permutations([1, 2, 3, 4]), min_size=1, max_size=30), st.integers(1, 4))
def test_leaders_and_replicas_of_every_topic_are_even(orders: list[list[int]], factor: int) -> None:
    partitions = {
        TopicPartition(f"t{number % 3}", number // 3): tuple(order[:factor])
        for number, order in enumerate(orders)
    }
    racks: dict[int, str | None] = dict.fromkeys((1, 2, 3, 4))
    plan = spread(partitions, racks)
    for name in {at.topic for at in plan}:
        of_topic = {at: each for at, each in plan.items() if at.topic == name}
        holds = Counter(dict.fromkeys(racks, 0))
        holds.update(node for each in of_topic.values() for node in each)
        assert max(holds.values()) - min(holds.values()) <= 1
        leads = Counter(dict.fromkeys(racks, 0))
        leads.update(each[0] for each in of_topic.values())
        assert max(leads.values()) - min(leads.values()) <= 1
    assert spread(plan, racks) == plan


def test_a_large_partition_moves_to_an_empty_broker() -> None:
    large, small = TopicPartition("large", 0), [TopicPartition(f"small{each}", 0) for each in range(4)]
    partitions = {large: (1,), small[0]: (1,), small[1]: (1,), small[2]: (2,), small[3]: (2,)}
    weights = Weights({large: 1000.0, **dict.fromkeys(small, 10.0)})
    plan = spread(partitions, {1: None, 2: None}, weights=weights)
    assert plan[large] == (1,)  # it is the rest that moves away from it
    assert all(plan[each] == (2,) for each in small)


def test_traffic_decides_who_leads_where_the_topics_leave_a_choice() -> None:
    first, second = TopicPartition("a", 0), TopicPartition("b", 0)
    partitions = {first: (1, 2), second: (1, 2)}
    plan = spread(partitions, {1: None, 2: None}, weights=Weights(traffic={first: 100.0, second: 90.0}))
    assert {plan[first][0], plan[second][0]} == {1, 2}


def test_two_replicas_on_one_rack_are_separated() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "c"}
    plan = spread(topic((1, 2), (2, 1)), racks)
    assert all(len({racks[each] for each in replicas}) == 2 for replicas in plan.values())


def test_a_closed_broker_keeps_what_it_has_and_gets_nothing() -> None:
    partitions = topic((1, 2), (1, 2), (1, 2), (3, 1))
    plan = spread(partitions, dict.fromkeys((1, 2, 3, 4)), closed=[4])
    assert all(4 not in replicas for replicas in plan.values())
    kept = spread(topic((4, 1), (4, 2)), dict.fromkeys((1, 2, 3, 4)), closed=[4])
    assert leaders(kept, "t")[4] <= 2


def test_what_leaves_a_broker_goes_where_least_of_the_topic_is_and_its_leaders_are_spread() -> None:
    everything = topic((1,), (1,), (1,), (4,), (4,), (2,))
    leaving = {at: replicas for at, replicas in everything.items() if 4 in replicas}
    racks = dict.fromkeys((1, 2, 3))
    plan = spread(
        leaving, racks, even=False, beside={at: everything[at] for at in everything.keys() - leaving}
    )
    assert sorted(plan.values()) == [(2,), (3,)]  # not (1,), (2,)
    everything = topic((1, 2, 3), (2, 1, 3), (4, 1, 2), (4, 1, 3), (4, 2, 3), (1, 4, 2))
    leaving = {at: replicas for at, replicas in everything.items() if 4 in replicas}
    plan = spread(
        leaving, racks, even=False, beside={at: everything[at] for at in everything.keys() - leaving}
    )
    assert Counter(each[0] for each in {**everything, **plan}.values()) == {1: 2, 2: 2, 3: 2}
    assert plan[TopicPartition("t", 5)][0] == 1  # which stays
