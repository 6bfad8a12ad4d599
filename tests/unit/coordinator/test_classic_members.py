"""Heartbeats, leaving, and sessions that end."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.group_table import Table

from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import JoinResult, LeavingMember
from ottla.protocol.errors import (
    FencedInstanceId,
    IllegalGeneration,
    RebalanceInProgress,
    UnknownMemberId,
)


def beat(table: Table, member_id: str, generation_id: int = 1, instance_id: str | None = None) -> object:
    return table.ask(GroupMachine.heartbeat, "g", member_id, instance_id, generation_id)


def test_a_heartbeat_keeps_a_member_alive() -> None:
    table = Table()
    (member_id,) = table.stable_group(1)
    for _ in range(5):
        table.wait(9000)
        assert beat(table, member_id) is None
    assert member_id in table.group().members


def test_heartbeats_are_accepted_while_the_leader_assigns() -> None:
    table = Table()
    member_id, _ = table.new_member()
    table.wait(3000)
    assert table.group().state.value == "CompletingRebalance"
    assert beat(table, member_id) is None


def test_a_heartbeat_tells_a_member_to_join_again_and_keeps_it_alive_too() -> None:
    table = Table()
    (member_id,) = table.stable_group(1)
    table.new_member()
    for _ in range(3):
        table.wait(9000)
        with pytest.raises(RebalanceInProgress):
            beat(table, member_id)
    assert member_id in table.group().members


@pytest.mark.parametrize(
    ("group_id", "member_id", "generation_id", "error"),
    [
        ("g", "stranger", 1, UnknownMemberId),
        ("other", "stranger", 1, UnknownMemberId),
        ("g", None, 0, IllegalGeneration),
        ("g", None, 2, IllegalGeneration),
    ],
)
def test_a_heartbeat_must_fit_the_group(
    group_id: str, member_id: str | None, generation_id: int, error: type[Exception]
) -> None:
    table = Table()
    (known_id,) = table.stable_group(1)
    with pytest.raises(error):
        table.ask(GroupMachine.heartbeat, group_id, member_id or known_id, None, generation_id)


def test_a_pending_member_has_no_heartbeat() -> None:
    table = Table()
    pending_id = table.answers[table.send_join()].member_id
    with pytest.raises(UnknownMemberId):
        beat(table, pending_id, 0)


def test_a_silent_member_is_removed_and_the_others_rebalance() -> None:
    table = Table()
    leader_id, follower_id = table.stable_group(2)
    table.wait(9000)
    beat(table, leader_id)
    table.wait(1001)
    assert table.group().members.keys() == {leader_id}
    with pytest.raises(RebalanceInProgress):
        beat(table, leader_id)
    assert table.answers[table.send_join(leader_id)].generation_id == 2
    assert follower_id not in table.group().members


def test_the_last_silent_member_leaves_an_empty_group_in_the_log() -> None:
    table = Table()
    table.stable_group(1)
    table.wait(10_001)
    assert table.group().state.value == "Empty"
    assert table.group().generation_id == 2
    table.restart()
    assert (table.group().state.value, table.group().generation_id) == ("Empty", 2)
    assert table.group().protocol_type == "consumer"


def test_a_parked_request_is_a_sign_of_life() -> None:
    table = Table()
    leader_id, follower_id = table.stable_group(2)
    token = table.send_join(leader_id)
    for _ in range(5):
        table.wait(9000)
        with pytest.raises(RebalanceInProgress):
            beat(table, follower_id)
    assert leader_id in table.group().members
    table.send_join(follower_id)
    assert isinstance(table.answers[token], JoinResult)


def test_after_a_failover_sessions_start_anew() -> None:
    table = Table()
    (member_id,) = table.stable_group(1)
    table.wait(9000)
    table.restart()
    table.wait(9000)
    assert beat(table, member_id) is None
    table.wait(10_001)
    assert table.group().members == {}


# Leaving


def test_a_member_leaves_and_the_others_rebalance_at_once() -> None:
    table = Table()
    leader_id, follower_id = table.stable_group(2)
    assert table.ask(GroupMachine.leave, "g", (LeavingMember(leader_id),)) == (None,)
    assert table.group().leader_id == follower_id
    assert table.answers[table.send_join(follower_id)].generation_id == 2


def test_when_the_last_member_leaves_the_group_is_empty() -> None:
    table = Table()
    (member_id,) = table.stable_group(1)
    table.ask(GroupMachine.leave, "g", (LeavingMember(member_id),))
    assert table.group().state.value == "Empty"
    assert not [key for key in table.timers if key[0] == "session"]


def test_many_leave_at_once_each_with_its_own_answer() -> None:
    table = Table()
    leader_id, follower_id = table.stable_group(2)
    pending_id = table.answers[table.send_join()].member_id
    leavers = (
        LeavingMember(leader_id),
        LeavingMember("stranger"),
        LeavingMember("", "no such"),
        LeavingMember(pending_id),
        LeavingMember(follower_id),
    )
    results = table.ask(GroupMachine.leave, "g", leavers)
    assert [type(each) for each in results] == [
        type(None),
        UnknownMemberId,
        UnknownMemberId,
        type(None),
        type(None),
    ]
    assert table.group().state.value == "Empty"


def test_a_pending_member_leaves_without_a_rebalance() -> None:
    table = Table()
    table.stable_group(1)
    pending_id = table.answers[table.send_join()].member_id
    table.ask(GroupMachine.leave, "g", (LeavingMember(pending_id),))
    assert table.group().state.value == "Stable"
    assert table.group().pending == set()


def test_a_rebalance_ends_when_the_one_it_waited_for_leaves() -> None:
    table = Table()
    leader_id, follower_id = table.stable_group(2)
    token = table.send_join(leader_id)
    table.ask(GroupMachine.leave, "g", (LeavingMember(follower_id),))
    assert [each.member_id for each in table.answers[token].members] == [leader_id]


def test_a_rebalance_ends_when_the_pending_member_it_waited_for_leaves() -> None:
    table = Table()
    (leader_id,) = table.stable_group(1)
    pending_id = table.answers[table.send_join()].member_id
    token = table.send_join(leader_id)
    assert token not in table.answers
    table.ask(GroupMachine.leave, "g", (LeavingMember(pending_id),))
    assert isinstance(table.answers[token], JoinResult)


def test_one_who_is_removed_gets_an_answer_to_what_it_waits_for() -> None:
    table = Table()
    table.stable_group(1)
    waiting_id, join = table.new_member()
    table.ask(GroupMachine.leave, "g", (LeavingMember(waiting_id),))
    assert isinstance(table.answers[join], UnknownMemberId)


def test_one_who_waits_for_its_assignment_and_is_removed_gets_an_answer() -> None:
    table = Table()
    table.new_member()
    follower_id, _ = table.new_member()
    table.wait(10_000)
    sync = table.send_sync(follower_id, 1)
    table.ask(GroupMachine.leave, "g", (LeavingMember(follower_id),))
    assert isinstance(table.answers[sync], UnknownMemberId)


def test_leaving_under_a_stolen_instance_id_is_fenced() -> None:
    table = Table()
    table.send_join(instance_id="i1")
    (result,) = table.ask(GroupMachine.leave, "g", (LeavingMember("somebody else", "i1"),))
    assert isinstance(result, FencedInstanceId)


def test_leaving_a_group_that_does_not_exist_fails() -> None:
    with pytest.raises(UnknownMemberId):
        Table().ask(GroupMachine.leave, "g", (LeavingMember("anyone"),))
