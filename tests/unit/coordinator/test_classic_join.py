"""JoinGroup: who gets in, and when the generation begins."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.group_table import Table, subscription

from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import JoinResult, LeavingMember
from ottla.protocol.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)

RANGE = ("range", subscription("orders"))
STICKY = ("sticky", subscription("orders"))


def test_pitfall_19_a_new_member_first_learns_its_id() -> None:
    table = Table()
    answer = table.answers[table.send_join(client_id="app", fresh_id="123")]
    assert isinstance(answer, MemberIdRequired)
    assert answer.member_id == "app-123"
    assert table.group().members == {}
    assert table.group().pending == {"app-123"}


def test_an_old_client_joins_at_once() -> None:
    table = Table()
    token = table.send_join(requires_member_id=False)
    assert token not in table.answers
    assert len(table.group().members) == 1


def test_a_pending_member_that_does_not_return_is_forgotten() -> None:
    table = Table()
    table.send_join()
    table.wait(10_001)
    assert table.group().pending == set()


def test_the_first_rebalance_waits_for_more_members_as_long_as_they_keep_coming() -> None:
    table = Table(group_initial_rebalance_delay_ms=3000)
    _, first = table.new_member()
    table.wait(2000)
    _, second = table.new_member()
    table.wait(2000)
    assert first not in table.answers
    table.wait(1000)
    assert first not in table.answers
    table.wait(1000)
    assert isinstance(table.answers[first], JoinResult)
    assert isinstance(table.answers[second], JoinResult)
    assert table.group().generation_id == 1


def test_the_first_rebalance_waits_no_longer_than_members_allow() -> None:
    table = Table(group_initial_rebalance_delay_ms=3000)
    _, first = table.new_member(rebalance_timeout_ms=7000)
    for _ in range(4):
        table.wait(2000)
        table.new_member(rebalance_timeout_ms=7000)
    table.wait(1500)
    assert isinstance(table.answers[first], JoinResult)


def test_only_the_leader_learns_who_the_members_are() -> None:
    table = Table()
    (first_id, first), (second_id, second) = table.new_member(), table.new_member()
    table.wait(10_000)
    leader, follower = table.answers[first], table.answers[second]
    assert (leader.leader_id, follower.leader_id) == (first_id, first_id)
    assert [(each.member_id, each.metadata) for each in leader.members] == [
        (first_id, RANGE[1]),
        (second_id, RANGE[1]),
    ]
    assert follower.members == ()
    assert (follower.generation_id, follower.protocol_type, follower.protocol_name) == (
        1,
        "consumer",
        "range",
    )


def test_pitfall_19_the_protocol_with_the_most_votes_of_those_that_all_support_wins() -> None:
    table = Table()
    _, token = table.new_member(protocols=(STICKY, RANGE))
    table.new_member(protocols=(RANGE, STICKY))
    table.new_member(protocols=(("roundrobin", b""), RANGE, STICKY))
    table.wait(20_000)
    assert table.answers[token].protocol_name == "range"


@pytest.mark.parametrize(
    "wrong",
    [
        {"protocols": (("other", b""),)},
        {"protocol_type": "connect"},
        {"protocols": ()},
        {"protocol_type": ""},
    ],
)
def test_pitfall_19_a_member_must_share_a_protocol_with_the_group(wrong: dict[str, object]) -> None:
    table = Table()
    table.new_member()
    assert isinstance(table.answers[table.send_join(**wrong)], InconsistentGroupProtocol)


def test_the_first_member_must_name_a_protocol_and_leaves_no_group_behind_if_not() -> None:
    table = Table()
    assert isinstance(table.answers[table.send_join(protocols=())], InconsistentGroupProtocol)
    assert table.machine.groups == {}
    assert table.log == []


def test_groups_that_are_not_of_consumers_work_the_same_way() -> None:
    table = Table()
    _, token = table.new_member(protocol_type="connect", protocols=(("compatible", b"\x00\x01opaque"),))
    table.wait(10_000)
    assert table.answers[token].protocol_type == "connect"
    assert table.answers[token].members[0].metadata == b"\x00\x01opaque"
    assert table.group().topics is None


@pytest.mark.parametrize("session_timeout_ms", [5999, 1_800_001])
def test_session_timeouts_have_limits(session_timeout_ms: int) -> None:
    table = Table()
    answer = table.answers[table.send_join(session_timeout_ms=session_timeout_ms)]
    assert isinstance(answer, InvalidSessionTimeout)


def test_an_unknown_member_id_is_refused_by_a_group_and_without_one() -> None:
    table = Table()
    assert isinstance(table.answers[table.send_join("stranger")], UnknownMemberId)
    table.stable_group()
    assert isinstance(table.answers[table.send_join("stranger")], UnknownMemberId)


def test_a_full_group_takes_no_new_members() -> None:
    table = Table(group_max_size=2)
    table.stable_group(2)
    assert isinstance(table.answers[table.send_join()], GroupMaxSizeReached)


def test_in_a_rebalance_the_first_to_join_take_the_places() -> None:
    table = Table(group_max_size=2)
    leader_id, other_id = table.stable_group(2)
    table.send_join(leader_id)  # a rebalance begins
    newcomer_id, token = table.new_member()
    late = table.send_join(other_id)
    assert isinstance(table.answers[late], GroupMaxSizeReached)
    assert isinstance(table.answers[token], JoinResult)
    assert table.group().members.keys() == {leader_id, newcomer_id}


def test_a_static_member_restarts_even_if_the_group_is_full() -> None:
    table = Table(group_max_size=1)
    table.send_join(instance_id="i1")
    table.wait(10_000)
    table.send_sync(table.group().leader_id or "", 1, instance_id="i1")
    assert isinstance(table.answers[table.send_join(instance_id="i1")], JoinResult)


def test_a_follower_that_joins_again_unchanged_gets_the_same_generation() -> None:
    table = Table()
    leader_id, follower_id = table.stable_group(2)
    answer = table.answers[table.send_join(follower_id)]
    assert (answer.generation_id, answer.leader_id, answer.members) == (1, leader_id, ())
    assert table.group().state.value == "Stable"


def test_a_leader_that_joins_again_makes_the_group_rebalance() -> None:
    table = Table()
    leader_id, follower_id = table.stable_group(2)
    parked = table.send_join(leader_id)
    assert parked not in table.answers
    with pytest.raises(RebalanceInProgress):
        table.ask(GroupMachine.heartbeat, "g", follower_id, None, 1)
    table.send_join(follower_id)
    assert table.answers[parked].generation_id == 2


def test_a_member_that_changes_its_metadata_makes_the_group_rebalance() -> None:
    table = Table()
    _, follower_id = table.stable_group(2)
    token = table.send_join(follower_id, protocols=(("range", subscription("orders", "payments")),))
    assert token not in table.answers
    assert table.group().state.value == "PreparingRebalance"


def test_a_member_that_lost_the_answer_gets_it_again() -> None:
    table = Table()
    member_id, token = table.new_member()
    table.wait(10_000)
    assert table.group().state.value == "CompletingRebalance"
    again = table.send_join(member_id)
    assert table.answers[again] == table.answers[token]


def test_changed_metadata_while_the_leader_assigns_starts_over() -> None:
    table = Table()
    (_, _), (follower_id, _) = table.new_member(), table.new_member()
    table.wait(10_000)
    parked_sync = table.send_sync(follower_id, 1)
    table.send_join(follower_id, protocols=(("range", subscription("payments")),))
    assert isinstance(table.answers[parked_sync], RebalanceInProgress)
    assert table.group().state.value == "PreparingRebalance"


def test_a_second_join_of_a_member_ends_the_first() -> None:
    table = Table()
    member_id, first = table.new_member()
    second = table.send_join(member_id)
    assert isinstance(table.answers[first], RebalanceInProgress)
    table.wait(10_000)
    assert isinstance(table.answers[second], JoinResult)


def test_members_that_do_not_join_again_in_time_are_left_out() -> None:
    table = Table()
    leader_id, follower_id = table.stable_group(2, session_timeout_ms=300_000)
    token = table.send_join(leader_id, session_timeout_ms=300_000)
    table.wait(59_999)
    assert token not in table.answers
    table.wait(1)
    assert [each.member_id for each in table.answers[token].members] == [leader_id]
    assert follower_id not in table.group().members


def test_another_member_leads_if_the_leader_does_not_join_again() -> None:
    table = Table()
    _, follower_id = table.stable_group(2, session_timeout_ms=300_000)
    token = table.send_join(
        follower_id, protocols=(("range", subscription("a")),), session_timeout_ms=300_000
    )
    table.wait(60_000)
    assert table.answers[token].leader_id == follower_id


def test_a_new_member_whose_client_is_gone_does_not_stay_forever() -> None:
    table = Table()
    # The old member does not join again but keeps its session, so that the rebalance goes on.
    old_id = table.stable_group(1, session_timeout_ms=1_800_000, rebalance_timeout_ms=1_000_000)[0]
    new_id, token = table.new_member(rebalance_timeout_ms=1_000_000)
    table.wait(299_999)
    assert new_id in table.group().members
    table.wait(1)
    assert isinstance(table.answers[token], UnknownMemberId)
    assert table.group().members.keys() == {old_id}


# Static members


def static_group(table: Table, **changes: object) -> str:
    """Let a group of one static member become Stable; return the member's id."""
    table.send_join(instance_id="i1", **changes)
    table.wait(10_000)
    member_id = table.group().instances["i1"]
    table.send_sync(member_id, 1, instance_id="i1", assignments=((member_id, b"mine"),))
    return member_id


