"""JoinGroup, from bytes to bytes."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.api.groups.members import join, stable_member, sync
from tests.unit.coordinator.coordinator_bench import Client, CoordinatorBench, decode

from ottla.coordinator.group.machine import GroupMachine


@pytest.mark.parametrize("version", range(10))
async def test_a_member_joins_in_every_version(bench: CoordinatorBench, version: int) -> None:
    answer = await bench.ask(join(), version)
    if version >= 4:
        assert answer.error_code == ErrorCode.member_id_required
        assert answer.member_id.startswith("app-")
        answer = await bench.ask(join(answer.member_id), version)
    assert answer.error_code == ErrorCode.none
    assert (answer.generation_id, answer.protocol_name) == (1, "range")
    assert answer.leader == answer.member_id
    assert [each.member_id for each in answer.members] == [answer.member_id]
    assert answer.protocol_type == ("consumer" if version >= 7 else None)


async def test_the_coordinator_remembers_where_a_member_came_from(bench: CoordinatorBench) -> None:
    await stable_member(bench)
    (member,) = bench.groups.call("g", GroupMachine.describe, "g").members
    assert (member.client_id, member.client_host) == ("app", "/10.0.0.7")


async def test_the_first_version_has_one_timeout_for_both(bench: CoordinatorBench) -> None:
    await bench.ask(join(), 0)
    (shard,) = [each for each in bench.groups._shards if each.runtime.machine.groups]
    (member,) = shard.runtime.machine.groups["g"].members.values()  # type: ignore[attr-defined]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 10_000)


@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (join(group_id=""), ErrorCode.invalid_group_id),
        (join(session_timeout=timedelta(seconds=1)), ErrorCode.invalid_session_timeout),
        (join("stranger"), ErrorCode.unknown_member_id),
        (join(protocols=()), ErrorCode.inconsistent_group_protocol),
        (join(protocol_type=""), ErrorCode.inconsistent_group_protocol),
    ],
)
async def test_a_refusal_names_the_member_that_asked(
    bench: CoordinatorBench, request_: object, code: ErrorCode, version: int
) -> None:
    answer = await bench.ask(request_, version)
    assert (answer.error_code, answer.member_id) == (code, request_.member_id)  # type: ignore[attr-defined]
    assert (answer.generation_id, answer.leader, answer.members) == (-1, "", ())


async def test_a_static_leader_that_restarts_may_skip_the_assignment(bench: CoordinatorBench) -> None:
    first = await bench.ask(join(group_instance_id="i1"), 9)
    await bench.ask(sync(first.member_id, 1, {first.member_id: b"all"}, group_instance_id="i1"))
    again = await bench.ask(join(group_instance_id="i1"), 9)
    assert (again.error_code, again.skip_assignment, again.generation_id) == (ErrorCode.none, True, 1)
    older = await bench.ask(join(group_instance_id="i1"), 8)
    assert (older.skip_assignment, older.members, older.leader) == (False, (), again.member_id)


async def test_a_join_is_parked_until_the_others_have_joined(bench: CoordinatorBench) -> None:
    leader_id = await stable_member(bench)
    parked = asyncio.ensure_future(bench.send(join(), 3, Client()))
    await asyncio.sleep(0)
    assert not parked.done()
    await bench.ask(join(leader_id))
    answer = decode(await parked, 11, 3, 9)
    assert (answer.error_code, answer.generation_id) == (ErrorCode.none, 2)


async def test_a_client_that_goes_away_is_not_waited_for(bench: CoordinatorBench) -> None:
    await stable_member(bench)
    client = Client()
    parked = asyncio.ensure_future(bench.send(join(), 3, client))
    await asyncio.sleep(0)
    bench.groups.leave(client)
    with pytest.raises(asyncio.CancelledError):
        await parked
    assert all(each.runtime.parked_count == 0 for each in bench.groups._shards)
