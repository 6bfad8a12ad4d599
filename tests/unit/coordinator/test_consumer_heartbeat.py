"""ConsumerGroupHeartbeat: joining, moving partitions, epochs, sessions, and all that can be wrong."""

from typing import Any

import pytest
from tests.unit.coordinator.consumer_bench import GROUP, Bench, parts, topic_id

from ottla.coordinator.group import consumer_events
from ottla.coordinator.group.consumer import ConsumerGroup, ConsumerState
from ottla.coordinator.group.consumer_member import MemberState
from ottla.coordinator.group.consumer_partitions import size, to_record
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.records import ConsumerTopicsKey, ConsumerTopicsValue, Record
from ottla.coordinator.group.requests import CommitRequest, FetchRequest, OffsetToCommit
from ottla.protocol.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    IllegalGeneration,
    InvalidRegularExpression,
    InvalidRequest,
    KafkaError,
    NonEmptyGroup,
    StaleMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
    UnsupportedVersion,
)

ALL = tuple(range(6))


@pytest.fixture
def bench() -> Bench:
    return Bench({"orders": 6, "payments": 3})


def settle(bench: Bench, *member_ids: str) -> None:
    """Let members say what they have until nothing changes any more."""
    for _ in range(6):
        for member_id in member_ids:
            epoch = bench.group.members[member_id].holding.epoch
            bench.beat(member_id, epoch, owned=bench.held(member_id))


# Joining


def test_the_first_member_gets_everything_at_once(bench: Bench) -> None:
    beat = bench.join("a", "orders")
    assert (beat.member_id, beat.member_epoch, beat.heartbeat_interval_ms) == ("a", 1, 5000)
    assert beat.assignment == to_record(parts("orders", *ALL))
    assert bench.group.state is ConsumerState.STABLE


def test_a_client_without_a_member_id_is_given_one(bench: Bench) -> None:
    assert bench.join("", "orders", fresh_id="made-up").member_id == "made-up"


def test_an_answer_tells_the_assignment_only_if_it_changed_or_all_was_asked(bench: Bench) -> None:
    bench.join("a", "orders")
    assert bench.beat("a", 1).assignment is None
    full = bench.beat(
        "a", 1, subscribed_topics=("orders",), rebalance_timeout_ms=60_000, owned=parts("orders", *ALL)
    )
    assert full.assignment == to_record(parts("orders", *ALL))


def test_a_heartbeat_without_news_writes_nothing(bench: Bench) -> None:
    bench.join("a", "orders")
    written = len(bench.log)
    bench.beat("a", 1, owned=parts("orders", *ALL))
    assert len(bench.log) == written


def test_a_partition_moves_only_after_its_owner_gave_it_up(bench: Bench) -> None:
    bench.join("a", "orders")
    joined = bench.join("b", "orders")
    assert joined.assignment == ()
    assert joined.member_epoch == 2

    told = bench.beat("a", 1, owned=parts("orders", *ALL))
    assert told.member_epoch == 1, "it stays in its epoch until it has given up what it is to give up"
    assert told.assignment == to_record(parts("orders", 0, 1, 2))
    assert bench.group.members["a"].holding.state is MemberState.UNREVOKED_PARTITIONS
    assert bench.beat("b", 2).assignment is None, "nothing is free yet"
    assert bench.group.members["b"].holding.state is MemberState.UNRELEASED_PARTITIONS

    assert bench.beat("a", 1).member_epoch == 1, "saying nothing is not saying that it gave them up"
    assert bench.beat("a", 1, owned=parts("orders", 0, 1, 2, 5)).member_epoch == 1, "nor is half of it"
    assert bench.beat("a", 1, owned=parts("orders", 0, 1, 2)).member_epoch == 2
    assert bench.beat("b", 2).assignment == to_record(parts("orders", 3, 4, 5))
    assert bench.group.state is ConsumerState.STABLE


