"""Classic groups that become consumer groups while they are at work."""

import pytest
from tests.unit.coordinator.classic_members import classic_group, upgraded
from tests.unit.coordinator.consumer_bench import (
    ALL,
    GROUP,
    Bench,
    join_request,
    parts,
    subscription,
    sync_request,
)

from ottla.coordinator.group.classic.group import ClassicGroup, State
from ottla.coordinator.group.consumer.group import ConsumerState
from ottla.coordinator.group.consumer.partitions import size
from ottla.coordinator.group.embedded_protocol import encode_assignment
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import LeavingMember
from ottla.protocol.errors import GroupIdNotFound, GroupMaxSizeReached, RebalanceInProgress


@pytest.fixture
def bench() -> Bench:
    return Bench({"orders": 6}, group_initial_rebalance_delay_ms="0")


def test_a_classic_group_becomes_a_consumer_group_and_its_members_keep_what_they_have(bench: Bench) -> None:
    first, second = classic_group(bench, "cd")
    assert first.owned == {"orders": [0, 2, 4]}
    beat = bench.join("new", "orders")
    assert (beat.member_epoch, beat.assignment) == (2, ())
    group = bench.group
    assert group.members[first.member_id].current.assigned == parts("orders", 0, 2, 4)
    assert group.members[second.member_id].current.epoch == 1
    classic = [each.member_id for each in group.members.values() if each.is_classic]
    assert classic == [first.member_id, second.member_id]
    bench.fail_over()
    assert bench.group.members == group.members


def test_classic_members_give_up_partitions_for_new_ones_without_noticing_more_than_rebalances(
    bench: Bench,
) -> None:
    classic = upgraded(bench)
    with pytest.raises(RebalanceInProgress):
        classic.beat()
    classic.join()
    classic.sync()
    assert classic.generation_id == 1, "it has not given anything up yet"
    assert size(bench.held(classic.member_id)) == 3
    assert bench.beat("new", 2).assignment is None
    assert classic.follow()
    assert classic.generation_id == 2
    assert len(classic.owned["orders"]) == 3
    assert not classic.follow()
    assert size(bench.held("new")) == 0
    bench.beat("new", 2)
    assert size(bench.held("new")) == 3
    assert bench.group.state is ConsumerState.STABLE


def test_an_eager_member_has_given_up_all_when_it_joins(bench: Bench) -> None:
    classic = upgraded(bench)
    classic.owned = {}
    assert classic.follow()
    assert classic.generation_id == 2
    assert bench.beat("new", 2).assignment is not None


def test_members_that_wait_for_a_rebalance_must_join_again(bench: Bench) -> None:
    (leader,) = classic_group(bench)
    waiting = bench.call(GroupMachine.join, join_request("", subscription(["orders"]), fresh_id="late"))
    assert waiting not in bench.replies
    bench.join("new", "orders")
    assert isinstance(bench.replies[waiting], RebalanceInProgress)
    assert set(bench.group.members) == {leader.member_id, "classic-late", "new"}


def test_what_a_member_brought_into_an_unfinished_rebalance_is_still_its_own(bench: Bench) -> None:
    first, second = classic_group(bench, "cd")
    for each in (first, second):
        request = join_request(each.member_id, subscription(["orders", "x"], each.owned))
        bench.call(GroupMachine.join, request)
    bench.call(GroupMachine.sync, sync_request(second.member_id, 2))
    bench.call(GroupMachine.join, join_request("", subscription(["orders"]), fresh_id="late"))
    group = bench.machine.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state is State.PREPARING_REBALANCE
    assert not group.members[first.member_id].assignment
    bench.join("new", "orders")
    assert bench.held(first.member_id) == parts("orders", 0, 2, 4)
    assert bench.held(second.member_id) == parts("orders", 1, 3, 5)


def test_what_a_leader_assigned_twice_counts_once(bench: Bench) -> None:
    first, second = classic_group(bench, "cd")
    group = bench.machine.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    twice = encode_assignment(parts("orders", *ALL), bench.image, 1)
    bench.call(GroupMachine.join, join_request(first.member_id, subscription(["orders", "x"])))
    bench.call(GroupMachine.join, join_request(second.member_id, subscription(["orders"])))
    assignments = ((first.member_id, twice), (second.member_id, twice))
    bench.call(GroupMachine.sync, sync_request(first.member_id, 2, assignments=assignments))
    bench.join("new", "orders")
    assert bench.held(first.member_id) == parts("orders", *ALL)
    assert bench.held(second.member_id) == {}


def test_an_empty_classic_group_is_simply_replaced(bench: Bench) -> None:
    (classic,) = classic_group(bench)
    bench.call(GroupMachine.leave, GROUP, (LeavingMember(classic.member_id),))
    assert bench.join("new", "orders").member_epoch == 1
    bench.fail_over()
    assert set(bench.group.members) == {"new"}


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_an_upgrade_can_be_forbidden(policy: str) -> None:
    bench = Bench({"orders": 6}, group_initial_rebalance_delay_ms="0", group_consumer_migration_policy=policy)
    (classic,) = classic_group(bench)
    with pytest.raises(GroupIdNotFound, match="upgrade is disabled"):
        bench.join("new", "orders")
    classic.beat()


def test_a_group_that_is_too_large_is_not_upgraded() -> None:
    bench = Bench({"orders": 6}, group_initial_rebalance_delay_ms="0", group_consumer_max_size="1")
    classic_group(bench, "cd")
    with pytest.raises(GroupIdNotFound, match="maximum size"):
        bench.join("new", "orders")


def test_a_group_that_is_full_after_its_upgrade_takes_no_more_members() -> None:
    bench = Bench({"orders": 6}, group_initial_rebalance_delay_ms="0", group_consumer_max_size="1")
    classic_group(bench)
    with pytest.raises(GroupMaxSizeReached):
        bench.join("new", "orders")
    assert isinstance(bench.machine.groups[GROUP], ClassicGroup)


def test_a_group_of_another_kind_is_not_upgraded(bench: Bench) -> None:
    bench.call(GroupMachine.join, join_request("", b"", protocol_type="connect"))
    with pytest.raises(GroupIdNotFound, match="embedded protocol"):
        bench.join("new", "orders")


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        (b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03own", "custom assignor"),
        (b"\x00\x00\x7f\xff\xff\xff", "malformed"),
    ],
)
def test_a_group_with_an_assignor_of_its_own_is_not_upgraded(
    bench: Bench, assignment: bytes, message: str
) -> None:
    assign_anything(bench, "of-our-own", assignment)
    with pytest.raises(GroupIdNotFound, match=message):
        bench.join("new", "orders")


def test_what_librdkafkas_sticky_assignor_adds_to_assignments_does_not_prevent_an_upgrade(
    bench: Bench,
) -> None:
    assign_anything(bench, "cooperative-sticky", b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03own")
    bench.join("new", "orders")


def assign_anything(bench: Bench, protocol_name: str, assignment: bytes) -> None:
    """Let a classic group of one member assign something."""
    protocols = ((protocol_name, subscription(["orders"])),)
    token = bench.call(GroupMachine.join, join_request("", b"", protocols=protocols))
    bench.pass_time(20)
    joined = bench.replies[token]
    assignments = ((joined.member_id, assignment),)
    request = sync_request(
        joined.member_id, joined.generation_id, assignments=assignments, protocol_name=protocol_name
    )
    bench.call(GroupMachine.sync, request)