def test_a_static_member_needs_no_second_join_for_its_id() -> None:
    table = Table()
    token = table.send_join(instance_id="i1", fresh_id="77")
    table.wait(10_000)
    assert table.answers[token].member_id == "i1-77"


def test_a_static_member_that_restarts_keeps_its_assignment_without_a_rebalance() -> None:
    table = Table()
    old_id = static_group(table)
    answer = table.answers[table.send_join(instance_id="i1", can_skip_assignment=True)]
    assert answer.member_id != old_id
    assert (answer.generation_id, answer.skip_assignment, answer.leader_id) == (1, True, answer.member_id)
    assert [each.member_id for each in answer.members] == [answer.member_id]
    synced = table.answers[table.send_sync(answer.member_id, 1, instance_id="i1")]
    assert synced.assignment == b"mine"
    assert table.group().state.value == "Stable"


def test_a_static_leader_that_cannot_skip_the_assignment_is_not_reported_that_it_leads() -> None:
    table = Table()
    old_id = static_group(table)
    answer = table.answers[table.send_join(instance_id="i1", can_skip_assignment=False)]
    assert (answer.leader_id, answer.members, answer.skip_assignment) == (old_id, (), False)


def test_a_restarted_static_member_is_known_after_a_failover() -> None:
    table = Table()
    static_group(table)
    new_id = table.answers[table.send_join(instance_id="i1")].member_id
    table.restart()
    assert table.group().instances == {"i1": new_id}
    assert table.group().members[new_id].assignment == b"mine"


