"""SyncGroup, from bytes to bytes."""

from __future__ import annotations

import asyncio

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.api.groups.members import join, stable_member, sync
from tests.unit.coordinator.coordinator_bench import Client, CoordinatorBench, decode


@pytest.mark.parametrize("version", range(6))
async def test_the_leader_gets_its_own_assignment_in_every_version(
    bench: CoordinatorBench, version: int
) -> None:
    joined = await bench.ask(join(), 3)
    answer = await bench.ask(sync(joined.member_id, 1, {joined.member_id: b"mine"}), version)
    assert (answer.error_code, answer.assignment) == (ErrorCode.none, b"mine")
    assert answer.protocol_name == ("range" if version >= 5 else None)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": ""}, ErrorCode.invalid_group_id),
        ({"group_id": "other"}, ErrorCode.unknown_member_id),
        ({"member_id": "stranger"}, ErrorCode.unknown_member_id),
        ({"generation_id": 7}, ErrorCode.illegal_generation),
    ],
)
async def test_a_sync_that_does_not_fit_is_refused(
    bench: CoordinatorBench, changes: dict[str, object], code: ErrorCode, version: int
) -> None:
    member_id = await stable_member(bench)
    request = sync(**{"member_id": member_id, "generation_id": 1, "assignments": {}, **changes})  # type: ignore[arg-type]
    answer = await bench.ask(request, version)
    assert (answer.error_code, answer.assignment) == (code, b"")


@pytest.mark.parametrize(
    "changes", [{"protocol_type": None}, {"protocol_name": None}, {"protocol_name": "x"}]
)
async def test_the_newest_version_must_name_the_right_protocol(
    bench: CoordinatorBench, changes: dict[str, object]
) -> None:
    member_id = await stable_member(bench)
    answer = await bench.ask(sync(member_id, 1, {}, **changes))
    assert answer.error_code == ErrorCode.inconsistent_group_protocol


async def test_followers_wait_for_the_leader(bench: CoordinatorBench) -> None:
    leader_id = await stable_member(bench)
    joining = asyncio.ensure_future(bench.send(join(), 3, Client()))
    await asyncio.sleep(0)
    await bench.ask(join(leader_id))
    follower_id = decode(await joining, 11, 3, 9).member_id
    waiting = asyncio.ensure_future(bench.send(sync(follower_id, 2, {}), 5, Client()))
    await asyncio.sleep(0)
    assert not waiting.done()
    await bench.ask(sync(leader_id, 2, {leader_id: b"left", follower_id: b"right"}))
    assert decode(await waiting, 14, 5, 5).assignment == b"right"
