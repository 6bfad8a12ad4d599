"""SyncGroup: the leader's assignment reaches everybody, and the log before them."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.group_table import Table

from ottla.coordinator.group.records import GroupKey, GroupValue
from ottla.coordinator.group.requests import JoinResult, SyncResult
from ottla.protocol.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnknownMemberId,
)


def joined_group(table: Table, size: int) -> list[str]:
    """Let a group wait for its leader's assignment; return the ids, the leader's first."""
    ids = [table.new_member()[0] for _ in range(size)]
    table.wait(3000 * (size + 1))
    return ids


def test_everybody_waits_for_the_leader() -> None:
    table = Table()
    leader_id, follower_id = joined_group(table, 2)
    follower = table.send_sync(follower_id, 1)
    assert follower not in table.answers
    assignments = ((leader_id, b"left"), (follower_id, b"right"))
    leader = table.send_sync(leader_id, 1, assignments=assignments)
    assert table.answers[leader] == SyncResult("consumer", "range", b"left")
    assert table.answers[follower] == SyncResult("consumer", "range", b"right")
    assert table.group().state.value == "Stable"


def test_one_who_asks_later_is_answered_at_once() -> None:
    table = Table()
    leader_id, follower_id = joined_group(table, 2)
    table.send_sync(leader_id, 1, assignments=((follower_id, b"right"),))
    assert table.answers[table.send_sync(follower_id, 1)].assignment == b"right"


def test_pitfall_20_members_that_the_leader_forgot_get_an_empty_assignment_and_strangers_nothing() -> None:
    table = Table()
    leader_id, follower_id = joined_group(table, 2)
    follower = table.send_sync(follower_id, 1)
    table.send_sync(leader_id, 1, assignments=((leader_id, b"all"), ("stranger", b"more")))
    assert table.answers[follower].assignment == b""
    assert table.group().members.keys() == {leader_id, follower_id}


def test_the_assignment_is_in_the_log_with_everything_a_new_coordinator_needs() -> None:
    table = Table()
    (leader_id,) = joined_group(table, 1)
    table.send_sync(leader_id, 1, assignments=((leader_id, b"all"),))
    key, value = table.log[-1]
    assert key == GroupKey("g")
    assert isinstance(value, GroupValue)
    assert (value.generation_id, value.leader_id, value.protocol_name) == (1, leader_id, "range")
    assert value.members[0].assignment == b"all"
    before = table.group()
    table.restart()
    after = table.group()
    assert (after.state, after.state_since_ms, after.topics) == (
        before.state,
        before.state_since_ms,
        before.topics,
    )
    assert after.members == before.members


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"generation_id": 2}, IllegalGeneration),
        ({"protocol_type": "connect"}, InconsistentGroupProtocol),
        ({"protocol_name": "sticky"}, InconsistentGroupProtocol),
        ({"member_id": "stranger"}, UnknownMemberId),
        ({"group_id": "other"}, UnknownMemberId),
        ({"instance_id": "i1"}, UnknownMemberId),
    ],
)
def test_a_sync_must_fit_the_group(changes: dict[str, object], error: type[Exception]) -> None:
    table = Table()
    (leader_id,) = joined_group(table, 1)
    token = table.send_sync(**{"member_id": leader_id, "generation_id": 1, **changes})  # type: ignore[arg-type]
    assert isinstance(table.answers[token], error)
    assert table.group().state.value == "CompletingRebalance"


def test_an_empty_group_has_no_members() -> None:
    table = Table()
    table.send_join()
    assert isinstance(table.answers[table.send_sync("anyone", 0)], UnknownMemberId)


def test_during_a_rebalance_there_is_no_assignment() -> None:
    table = Table()
    (leader_id,) = table.stable_group(1)
    table.new_member()
    assert isinstance(table.answers[table.send_sync(leader_id, 1)], RebalanceInProgress)


def test_a_member_that_joins_meanwhile_sends_everybody_back_to_join() -> None:
    table = Table()
    leader_id, follower_id = joined_group(table, 2)
    follower = table.send_sync(follower_id, 1)
    table.new_member()
    assert isinstance(table.answers[follower], RebalanceInProgress)
    assert isinstance(table.answers[table.send_sync(leader_id, 1)], RebalanceInProgress)


def test_a_second_sync_of_a_member_ends_the_first() -> None:
    table = Table()
    leader_id, follower_id = joined_group(table, 2)
    first = table.send_sync(follower_id, 1)
    second = table.send_sync(follower_id, 1)
    assert isinstance(table.answers[first], RebalanceInProgress)
    table.send_sync(leader_id, 1)
    assert isinstance(table.answers[second], SyncResult)


def test_pitfall_19_those_who_never_ask_for_their_assignment_are_removed() -> None:
    table = Table()
    ids = [table.new_member(session_timeout_ms=1_000_000)[0] for _ in range(3)]
    table.wait(12_000)
    began_ms = table.group().state_since_ms
    waiting = table.send_sync(ids[1], 1)
    assert began_ms + 60_000 > table.now_ms
    table.wait(began_ms + 60_000 - table.now_ms)
    assert isinstance(table.answers[waiting], RebalanceInProgress)
    assert table.group().members.keys() == {ids[1]}
    assert isinstance(table.answers[table.send_join(ids[1])], JoinResult)


def test_a_member_that_synced_is_not_removed_with_those_who_did_not() -> None:
    table = Table()
    leader_id, follower_id = joined_group(table, 2)
    table.send_sync(leader_id, 1)
    table.send_sync(follower_id, 1)
    assert ("sync", "g") not in table.timers
