"""ConsumerGroupHeartbeat, from bytes to bytes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.api_versions.v4 import ApiVersionsRequest
from kio.schema.consumer_group_heartbeat.v1 import ConsumerGroupHeartbeatRequest
from kio.schema.consumer_group_heartbeat.v1.request import TopicPartitions
from kio.schema.errors import ErrorCode
from tests.unit.coordinator.coordinator_bench import CoordinatorBench


def beat(member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    values: Any = {
        "group_id": "g",
        "member_id": member_id,
        "member_epoch": epoch,
        "topic_partitions": None,
        "rebalance_timeout": timedelta(milliseconds=-1),
    }
    return ConsumerGroupHeartbeatRequest(**(values | fields))


def join(member_id: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    values: Any = {
        "subscribed_topic_names": topics,
        "rebalance_timeout": timedelta(seconds=60),
        "topic_partitions": (),
    }
    return beat(member_id, 0, **(values | fields))


def owned(topic_id: UUID, *indexes: int) -> tuple[TopicPartitions, ...]:
    values: Any = {"topic_id": topic_id, "partitions": indexes}
    return (TopicPartitions(**values),)


@pytest.mark.parametrize("version", [0, 1])
async def test_a_member_joins_and_stays_in_every_version(bench: CoordinatorBench, version: int) -> None:
    topic_id = bench.cluster.image.topics["orders"].topic_id
    joined = await bench.ask(join("a", "orders"), version)
    assert joined.error_code == ErrorCode.none
    assert (joined.member_id, joined.member_epoch) == ("a", 1)
    assert joined.heartbeat_interval == timedelta(seconds=5)
    (assigned,) = joined.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (topic_id, (0, 1, 2))
    stays = await bench.ask(beat("a", 1, topic_partitions=owned(topic_id, 0, 1, 2)), version)
    assert (stays.error_code, stays.member_epoch, stays.assignment) == (ErrorCode.none, 1, None)


async def test_a_heartbeat_costs_no_task(bench: CoordinatorBench) -> None:
    await bench.ask(join("a", "orders"))
    assert isinstance(bench.send(beat("a", 1)), bytes)


async def test_partitions_move_between_members(bench: CoordinatorBench) -> None:
    topic_id = bench.cluster.image.topics["orders"].topic_id
    await bench.ask(join("a", "orders"))
    waits = await bench.ask(join("b", "orders"))
    assert waits.assignment.topic_partitions == ()
    told = await bench.ask(beat("a", 1, topic_partitions=owned(topic_id, 0, 1, 2)))
    (kept,) = told.assignment.topic_partitions
    await bench.ask(beat("a", 1, topic_partitions=owned(topic_id, *kept.partitions)))
    gets = await bench.ask(beat("b", 2))
    (got,) = gets.assignment.topic_partitions
    assert sorted((*kept.partitions, *got.partitions)) == [0, 1, 2]


async def test_the_broker_makes_up_ids_in_version_0_only(bench: CoordinatorBench) -> None:
    made_up = (await bench.ask(join("", "orders"), 0)).member_id
    assert len(made_up) == 36
    assert (await bench.ask(beat(made_up, 1), 0)).error_code == ErrorCode.none
    refused = await bench.ask(join("", "orders"), 1)
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.invalid_request,
        "MemberId can't be empty.",
    )


async def test_members_leave(bench: CoordinatorBench) -> None:
    await bench.ask(join("a", "orders"))
    left = await bench.ask(beat("a", -1))
    assert (left.error_code, left.member_id, left.member_epoch) == (ErrorCode.none, "a", -1)


async def test_members_subscribe_by_regular_expressions(bench: CoordinatorBench) -> None:
    joined = await bench.ask(join("a", subscribed_topic_names=None, subscribed_topic_regex="o(r|x)d.*"))
    assert joined.assignment.topic_partitions[0].partitions == (0, 1, 2)
    refused = await bench.ask(join("b", subscribed_topic_regex="("))
    assert refused.error_code == ErrorCode.invalid_regular_expression


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (beat("a", 1, group_id=" "), ErrorCode.invalid_request),
        (beat(" ", 1), ErrorCode.invalid_request),
        (beat("a", 1, group_id="other"), ErrorCode.group_id_not_found),
        (beat("stranger", 1), ErrorCode.unknown_member_id),
        (beat("a", 7), ErrorCode.fenced_member_epoch),
        (beat("a", -2), ErrorCode.invalid_request),
        (beat("a", 1, server_assignor="sticky"), ErrorCode.unsupported_assignor),
        (join("b", "orders", instance_id="i"), ErrorCode.unreleased_instance_id),
        (beat("a", 1, instance_id="j"), ErrorCode.unknown_member_id),
        (beat("b", 1, instance_id="i"), ErrorCode.fenced_instance_id),
        (join("b", "orders", topic_partitions=owned(UUID(int=1), 0)), ErrorCode.invalid_request),
    ],
)
async def test_what_does_not_fit_is_refused_with_a_reason(
    bench: CoordinatorBench, request_: ConsumerGroupHeartbeatRequest, code: ErrorCode, version: int
) -> None:
    await bench.ask(join("a", "orders", instance_id="i"))
    answer = await bench.ask(request_, version)
    assert answer.error_code == code
    assert answer.error_message
    assert (answer.member_id, answer.member_epoch, answer.assignment) == (None, 0, None)


async def test_members_outlive_a_crash_of_the_broker(bench: CoordinatorBench) -> None:
    await bench.ask(join("a", "orders"))
    await bench.stop()
    await bench.start()
    loading = await bench.ask(beat("a", 1))
    assert loading.error_code == ErrorCode.coordinator_load_in_progress
    await bench.loaded()
    assert (await bench.ask(beat("a", 1))).error_code == ErrorCode.none


async def test_more_partitions_are_assigned(bench: CoordinatorBench) -> None:
    await bench.ask(join("a", "orders", "payments"))
    await bench.create_topics("payments", partitions=1)
    answer = await bench.ask(beat("a", 1))
    assert sorted(each.partitions for each in answer.assignment.topic_partitions) == [(0,), (0, 1, 2)]


async def test_the_consumer_protocol_can_be_switched_off() -> None:
    bench = CoordinatorBench(group_coordinator_rebalance_protocols="classic")
    await bench.start()
    await bench.groups.find("g")
    assert (await bench.ask(join("a", "orders"))).error_code == ErrorCode.unsupported_version
    await bench.stop()


@pytest.mark.parametrize("version", [3, 4])
async def test_clients_learn_that_the_protocol_is_there(bench: CoordinatorBench, version: int) -> None:
    values: Any = {"client_software_name": "test", "client_software_version": "1.0"}
    answer = await bench.ask(ApiVersionsRequest(**values), version)
    (supported,) = [each for each in answer.supported_features if each.name == "group.version"]
    assert (supported.min_version, supported.max_version) == (1, 1)
    (in_use,) = [each for each in answer.finalized_features if each.name == "group.version"]
    assert (in_use.min_version_level, in_use.max_version_level) == (1, 1)
    assert answer.finalized_features_epoch >= 0
    served = {int(each.api_key): (each.min_version, each.max_version) for each in answer.api_keys}
    assert served[68] == served[69] == (0, 1)
