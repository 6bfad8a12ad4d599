"""ConsumerGroupDescribe, from bytes to bytes."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.consumer_group_describe.v1 import ConsumerGroupDescribeRequest
from kio.schema.errors import ErrorCode
from tests.unit.api.groups.members import stable_member
from tests.unit.api.groups.test_consumer_group_heartbeat import join
from tests.unit.coordinator.coordinator_bench import CoordinatorBench

from ottla.api.support.authorization import NOT_ASKED
from ottla.security.acls import ALL_OPERATIONS, ResourceType


def describe(*group_ids: str, operations: bool = False) -> ConsumerGroupDescribeRequest:
    values: Any = {"group_ids": group_ids, "include_authorized_operations": operations}
    return ConsumerGroupDescribeRequest(**values)


@pytest.mark.parametrize("version", [0, 1])
async def test_a_group_is_described_in_every_version(bench: CoordinatorBench, version: int) -> None:
    topic_id = bench.cluster.image.topics["orders"].topic_id
    await bench.ask(join("a", "orders", instance_id="i", rack_id="r", subscribed_topic_regex="x.*"))
    await bench.ask(join("b", "orders"))
    (group,) = (await bench.ask(describe("g"), version)).groups
    assert (group.error_code, group.group_id, group.group_state) == (ErrorCode.none, "g", "Reconciling")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (2, 2, "uniform")
    first, second = group.members
    assert (first.member_id, first.instance_id, first.rack_id) == ("a", "i", "r")
    assert (first.client_id, first.client_host, first.member_epoch) == ("app", "/10.0.0.7", 1)
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == (("orders",), "x.*")
    (assigned,) = first.assignment.topic_partitions
    assert (assigned.topic_id, assigned.topic_name, assigned.partitions) == (topic_id, "orders", (0, 1, 2))
    targets = [each.target_assignment.topic_partitions[0].partitions for each in (first, second)]
    assert sorted(index for indexes in targets for index in indexes) == [0, 1, 2]
    assert second.assignment.topic_partitions == ()
    assert first.member_type == (1 if version == 1 else -1)
    assert group.authorized_operations == NOT_ASKED


async def test_topics_that_are_gone_are_left_out(bench: CoordinatorBench) -> None:
    await bench.ask(join("a", "orders"))
    await bench.delete_topics("orders")
    (group,) = (await bench.ask(describe("g"))).groups
    assert group.members[0].assignment.topic_partitions == ()


async def test_operations_are_reported_to_those_who_ask(bench: CoordinatorBench) -> None:
    await bench.ask(join("a", "orders"))
    (group,) = (await bench.ask(describe("g", operations=True))).groups
    assert group.authorized_operations == ALL_OPERATIONS[ResourceType.GROUP]


async def test_groups_that_are_none_are_refused_one_by_one(bench: CoordinatorBench) -> None:
    await stable_member(bench)
    groups = (await bench.ask(describe("g", "nobody", ""))).groups
    assert [each.error_code for each in groups] == [
        ErrorCode.group_id_not_found,
        ErrorCode.group_id_not_found,
        ErrorCode.invalid_group_id,
    ]
    assert all(each.error_message for each in groups)
