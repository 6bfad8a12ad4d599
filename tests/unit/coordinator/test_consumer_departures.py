"""Members of consumer groups that leave, fall silent, keep what they should give up, or come back."""

import pytest
from tests.unit.coordinator.consumer_bench import ALL, GROUP, Bench, parts, settle

from ottla.coordinator.group.consumer.group import ConsumerState
from ottla.coordinator.group.consumer.partitions import in_order
from ottla.coordinator.group.machine import GroupMachine
from ottla.protocol.errors import FencedInstanceId, NonEmptyGroup, UnknownMemberId, UnreleasedInstanceId


@pytest.fixture
def bench() -> Bench:
    return Bench({"orders": 6, "payments": 3})


# Leaving


def test_a_member_that_leaves_leaves_its_partitions_to_the_others(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.join("b", "orders")
    settle(bench, "a", "b")
    left = bench.beat("b", -1)
    assert (left.member_epoch, left.assignment) == (-1, None)
    assert bench.beat("a", 2).assignment == in_order(parts("orders", *ALL))
    with pytest.raises(UnknownMemberId):
        bench.beat("b", 2)


def test_an_empty_group_stays_until_it_is_deleted(bench: Bench) -> None:
    bench.join("a", "orders")
    with pytest.raises(NonEmptyGroup):
        bench.call(GroupMachine.delete, GROUP)
    bench.beat("a", -1)
    assert bench.group.state is ConsumerState.EMPTY
    bench.call(GroupMachine.delete, GROUP)
    assert GROUP not in bench.machine.groups
    bench.fail_over()
    assert GROUP not in bench.machine.groups


def test_a_silent_member_is_removed_when_its_session_ends(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.pass_time(30_000)
    bench.join("b", "orders")
    bench.pass_time(20_000)
    assert set(bench.group.members) == {"b"}
    assert bench.beat("b", 2).assignment == in_order(parts("orders", *ALL))


def test_a_member_that_does_not_give_up_partitions_in_time_is_removed(bench: Bench) -> None:
    bench.join("a", "orders", rebalance_timeout_ms=70_000)
    bench.join("b", "orders")
    bench.beat("a", 1, owned=parts("orders", *ALL))
    for _ in range(2):
        bench.pass_time(30_000)
        bench.beat("a", 1)
        bench.beat("b", 2)
    assert set(bench.group.members) == {"a", "b"}
    bench.pass_time(10_000)
    assert set(bench.group.members) == {"b"}
    assert bench.beat("b", 2).assignment == in_order(parts("orders", *ALL))


def test_a_member_that_gave_up_partitions_in_time_is_not_removed(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.join("b", "orders")
    bench.beat("a", 1, owned=parts("orders", *ALL))
    bench.beat("a", 1, owned=parts("orders", 0, 1, 2))
    for _ in range(4):
        bench.pass_time(30_000)
        bench.beat("a", 2)
        bench.beat("b", 2)
    assert set(bench.group.members) == {"a", "b"}


def test_sessions_begin_anew_after_a_failover(bench: Bench) -> None:
    bench.join("a", "orders", rebalance_timeout_ms=20_000)
    bench.join("b", "orders")
    bench.beat("a", 1, owned=parts("orders", *ALL))
    bench.pass_time(15_000)
    bench.fail_over()
    assert bench.beat("a", 1).member_epoch == 1
    bench.pass_time(21_000)
    assert set(bench.group.members) == {"b"}, "the time for giving up partitions began anew, too"
    bench.pass_time(30_000)
    assert not bench.group.members


# Static members


def test_a_static_member_returns_to_its_partitions_without_a_rebalance(bench: Bench) -> None:
    bench.join("a1", "orders", instance_id="a")
    bench.join("b", "orders")
    settle(bench, "a1", "b")
    left = bench.beat("a1", -2, instance_id="a")
    assert left.member_epoch == -2
    epoch = bench.group.epoch
    assert bench.beat("b", 2).assignment is None
    back = bench.join("a2", "orders", instance_id="a")
    assert (back.member_epoch, back.assignment) == (2, in_order(parts("orders", 0, 1, 2)))
    assert bench.group.epoch == epoch
    assert set(bench.group.members) == {"a2", "b"}
    assert bench.group.state is ConsumerState.STABLE


def test_a_static_member_that_does_not_return_is_removed_with_its_session(bench: Bench) -> None:
    bench.join("a1", "orders", instance_id="a")
    bench.beat("a1", -2, instance_id="a")
    bench.pass_time(50_000)
    assert not bench.group.members
    assert not bench.group.instances


def test_an_instance_id_in_use_is_not_given_away(bench: Bench) -> None:
    bench.join("a1", "orders", instance_id="a")
    with pytest.raises(UnreleasedInstanceId):
        bench.join("a2", "orders", instance_id="a")
    bench.beat("a1", -1, instance_id="a")
    bench.join("a2", "orders", instance_id="a")


def test_a_member_that_lost_its_instance_id_is_fenced(bench: Bench) -> None:
    bench.join("a1", "orders", instance_id="a")
    bench.beat("a1", -2, instance_id="a")
    bench.join("a2", "orders", instance_id="a")
    for epoch in (1, -1, -2):
        with pytest.raises(FencedInstanceId):
            bench.beat("a1", epoch, instance_id="a")
    with pytest.raises(UnknownMemberId):
        bench.beat("a2", 1, instance_id="another")


def test_what_a_static_member_was_to_give_up_is_free_once_its_process_is_gone(bench: Bench) -> None:
    bench.join("a1", "orders", instance_id="a")
    bench.join("b", "orders")
    bench.beat("a1", 1, instance_id="a", owned=parts("orders", *ALL))
    bench.beat("a1", -2, instance_id="a")
    assert bench.beat("b", 2).assignment == in_order(parts("orders", 3, 4, 5))