def test_the_double_of_a_static_member_is_fenced() -> None:
    table = Table()
    old_id = static_group(table)
    table.send_join(instance_id="i1")
    with pytest.raises(FencedInstanceId):
        table.ask(GroupMachine.heartbeat, "g", old_id, "i1", 1)
    assert isinstance(table.answers[table.send_join(old_id, instance_id="i1")], FencedInstanceId)


def test_a_parked_request_of_a_double_is_fenced_at_once() -> None:
    table = Table()
    first = table.send_join(instance_id="i1")
    second = table.send_join(instance_id="i1")
    assert isinstance(table.answers[first], FencedInstanceId)
    table.wait(10_000)
    assert isinstance(table.answers[second], JoinResult)
    assert len(table.group().members) == 1


def test_pitfall_19_a_static_member_that_joins_while_the_leader_assigns_makes_it_rebalance() -> None:
    table = Table()
    leader_id, _ = table.new_member()
    table.send_join(instance_id="i1")
    table.wait(10_000)
    old_id = table.group().instances["i1"]
    parked_sync = table.send_sync(old_id, 1, instance_id="i1")
    table.send_join(instance_id="i1")
    assert isinstance(table.answers[parked_sync], FencedInstanceId)
    assert table.group().state.value == "PreparingRebalance"
    assert isinstance(table.answers[table.send_sync(leader_id, 1)], RebalanceInProgress)


def test_a_static_member_that_restarts_with_another_protocol_makes_the_group_rebalance() -> None:
    table = Table()
    table.send_join(instance_id="i1", protocols=(RANGE, STICKY))
    table.wait(10_000)
    member_id = table.group().instances["i1"]
    table.send_sync(member_id, 1, instance_id="i1")
    token = table.send_join(instance_id="i1", protocols=(STICKY, RANGE))
    assert table.answers[token].generation_id == 2
    assert table.answers[token].protocol_name == "sticky"


def test_a_static_member_that_does_not_join_again_stays_in_the_group_until_its_session_ends() -> None:
    table = Table()
    static_id = static_group(table, session_timeout_ms=100_000)
    newcomer_id, token = table.new_member(session_timeout_ms=100_000)
    table.wait(60_000)
    assert {each.member_id for each in table.answers[token].members} == {static_id, newcomer_id}
    assert table.answers[token].leader_id == newcomer_id


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    table = Table()
    static_group(table)
    assert table.ask(GroupMachine.leave, "g", (LeavingMember("", "i1"),)) == (None,)
    assert table.group().members == {}
    assert table.group().instances == {}
