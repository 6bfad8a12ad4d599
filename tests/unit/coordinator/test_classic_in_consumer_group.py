"""Classic members of consumer groups."""

import pytest
from tests.unit.coordinator.classic_members import ClassicMember, classic_group, upgraded
from tests.unit.coordinator.consumer_bench import (
    ALL,
    GROUP,
    Bench,
    join_request,
    parts,
    subscription,
    sync_request,
)

from ottla.coordinator.group.consumer import events
from ottla.coordinator.group.consumer.partitions import in_order
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import LeavingMember
from ottla.protocol.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)


@pytest.fixture
def bench() -> Bench:
    return Bench({"orders": 6}, group_initial_rebalance_delay_ms="0")


def test_a_classic_member_joins_a_consumer_group(bench: Bench) -> None:
    bench.join("new", "orders")
    classic = ClassicMember(bench, fresh_id="late")
    classic.join()
    assert (classic.member_id, classic.generation_id) == ("classic-late", 2)
    classic.sync()
    assert classic.owned == {}
    bench.beat("new", 1, owned=parts("orders", *ALL))
    bench.beat("new", 1, owned=parts("orders", 0, 1, 2))
    assert classic.follow()
    assert classic.owned == {"orders": [3, 4, 5]}
    assert bench.call(events.describe, GROUP).members[1].is_classic


def test_a_dynamic_classic_member_learns_its_id_first(bench: Bench) -> None:
    bench.join("new", "orders")
    with pytest.raises(MemberIdRequired) as raised:
        bench.call(GroupMachine.join, join_request("", subscription(["orders"]), requires_member_id=True))
    member_id = raised.value.member_id
    assert member_id not in bench.group.members
    bench.call(GroupMachine.join, join_request(member_id, subscription(["orders"]), requires_member_id=True))
    assert member_id in bench.group.members


def test_a_classic_member_must_have_a_protocol_in_common_with_the_others(bench: Bench) -> None:
    upgraded(bench)
    for fields in ({"protocols": (("range", subscription(["orders"])),)}, {"protocol_type": "connect"}):
        with pytest.raises(InconsistentGroupProtocol):
            bench.call(GroupMachine.join, join_request("", subscription(["orders"]), **fields))
    with pytest.raises(InconsistentGroupProtocol):
        bench.call(GroupMachine.join, join_request("", b"\x00"))


def test_a_classic_member_of_another_generation_is_refused(bench: Bench) -> None:
    classic = upgraded(bench)
    classic.generation_id = 7
    with pytest.raises(IllegalGeneration):
        classic.beat()
    with pytest.raises(IllegalGeneration):
        classic.sync()


def test_a_classic_member_that_collects_too_late_joins_again(bench: Bench) -> None:
    classic = upgraded(bench)
    classic.owned = {}
    with pytest.raises(RebalanceInProgress):
        classic.beat()
    classic.join()
    bench.join("newer", "orders")
    with pytest.raises(RebalanceInProgress):
        classic.sync()
    classic.join()
    classic.sync()
    assert classic.generation_id == 3


def test_sync_checks_the_protocol(bench: Bench) -> None:
    classic = upgraded(bench)
    for fields in ({"protocol_type": "connect"}, {"protocol_name": "range"}):
        with pytest.raises(InconsistentGroupProtocol):
            bench.call(GroupMachine.sync, sync_request(classic.member_id, 1, **fields))


def test_members_of_the_consumer_protocol_do_not_speak_the_classic_one(bench: Bench) -> None:
    bench.join("new", "orders")
    with pytest.raises(UnknownMemberId):
        bench.call(GroupMachine.heartbeat, GROUP, "new", None, 1)
    with pytest.raises(UnknownMemberId):
        bench.call(GroupMachine.sync, sync_request("new", 1))


def test_administrators_remove_members_of_either_protocol(bench: Bench) -> None:
    bench.join("new", "orders")
    bench.join("static", "orders", instance_id="i")
    leavers = (LeavingMember("new"), LeavingMember("", "i"), LeavingMember("", "j"))
    results = bench.call(GroupMachine.leave, GROUP, leavers)
    assert [type(each) for each in results] == [type(None), type(None), UnknownMemberId]
    assert not bench.group.members


def test_a_classic_member_commits_at_its_generation(bench: Bench) -> None:
    classic = upgraded(bench)
    bench.group.check_fetch(classic.member_id, 1)
    with pytest.raises(IllegalGeneration):
        bench.group.check_fetch(classic.member_id, 2)


def test_a_classic_member_that_does_not_join_again_in_time_is_removed(bench: Bench) -> None:
    classic = upgraded(bench)
    for _ in range(4):
        with pytest.raises(RebalanceInProgress):
            classic.beat()
        bench.pass_time(4_900)
    assert classic.member_id in bench.group.members
    bench.pass_time(500)
    assert classic.member_id not in bench.group.members
    assert bench.beat("new", 2).assignment == in_order(parts("orders", *ALL))


def test_a_classic_member_that_does_not_collect_its_assignment_in_time_is_removed(bench: Bench) -> None:
    bench.join("new", "orders")
    classic = ClassicMember(bench, fresh_id="late")
    classic.join()
    for _ in range(4):
        bench.pass_time(4_900)
        classic.beat()
    bench.pass_time(500)
    assert set(bench.group.members) == {"new"}


def test_a_silent_classic_member_is_removed_after_its_own_session_timeout(bench: Bench) -> None:
    classic = upgraded(bench)
    bench.pass_time(10_500)
    assert set(bench.group.members) == {"new"}
    with pytest.raises(UnknownMemberId):
        classic.beat()


def test_classic_members_leave(bench: Bench) -> None:
    first, second = classic_group(bench, "cd")
    bench.join("new", "orders")
    leavers = (
        LeavingMember(first.member_id),
        LeavingMember("nobody"),
        LeavingMember(second.member_id),
        LeavingMember(first.member_id),
    )
    results = bench.call(GroupMachine.leave, GROUP, leavers)
    assert [type(each) for each in results] == [type(None), UnknownMemberId, type(None), type(None)]
    assert bench.beat("new", 2).assignment == in_order(parts("orders", *ALL))