def test_a_member_may_have_back_what_it_was_told_to_give_up(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.join("b", "orders")
    bench.beat("a", 1, owned=parts("orders", *ALL))
    bench.beat("b", -1)
    beat = bench.beat("a", 1, owned=parts("orders", 0, 1, 2))
    assert beat.assignment == to_record(parts("orders", *ALL))


def test_partitions_come_piece_by_piece_as_others_give_them_up(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.join("b", "orders")
    settle(bench, "a", "b")
    bench.join("c", "orders")
    bench.beat("a", 2, owned=bench.held("a"))
    bench.beat("a", 2, owned=bench.held("a"))
    first = bench.beat("c", bench.group.members["c"].holding.epoch)
    assert first.assignment is not None
    assert size(bench.held("c")) == 1
    settle(bench, "b", "c")
    assert size(bench.held("c")) == 2


def test_members_without_topics_are_members(bench: Bench) -> None:
    beat = bench.join("a")
    assert (beat.member_epoch, beat.assignment) == (1, ())
    assert bench.join("b", "no-such-topic").assignment == ()


def test_more_members_than_partitions_leaves_some_without(bench: Bench) -> None:
    for name in "abcd":
        bench.join(name, "payments")
    settle(bench, *"abcd")
    assert sorted(size(bench.held(name)) for name in "abcd") == [0, 1, 1, 1]


# Epochs


def test_a_member_that_missed_the_last_answer_may_repeat_its_heartbeat(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.join("b", "orders")
    bench.beat("a", 1, owned=parts("orders", *ALL))
    bench.beat("a", 1, owned=parts("orders", 0, 1, 2))
    assert bench.beat("a", 1, owned=parts("orders", 0, 1, 2)).member_epoch == 2


@pytest.mark.parametrize(
    ("epoch", "owned"),
    [
        (3, parts("orders", 0)),
        (1, parts("orders", 0, 5)),
        (1, None),
        (99, None),
    ],
)
def test_a_member_with_another_epoch_is_fenced(bench: Bench, epoch: int, owned: Any) -> None:
    bench.join("a", "orders")
    bench.join("b", "orders")
    bench.beat("a", 1, owned=parts("orders", *ALL))
    bench.beat("a", 1, owned=parts("orders", 0, 1, 2))
    with pytest.raises(FencedMemberEpoch):
        bench.beat("a", epoch, owned=owned)


def test_a_fenced_member_that_joins_again_keeps_its_place(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.join("b", "orders")
    settle(bench, "a", "b")
    written = bench.group.epoch
    beat = bench.join("a", "orders")
    assert (beat.member_epoch, beat.assignment) == (2, to_record(parts("orders", 0, 1, 2)))
    assert bench.group.epoch == written


def test_joining_again_is_a_way_of_saying_that_one_has_nothing(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.join("b", "orders")
    bench.beat("a", 1, owned=parts("orders", *ALL))
    beat = bench.join("a", "orders")
    assert (beat.member_epoch, beat.assignment) == (2, to_record(parts("orders", 0, 1, 2)))


def test_the_groups_epoch_goes_up_when_members_come_go_or_change_their_mind(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.join("b", "orders")
    assert bench.group.epoch == 2
    settle(bench, "a", "b")
    bench.beat("a", 2, subscribed_topics=("orders", "payments"))
    assert bench.group.epoch == 3
    bench.beat("a", bench.group.members["a"].holding.epoch, subscribed_topics=("payments", "orders"))
    assert bench.group.epoch == 3, "another order is no change"
    bench.beat("b", -1)
    assert bench.group.epoch == 4
    assert bench.group.state is ConsumerState.ASSIGNING


def test_what_a_member_does_not_want_any_more_is_taken_from_it_at_once(bench: Bench) -> None:
    bench.join("a", "orders", "payments")
    beat = bench.beat("a", 1, subscribed_topics=("payments",))
    assert beat.assignment == to_record(parts("payments", 0, 1, 2))
    assert bench.group.members["a"].holding.revoking == parts("orders", *ALL)


# Topics


def test_a_topic_that_is_created_is_assigned_with_the_next_heartbeat(bench: Bench) -> None:
    bench.join("a", "orders", "invoices")
    bench.change_topics({"orders": 6, "payments": 3, "invoices": 1})
    assert bench.beat("a", 1).assignment == to_record(parts("invoices", 0) | parts("orders", *ALL))


def test_more_partitions_are_assigned_with_the_next_heartbeat(bench: Bench) -> None:
    bench.join("a", "payments")
    bench.change_topics({"payments": 5})
    assert bench.beat("a", 1).assignment == to_record(parts("payments", 0, 1, 2, 3, 4))
    assert bench.group.epoch == 2


def test_a_deleted_topic_is_taken_away(bench: Bench) -> None:
    bench.join("a", "orders", "payments")
    bench.change_topics({"orders": 6})
    assert bench.beat("a", 1).assignment == to_record(parts("orders", *ALL))


def test_a_topic_that_was_made_anew_is_another_one(bench: Bench) -> None:
    bench.join("a", "payments")
    bench.change_topics({"payments": 3}, ids={"payments": 1})
    assert bench.beat("a", 1, owned=parts("payments", 0, 1, 2)).assignment == ()
    assert bench.beat("a", 1, owned={}).assignment == to_record(parts("payments", 0, 1, 2, version=1))


def test_changes_of_other_topics_change_nothing(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.change_topics({"orders": 6, "other": 9})
    written = len(bench.log)
    assert bench.beat("a", 1).assignment is None
    assert (bench.group.epoch, len(bench.log)) == (1, written)


def test_changes_while_there_was_no_coordinator_are_noticed(bench: Bench) -> None:
    bench.join("a", "payments")
    bench.change_topics({"payments": 4})
    bench.fail_over()
    assert bench.beat("a", 1).assignment == to_record(parts("payments", 0, 1, 2, 3))


def test_the_record_of_topics_that_kafka_4_0_kept_is_removed(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.machine.replay(Record(ConsumerTopicsKey(GROUP), ConsumerTopicsValue(())))
    bench.join("b", "orders")
    assert Record(ConsumerTopicsKey(GROUP)) in bench.log


# Regular expressions


def test_a_regular_expression_subscribes_to_all_topics_that_match_it(bench: Bench) -> None:
    beat = bench.join("a", subscribed_regex="(orders|pay.*)")
    assert beat.assignment == to_record(parts("orders", *ALL) | parts("payments", 0, 1, 2))
    bench.change_topics({"orders": 6, "payments": 3, "payroll": 1})
    assert bench.beat("a", 1).assignment == to_record(
        parts("orders", *ALL) | parts("payments", 0, 1, 2) | parts("payroll", 0)
    )


def test_names_and_a_regular_expression_add_up(bench: Bench) -> None:
    beat = bench.join("a", "orders", subscribed_regex="pay.*")
    assert beat.assignment == to_record(parts("orders", *ALL) | parts("payments", 0, 1, 2))


def test_a_regular_expression_that_nobody_uses_any_more_is_forgotten(bench: Bench) -> None:
    bench.join("a", subscribed_regex="o.*")
    bench.join("b", subscribed_regex="o.*")
    bench.beat("a", -1)
    assert set(bench.group.regexes) == {"o.*"}
    bench.beat("b", bench.group.members["b"].holding.epoch, subscribed_regex="p.*")
    assert set(bench.group.regexes) == {"p.*"}
    bench.beat("b", -1)
    assert not bench.group.regexes


def test_an_empty_regular_expression_is_none(bench: Bench) -> None:
    assert bench.join("a", subscribed_regex="").assignment == ()
    assert not bench.group.regexes


def test_a_bad_regular_expression_is_refused_and_changes_nothing(bench: Bench) -> None:
    bench.join("a", "orders")
    written = len(bench.log)
    with pytest.raises(InvalidRegularExpression):
        bench.join("b", subscribed_regex="(orders")
    with pytest.raises(InvalidRegularExpression):
        bench.beat("a", 1, subscribed_regex="o(?=rders)")
    assert len(bench.log) == written


def test_a_great_many_regular_expressions_are_refreshed_over_several_heartbeats() -> None:
    topics = {f"t{i}": 1 for i in range(3000)}
    bench = Bench(topics)
    for i in range(40):
        bench.join(f"m{i}", subscribed_regex=f"t{i}|new")
    bench.change_topics(topics | {"new": 1})
    for _ in range(6):
        epoch = bench.group.members["m0"].holding.epoch
        bench.beat("m0", epoch, owned=bench.held("m0"))
    assert all("new" in each.topics for each in bench.group.regexes.values())


# Assignors


def test_the_assignor_that_most_members_ask_for_is_used(bench: Bench) -> None:
    bench.join("a", "orders", server_assignor="range")
    bench.join("b", "orders", server_assignor="range")
    bench.join("c", "orders", server_assignor="uniform")
    settle(bench, "a", "b", "c")
    assert bench.held("a") == parts("orders", 0, 1)
    assert bench.held("b") == parts("orders", 2, 3)
    assert bench.call(consumer_events.describe, GROUP).assignor == "range"


def test_the_first_configured_assignor_is_the_default() -> None:
    bench = Bench({"orders": 6}, group_consumer_assignors="range,uniform")
    bench.join("a", "orders")
    assert bench.call(consumer_events.describe, GROUP).assignor == "range"


# Leaving


def test_a_member_that_leaves_leaves_its_partitions_to_the_others(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.join("b", "orders")
    settle(bench, "a", "b")
    left = bench.beat("b", -1)
    assert (left.member_epoch, left.assignment) == (-1, None)
    assert bench.beat("a", 2).assignment == to_record(parts("orders", *ALL))
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
    assert bench.beat("b", 2).assignment == to_record(parts("orders", *ALL))


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
    assert bench.beat("b", 2).assignment == to_record(parts("orders", *ALL))


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


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(bench: Bench) -> None:
    bench.join("a1", "orders", instance_id="a")
    bench.join("b", "orders")
    settle(bench, "a1", "b")
    left = bench.beat("a1", -2, instance_id="a")
    assert left.member_epoch == -2
    epoch = bench.group.epoch
    assert bench.beat("b", 2).assignment is None
    back = bench.join("a2", "orders", instance_id="a")
    assert (back.member_epoch, back.assignment) == (2, to_record(parts("orders", 0, 1, 2)))
    assert bench.group.epoch == epoch
    assert set(bench.group.members) == {"a2", "b"}
    assert bench.group.state is ConsumerState.STABLE


def test_a_static_member_that_does_not_come_back_is_removed_with_its_session(bench: Bench) -> None:
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


def test_whoever_lost_its_instance_id_is_fenced(bench: Bench) -> None:
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
    assert bench.beat("b", 2).assignment == to_record(parts("orders", 3, 4, 5))


# Bad requests


@pytest.mark.parametrize(
    ("epoch", "fields", "error", "message"),
    [
        (
            0,
            {"rebalance_timeout_ms": -1},
            InvalidRequest,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (0, {"owned": None}, InvalidRequest, "TopicPartitions must be empty when (re-)joining."),
        (
            0,
            {"owned": parts("orders", 1)},
            InvalidRequest,
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (0, {"subscribed_topics": None}, InvalidRequest, "Either SubscribedTopicNames or"),
        (0, {"instance_id": ""}, InvalidRequest, "InstanceId can't be empty."),
        (0, {"rack_id": " "}, InvalidRequest, "RackId can't be empty."),
        (0, {"server_assignor": "sticky"}, UnsupportedAssignor, "Supported assignors: uniform, range."),
        (-2, {}, InvalidRequest, "InstanceId can't be null."),
        (-3, {}, InvalidRequest, "MemberEpoch is -3"),
        (5, {}, GroupIdNotFound, ""),
        (-1, {}, GroupIdNotFound, ""),
    ],
)
def test_requests_that_make_no_sense_are_refused_in_kafkas_words(
    bench: Bench, epoch: int, fields: dict[str, Any], error: type[KafkaError], message: str
) -> None:
    values = {"subscribed_topics": ("orders",), "rebalance_timeout_ms": 1000, "owned": {}} | fields
    with pytest.raises(error) as raised:
        bench.beat("a", epoch, **values)
    assert message in str(raised.value)
    assert not bench.log


def test_an_unknown_member_is_refused(bench: Bench) -> None:
    bench.join("a", "orders")
    for epoch in (1, -1):
        with pytest.raises(UnknownMemberId):
            bench.beat("b", epoch)


def test_a_full_group_takes_no_more_members_but_keeps_those_it_has() -> None:
    bench = Bench({"orders": 6}, group_consumer_max_size="2")
    bench.join("a1", "orders", instance_id="a")
    bench.join("b", "orders")
    with pytest.raises(GroupMaxSizeReached):
        bench.join("c", "orders")
    bench.join("b", "orders")
    bench.beat("a1", -2, instance_id="a")
    bench.join("a2", "orders", instance_id="a")


# Offsets


def commit(member_id: str, epoch: int, *, modern: bool = True) -> CommitRequest:
    topics = (("orders", (OffsetToCommit(0, 7, -1, ""),)),)
    return CommitRequest(GROUP, member_id, None, epoch, topics, None, modern)


def test_offsets_are_committed_at_the_members_epoch_only(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.call(GroupMachine.commit, commit("a", 1))
    for epoch in (0, 2, -1):
        with pytest.raises(StaleMemberEpoch):
            bench.call(GroupMachine.commit, commit("a", epoch))
    with pytest.raises(UnknownMemberId):
        bench.call(GroupMachine.commit, commit("", -1))
    with pytest.raises(UnsupportedVersion):
        bench.call(GroupMachine.commit, commit("a", 1, modern=False))


def test_offsets_can_be_set_from_outside_while_nobody_is_in_the_group(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.beat("a", -1)
    bench.call(GroupMachine.commit, commit("", -1))
    assert bench.machine.offsets.of_group(GROUP)["orders"][0].offset == 7


def test_offsets_are_told_to_members_at_their_epoch_and_to_those_who_claim_nothing(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.call(GroupMachine.fetch, FetchRequest(GROUP, None))
    bench.call(GroupMachine.fetch, FetchRequest(GROUP, None, "a", 1))
    with pytest.raises(StaleMemberEpoch):
        bench.call(GroupMachine.fetch, FetchRequest(GROUP, None, "a", 2))
    with pytest.raises(UnknownMemberId):
        bench.call(GroupMachine.fetch, FetchRequest(GROUP, None, "b", 1))


def test_offsets_outlive_a_failover_and_the_groups_protocol(bench: Bench) -> None:
    with pytest.raises((GroupIdNotFound, IllegalGeneration)):
        bench.call(GroupMachine.commit, commit("a", 1))
    bench.call(GroupMachine.commit, commit("", -1))
    bench.join("a", "orders")
    bench.fail_over()
    assert isinstance(bench.machine.groups[GROUP], ConsumerGroup)
    assert bench.machine.offsets.of_group(GROUP)["orders"][0].offset == 7


# Watching


def test_a_group_is_described_with_what_its_members_have_and_are_to_have(bench: Bench) -> None:
    bench.join("a", "orders", instance_id="i", rack_id="r")
    bench.join("b", "orders")
    described = bench.call(consumer_events.describe, GROUP)
    assert (described.state, described.epoch, described.target_epoch) == ("Reconciling", 2, 2)
    first, second = described.members
    assert (first.member_id, first.instance_id, first.rack_id, first.member_epoch) == ("a", "i", "r", 1)
    assert first.assigned == ((topic_id("orders"), ALL),)
    assert first.target == ((topic_id("orders"), (0, 1, 2)),)
    assert (second.assigned, second.is_classic) == ((), False)
    assert (
        bench.call(GroupMachine.list_groups, frozenset(), frozenset({"consumer"}))[0].state == "Reconciling"
    )


def test_only_consumer_groups_are_described(bench: Bench) -> None:
    bench.call(GroupMachine.commit, commit("", -1))
    with pytest.raises(GroupIdNotFound):
        bench.call(consumer_events.describe, GROUP)
    with pytest.raises(GroupIdNotFound):
        bench.call(consumer_events.describe, "unknown")
