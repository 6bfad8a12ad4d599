"""What members of a consumer group ask for: topics by name or by regular expression, and who assigns them."""

import pytest
from tests.unit.coordinator.consumer_bench import ALL, GROUP, Bench, parts, settle

from ottla.coordinator.group.consumer import events
from ottla.coordinator.group.consumer.partitions import in_order
from ottla.coordinator.group.records import ConsumerTopicsKey, ConsumerTopicsValue, Record
from ottla.protocol.errors import InvalidRegularExpression


@pytest.fixture
def bench() -> Bench:
    return Bench({"orders": 6, "payments": 3})


# Topics


def test_a_topic_that_is_created_is_assigned_with_the_next_heartbeat(bench: Bench) -> None:
    bench.join("a", "orders", "invoices")
    bench.change_topics({"orders": 6, "payments": 3, "invoices": 1})
    assert bench.beat("a", 1).assignment == in_order(parts("invoices", 0) | parts("orders", *ALL))


def test_more_partitions_are_assigned_with_the_next_heartbeat(bench: Bench) -> None:
    bench.join("a", "payments")
    bench.change_topics({"payments": 5})
    assert bench.beat("a", 1).assignment == in_order(parts("payments", 0, 1, 2, 3, 4))
    assert bench.group.epoch == 2


def test_a_deleted_topic_is_taken_away(bench: Bench) -> None:
    bench.join("a", "orders", "payments")
    bench.change_topics({"orders": 6})
    assert bench.beat("a", 1).assignment == in_order(parts("orders", *ALL))


def test_a_topic_that_was_made_anew_is_another_one(bench: Bench) -> None:
    bench.join("a", "payments")
    bench.change_topics({"payments": 3}, ids={"payments": 1})
    assert bench.beat("a", 1, owned=parts("payments", 0, 1, 2)).assignment == ()
    assert bench.beat("a", 1, owned={}).assignment == in_order(parts("payments", 0, 1, 2, version=1))


def test_changes_of_other_topics_change_nothing(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.change_topics({"orders": 6, "other": 9})
    written = len(bench.log)
    assert bench.beat("a", 1, owned=parts("orders", *range(6))).assignment is None
    assert (bench.group.epoch, len(bench.log)) == (1, written)


def test_changes_while_there_was_no_coordinator_are_noticed(bench: Bench) -> None:
    bench.join("a", "payments")
    bench.change_topics({"payments": 4})
    bench.fail_over()
    assert bench.beat("a", 1).assignment == in_order(parts("payments", 0, 1, 2, 3))


def test_the_record_of_topics_that_kafka_4_0_kept_is_removed(bench: Bench) -> None:
    bench.join("a", "orders")
    bench.machine.replay(Record(ConsumerTopicsKey(GROUP), ConsumerTopicsValue(())))
    bench.join("b", "orders")
    assert Record(ConsumerTopicsKey(GROUP)) in bench.log


# Regular expressions


def test_a_regular_expression_subscribes_to_all_topics_that_match_it(bench: Bench) -> None:
    beat = bench.join("a", subscribed_regex="(orders|pay.*)")
    assert beat.assignment == in_order(parts("orders", *ALL) | parts("payments", 0, 1, 2))
    bench.change_topics({"orders": 6, "payments": 3, "payroll": 1})
    assert bench.beat("a", 1).assignment == in_order(
        parts("orders", *ALL) | parts("payments", 0, 1, 2) | parts("payroll", 0)
    )


def test_names_and_a_regular_expression_add_up(bench: Bench) -> None:
    beat = bench.join("a", "orders", subscribed_regex="pay.*")
    assert beat.assignment == in_order(parts("orders", *ALL) | parts("payments", 0, 1, 2))


def test_a_regular_expression_without_members_is_removed(bench: Bench) -> None:
    bench.join("a", subscribed_regex="o.*")
    bench.join("b", subscribed_regex="o.*")
    bench.beat("a", -1)
    assert set(bench.group.regexes) == {"o.*"}
    bench.beat("b", bench.group.members["b"].current.epoch, subscribed_regex="p.*")
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
        epoch = bench.group.members["m0"].current.epoch
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
    assert bench.call(events.describe, GROUP).assignor == "range"


def test_the_first_configured_assignor_is_the_default() -> None:
    bench = Bench({"orders": 6}, group_consumer_assignors="range,uniform")
    bench.join("a", "orders")
    assert bench.call(events.describe, GROUP).assignor == "range"
