"""LeaveGroup, from bytes to bytes."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v2 import LeaveGroupRequest as RequestV2
from kio.schema.leave_group.v5 import LeaveGroupRequest
from kio.schema.leave_group.v5.request import MemberIdentity
from tests.unit.api.groups.members import join, stable_member, sync
from tests.unit.coordinator.coordinator_bench import CoordinatorBench

from ottla.coordinator.group.machine import GroupMachine


def leave(*members: tuple[str, str | None], group_id: str = "g") -> LeaveGroupRequest:
    identities: Any = tuple(
        MemberIdentity(member_id=member_id, group_instance_id=instance_id, reason="bored")
        for member_id, instance_id in members
    )
    return LeaveGroupRequest(group_id=group_id, members=identities)  # type: ignore[arg-type]


def leave_alone(member_id: str, group_id: str = "g") -> RequestV2:
    return RequestV2(group_id=group_id, member_id=member_id)  # type: ignore[arg-type]


def state(bench: CoordinatorBench) -> str:
    described: str = bench.groups.call("g", GroupMachine.describe, "g").state
    return described


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_each_leaver_gets_its_own_answer(bench: CoordinatorBench, version: int) -> None:
    member_id = await stable_member(bench)
    answer = await bench.ask(leave((member_id, None), ("stranger", None)), version)
    assert answer.error_code == ErrorCode.none
    assert [(each.member_id, each.error_code) for each in answer.members] == [
        (member_id, ErrorCode.none),
        ("stranger", ErrorCode.unknown_member_id),
    ]
    assert state(bench) == "Empty"


async def test_an_administrator_removes_a_static_member(bench: CoordinatorBench) -> None:
    joined = await bench.ask(join(group_instance_id="i1"))
    await bench.ask(sync(joined.member_id, 1, {}, group_instance_id="i1"))
    answer = await bench.ask(leave(("", "i1"), ("", "i2")))
    assert [(each.group_instance_id, each.error_code) for each in answer.members] == [
        ("i1", ErrorCode.none),
        ("i2", ErrorCode.unknown_member_id),
    ]


async def test_a_group_that_does_not_exist_has_no_members(bench: CoordinatorBench) -> None:
    answer = await bench.ask(leave(("a", None), ("b", None), group_id="other"))
    assert answer.error_code == ErrorCode.none
    assert [each.error_code for each in answer.members] == [ErrorCode.unknown_member_id] * 2


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_old_clients_leave_alone(bench: CoordinatorBench, version: int) -> None:
    member_id = await stable_member(bench)
    assert (await bench.ask(leave_alone("stranger"), version)).error_code == ErrorCode.unknown_member_id
    assert (await bench.ask(leave_alone("x", "other"), version)).error_code == ErrorCode.unknown_member_id
    assert (await bench.ask(leave_alone(member_id), version)).error_code == ErrorCode.none
    assert state(bench) == "Empty"


async def test_the_group_must_have_a_name(bench: CoordinatorBench) -> None:
    assert (await bench.ask(leave(("a", None), group_id=""))).error_code == ErrorCode.invalid_group_id
    assert (await bench.ask(leave_alone("a", ""))).error_code == ErrorCode.invalid_group_id
