"""Consumer groups that become classic ones again, and static members that move between the protocols."""

import pytest
from tests.unit.coordinator.classic_members import ClassicMember, classic_group, upgraded
from tests.unit.coordinator.consumer_bench import ALL, GROUP, Bench, join_request, parts, subscription

from ottla.coordinator.group.classic.group import ClassicGroup, State
from ottla.coordinator.group.embedded_protocol import encode_assignment
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import LeavingMember
from ottla.protocol.errors import FencedInstanceId, RebalanceInProgress, UnknownMemberId


@pytest.fixture
def bench() -> Bench:
    return Bench({"orders": 6}, group_initial_rebalance_delay_ms="0")


# Static members


def test_a_static_member_moves_from_the_classic_to_the_consumer_protocol_and_back(bench: Bench) -> None:
    bench.join("new", "orders")
    classic = ClassicMember(bench, instance_id="i", fresh_id="1")
    classic.join()
    classic.sync()
    moved = bench.join("modern", "orders", instance_id="i")
    assert set(bench.group.members) == {"new", "modern"}
    assert moved.member_epoch == 2
    with pytest.raises(FencedInstanceId):
        classic.beat()
    again = ClassicMember(bench, instance_id="i", fresh_id="2")
    again.join()
    assert set(bench.group.members) == {"new", "i-2"}
    assert bench.group.epoch == 2, "same subscription, no rebalance"
    (result,) = bench.call(GroupMachine.leave, GROUP, (LeavingMember("", "i"),))
    assert result is None


def test_the_last_modern_member_being_replaced_by_a_classic_one_downgrades_without_a_rebalance(
    bench: Bench,
) -> None:
    bench.join("modern", "orders", instance_id="i")
    bench.beat("modern", -2, instance_id="i")
    classic = ClassicMember(bench, instance_id="i", fresh_id="1")
    classic.join()
    group = bench.machine.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state is State.STABLE
    classic.sync()
    assert classic.owned == {"orders": list(ALL)}
    classic.beat()


# Downgrade


def test_the_last_member_of_the_consumer_protocol_leaves_a_classic_group_behind(bench: Bench) -> None:
    classic = upgraded(bench)
    classic.follow()
    classic.follow()
    bench.beat("new", 2)
    bench.beat("new", -1)
    group = bench.machine.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state is State.PREPARING_REBALANCE
    assert group.generation_id == 2
    with pytest.raises(RebalanceInProgress):
        classic.beat()
    classic.join()
    assert classic.generation_id == 3
    classic.sync((classic.member_id, encode_assignment(parts("orders", *ALL), bench.image, 1)))
    assert classic.owned == {"orders": list(ALL)}
    bench.fail_over()
    classic.beat()


def test_a_downgraded_group_rebalances_even_if_the_coordinator_fails_in_between(bench: Bench) -> None:
    classic = upgraded(bench)
    classic.follow()
    classic.follow()
    bench.beat("new", -1)
    bench.fail_over()
    for _ in range(10):
        classic.beat()
        bench.pass_time(4_500)
    with pytest.raises(RebalanceInProgress):
        classic.beat()
    classic.join()
    group = bench.machine.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert set(group.members) == {classic.member_id}


def test_a_silent_member_of_the_consumer_protocol_is_the_last_one_too(bench: Bench) -> None:
    classic = upgraded(bench)
    for _ in range(10):
        bench.pass_time(5_000)
        classic.follow()
    assert isinstance(bench.machine.groups[GROUP], ClassicGroup)


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_a_downgrade_can_be_forbidden(policy: str) -> None:
    bench = Bench({"orders": 6}, group_consumer_migration_policy=policy)
    bench.join("new", "orders")
    classic = ClassicMember(bench, fresh_id="late")
    classic.join()
    classic.sync()
    bench.beat("new", -1)
    assert classic.follow()
    assert classic.owned == {"orders": list(ALL)}
    assert set(bench.group.members) == {classic.member_id}


def test_a_classic_member_replaces_an_empty_consumer_group(bench: Bench) -> None:
    bench.join("new", "orders")
    bench.beat("new", -1)
    with pytest.raises(UnknownMemberId):
        bench.call(GroupMachine.join, join_request("somebody", subscription(["orders"])))
    classic_group(bench)
    assert isinstance(bench.machine.groups[GROUP], ClassicGroup)
    bench.fail_over()
    assert isinstance(bench.machine.groups[GROUP], ClassicGroup)
