"""ConsumerGroupHeartbeat: joining, moving partitions, epochs, and requests that make no sense."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.coordinator.consumer_bench import ALL, GROUP, Bench, parts, settle

from ottla.coordinator.group.consumer.group import ConsumerState
from ottla.coordinator.group.consumer.member import MemberState
from ottla.coordinator.group.consumer.partitions import in_order, size
from ottla.metadata.image import diff_images
from ottla.metadata.records import ConfigResource
from ottla.protocol.errors import (
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    KafkaError,
    UnknownMemberId,
    UnsupportedAssignor,
)


@pytest.fixture
def bench() -> Bench:
    return Bench({"orders": 6, "payments": 3})


# Joining


def test_the_first_member_gets_everything_at_once(bench: Bench) -> None:
    beat = bench.join("a", "orders")
    assert (beat.member_id, beat.member_epoch, beat.heartbeat_interval_ms) == ("a", 1, 5000)
    assert beat.assignment == in_order(parts("orders", *ALL))
    assert bench.group.state is ConsumerState.STABLE


def test_a_client_without_a_member_id_is_given_one(bench: Bench) -> None:
    assert bench.join("", "orders", fresh_id="made-up").member_id == "made-up"


def test_an_answer_tells_the_assignment_only_if_it_changed_or_all_was_asked(bench: Bench) -> None:
    bench.join("a", "orders")
    assert bench.beat("a", 1, owned=parts("orders", *ALL)).assignment is None
    assert bench.beat("a", 1).assignment is None
    full = bench.beat(
        "a", 1, subscribed_topics=("orders",), rebalance_timeout_ms=60_000, owned=parts("orders", *ALL)
    )
    assert full.assignment == in_order(parts("orders", *ALL))


def test_an_assignment_is_resent_until_the_member_reports_it(bench: Bench) -> None:
    """librdkafka drops an answer that is late, and does not ask for all after that (decision 311)."""
    bench.join("a", "orders")
    bench.join("b", "orders")
    asked = bench.beat("a", 1, owned=parts("orders", *ALL)).assignment
    assert asked == in_order(parts("orders", 0, 1, 2))
    assert bench.beat("a", 1).assignment == asked, "that answer came too late"
    assert bench.beat("a", 1, owned=parts("orders", 0, 1, 2)).member_epoch == 2
    assert bench.beat("a", 2).assignment is None
    given = bench.beat("b", 2).assignment
    assert given == in_order(parts("orders", 3, 4, 5))
    assert bench.beat("b", 2).assignment == given, "that one, too: its epoch is the same as before"
    assert bench.beat("b", 2, owned=parts("orders", 3, 4, 5)).assignment is None
    assert bench.beat("b", 2).assignment is None
    assert bench.group.unheard == set()


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
    assert told.assignment == in_order(parts("orders", 0, 1, 2))
    assert bench.group.members["a"].current.state is MemberState.UNREVOKED_PARTITIONS
    assert bench.beat("b", 2).assignment is None, "nothing is free yet"
    assert bench.group.members["b"].current.state is MemberState.UNRELEASED_PARTITIONS

    assert bench.beat("a", 1).member_epoch == 1, "saying nothing is not saying that it gave them up"
    assert bench.beat("a", 1, owned=parts("orders", 0, 1, 2, 5)).member_epoch == 1, "nor is half of it"
    assert bench.beat("a", 1, owned=parts("orders", 0, 1, 2)).member_epoch == 2
    assert bench.beat("b", 2).assignment == in_order(parts("orders", 3, 4, 5))
    assert bench.group.state is ConsumerState.STABLE


def test_a_member_may_have_back_what_it_was_reported_to_give_up(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.join("b", "orders")
    bench.beat("a", 1, owned=parts("orders", *ALL))
    bench.beat("b", -1)
    beat = bench.beat("a", 1, owned=parts("orders", 0, 1, 2))
    assert beat.assignment == in_order(parts("orders", *ALL))


def test_partitions_come_piece_by_piece_as_others_give_them_up(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.join("b", "orders")
    settle(bench, "a", "b")
    bench.join("c", "orders")
    bench.beat("a", 2, owned=bench.held("a"))
    bench.beat("a", 2, owned=bench.held("a"))
    first = bench.beat("c", bench.group.members["c"].current.epoch)
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
    assert (beat.member_epoch, beat.assignment) == (2, in_order(parts("orders", 0, 1, 2)))
    assert bench.group.epoch == written


def test_joining_again_is_a_way_of_saying_that_one_has_nothing(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.join("b", "orders")
    bench.beat("a", 1, owned=parts("orders", *ALL))
    beat = bench.join("a", "orders")
    assert (beat.member_epoch, beat.assignment) == (2, in_order(parts("orders", 0, 1, 2)))


def test_the_groups_epoch_goes_up_when_members_come_go_or_change_their_mind(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.join("b", "orders")
    assert bench.group.epoch == 2
    settle(bench, "a", "b")
    bench.beat("a", 2, subscribed_topics=("orders", "payments"))
    assert bench.group.epoch == 3
    bench.beat("a", bench.group.members["a"].current.epoch, subscribed_topics=("payments", "orders"))
    assert bench.group.epoch == 3, "another order is no change"
    bench.beat("b", -1)
    assert bench.group.epoch == 4
    assert bench.group.state is ConsumerState.ASSIGNING


def test_what_a_member_does_not_want_any_more_is_taken_from_it_at_once(bench: Bench) -> None:
    bench.join("a", "orders", "payments")
    beat = bench.beat("a", 1, subscribed_topics=("payments",))
    assert beat.assignment == in_order(parts("payments", 0, 1, 2))
    assert bench.group.members["a"].current.revoking == parts("orders", *ALL)


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


def test_a_groups_own_times_count_as_soon_as_they_are_set() -> None:
    bench = Bench({"orders": 2})
    assert bench.join("m", "orders").heartbeat_interval_ms == 5_000
    assert bench.timers["session", GROUP, "m"] == bench.now_ms + 45_000
    own = {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "6000"}
    old, bench.image = bench.image, replace(bench.image, configs={(ConfigResource.GROUP, GROUP): own})
    bench.call(
        lambda machine, now_ms, _: machine.new_image(now_ms, bench.image, diff_images(old, bench.image))
    )
    assert bench.beat("m", bench.group.members["m"].current.epoch).heartbeat_interval_ms == 6_000
    assert bench.timers["session", GROUP, "m"] == bench.now_ms + 60_000
    bench.fail_over()
    assert bench.timers["session", GROUP, "m"] == bench.now_ms + 60_000
