from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.controller.machine.topics import assign_replicas
from ottla.metadata.image import BrokerImage
from ottla.protocol.errors import InvalidReplicationFactor


def brokers(*racks: str | None) -> list[BrokerImage]:
    return [BrokerImage(node_id, 1, rack, ()) for node_id, rack in enumerate(racks, 1)]


clusters = st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=9).map(lambda x: brokers(*x))


@settings(max_examples=150, deadline=None)
@given(clusters, st.integers(1, 60), st.integers(0, 2**128 - 1), st.data())
def test_placement_is_even_distinct_and_spread_over_racks(
    cluster: list[BrokerImage], count: int, start: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(cluster)))
    placed = assign_replicas(cluster, range(count), factor, start)
    racks = {broker.node_id: broker.rack for broker in cluster}
    assert len(placed) == count
    for replicas in placed:
        assert len(replicas) == len(set(replicas)) == factor
        assert len({racks[each] for each in replicas}) == min(factor, len(set(racks.values())))
    leaders = Counter({broker.node_id: 0 for broker in cluster})
    leaders.update(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders.values()) <= 1


@settings(max_examples=50, deadline=None)
@given(clusters, st.integers(0, 30), st.integers(1, 30), st.integers(0, 2**128 - 1))
def test_partitions_added_later_go_where_they_would_have_gone_at_once(
    cluster: list[BrokerImage], first: int, added: int, start: int
) -> None:
    at_once = assign_replicas(cluster, range(first + added), 1, start)
    assert (
        assign_replicas(cluster, range(first), 1, start)
        + assign_replicas(cluster, range(first, first + added), 1, start)
        == at_once
    )


def test_the_followers_of_one_broker_are_not_always_the_same() -> None:
    placed = assign_replicas(brokers(None, None, None, None), range(24), 2, 0)
    followers = {replicas[1] for replicas in placed if replicas[0] == 1}
    assert followers == {2, 3, 4}


def test_more_replicas_than_brokers_are_refused_with_both_numbers() -> None:
    with pytest.raises(InvalidReplicationFactor, match=r"3 replicas .* there are 2"):
        assign_replicas(brokers(None, None), range(1), 3, 0)


def test_nothing_can_be_placed_without_brokers() -> None:
    with pytest.raises(InvalidReplicationFactor):
        assign_replicas([], range(1), 1, 0)


def test_a_broker_that_is_away_leads_nothing_and_follows_only_if_it_must() -> None:
    away, leaving, *there = brokers(None, None, None, None, None)
    cluster = [away._replace(fenced=True), leaving._replace(shutting_down=True), *there]
    alive = {each.node_id for each in there}
    for replicas in assign_replicas(cluster, range(30), 3, 7):
        assert set(replicas) == alive
    for replicas in assign_replicas(cluster, range(30), 4, 7):
        assert set(replicas[:3]) == alive


def test_somebody_must_be_there() -> None:
    (alone,) = brokers(None)
    with pytest.raises(InvalidReplicationFactor, match="no broker is there"):
        assign_replicas([alone._replace(fenced=True)], range(1), 1, 0)
