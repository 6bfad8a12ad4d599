"""DescribeGroups, ListGroups and DeleteGroups, from bytes to bytes."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.delete_groups.v2 import DeleteGroupsRequest
from kio.schema.describe_groups.v6 import DescribeGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5 import ListGroupsRequest
from tests.unit.api.groups.members import stable_member
from tests.unit.api.groups.offset_requests import commit
from tests.unit.coordinator.coordinator_bench import CoordinatorBench

from ottla.api.support.authorization import NOT_ASKED
from ottla.security.acls import ALL_OPERATIONS, ResourceType


def describe(*groups: str, asks_operations: bool = False) -> DescribeGroupsRequest:
    ids: Any = groups
    return DescribeGroupsRequest(groups=ids, include_authorized_operations=asks_operations)


def listing(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> ListGroupsRequest:
    return ListGroupsRequest(states_filter=states, types_filter=types)


def delete(*groups: str) -> DeleteGroupsRequest:
    ids: Any = groups
    return DeleteGroupsRequest(groups_names=ids)


@pytest.mark.parametrize("version", range(7))
async def test_groups_are_described_in_every_version(bench: CoordinatorBench, version: int) -> None:
    member_id = await stable_member(bench)
    known, unknown = (await bench.ask(describe("g", "other", asks_operations=version >= 3), version)).groups
    assert (known.error_code, known.group_state, known.protocol_type, known.protocol_data) == (
        ErrorCode.none,
        "Stable",
        "consumer",
        "range",
    )
    (member,) = known.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "app", "/10.0.0.7")
    assert member.member_assignment == b"all"
    assert known.authorized_operations == (ALL_OPERATIONS[ResourceType.GROUP] if version >= 3 else NOT_ASKED)
    assert unknown.group_state == "Dead"
    assert unknown.error_code == (ErrorCode.group_id_not_found if version >= 6 else ErrorCode.none)


async def test_a_group_that_cannot_be_described_says_why(bench: CoordinatorBench) -> None:
    await bench.groups.stop()
    (group,) = (await bench.ask(describe("g"))).groups
    assert (group.error_code, group.group_state) == (ErrorCode.coordinator_not_available, "")


@pytest.mark.parametrize("version", range(6))
async def test_groups_are_listed_in_every_version(bench: CoordinatorBench, version: int) -> None:
    await stable_member(bench)
    await bench.ask(commit({"orders": {0: 1}}, group_id="lonely"))
    answer = await bench.ask(listing(), version)
    assert answer.error_code == ErrorCode.none
    listed = {
        each.group_id: (each.protocol_type, each.group_state, each.group_type) for each in answer.groups
    }
    state, kind = version >= 4, version >= 5
    assert listed == {
        "g": ("consumer", "Stable" if state else "", "classic" if kind else ""),
        "lonely": ("", "Empty" if state else "", "classic" if kind else ""),
    }


async def test_groups_are_listed_by_state_and_type(bench: CoordinatorBench) -> None:
    await stable_member(bench)
    await bench.ask(commit({"orders": {0: 1}}, group_id="lonely"))

    async def ids(**filters: tuple[str, ...]) -> set[str]:
        return {each.group_id for each in (await bench.ask(listing(**filters))).groups}

    assert await ids(states=("STABLE", " preparingRebalance ")) == {"g"}
    assert await ids(states=("Empty",)) == {"lonely"}
    assert await ids(types=("Classic",)) == {"g", "lonely"}
    assert await ids(types=("share",)) == set()
    assert await ids(states=("nonsense",)) == set()


async def test_a_coordinator_that_is_not_there_lists_nothing(bench: CoordinatorBench) -> None:
    await bench.groups.stop()
    assert (await bench.ask(listing())).error_code == ErrorCode.coordinator_not_available


@pytest.mark.parametrize("version", range(3))
async def test_groups_without_members_are_deleted_in_every_version(
    bench: CoordinatorBench, version: int
) -> None:
    await stable_member(bench)
    await bench.ask(commit({"orders": {0: 1}}, group_id="lonely"))
    answer = await bench.ask(delete("lonely", "g", "lonely", "other"), version)
    assert [(each.group_id, each.error_code) for each in answer.results] == [
        ("lonely", ErrorCode.none),
        ("g", ErrorCode.non_empty_group),
        ("other", ErrorCode.group_id_not_found),
    ]
    assert {each.group_id for each in (await bench.ask(listing())).groups} == {"g"}
