"""Heartbeat, from bytes to bytes."""

from __future__ import annotations

import asyncio

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.api.groups.members import heartbeat, join, stable_member
from tests.unit.coordinator.coordinator_bench import Client, CoordinatorBench


@pytest.mark.parametrize("version", range(5))
async def test_a_member_is_alive_in_every_version(bench: CoordinatorBench, version: int) -> None:
    member_id = await stable_member(bench)
    assert (await bench.ask(heartbeat(member_id, 1), version)).error_code == ErrorCode.none


async def test_a_heartbeat_costs_no_task(bench: CoordinatorBench) -> None:
    member_id = await stable_member(bench)
    assert isinstance(bench.send(heartbeat(member_id, 1)), bytes)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": ""}, ErrorCode.invalid_group_id),
        ({"group_id": "other"}, ErrorCode.unknown_member_id),
        ({"member_id": "stranger"}, ErrorCode.unknown_member_id),
        ({"generation_id": 0}, ErrorCode.illegal_generation),
    ],
)
async def test_a_heartbeat_that_does_not_fit_is_refused(
    bench: CoordinatorBench, changes: dict[str, object], code: ErrorCode, version: int
) -> None:
    member_id = await stable_member(bench)
    request = heartbeat(**{"member_id": member_id, "generation_id": 1, **changes})  # type: ignore[arg-type]
    assert (await bench.ask(request, version)).error_code == code


async def test_a_member_must_join_again(bench: CoordinatorBench) -> None:
    member_id = await stable_member(bench)
    parked = asyncio.ensure_future(bench.send(join(), 3, Client()))
    await asyncio.sleep(0)
    assert (await bench.ask(heartbeat(member_id, 1))).error_code == ErrorCode.rebalance_in_progress
    parked.cancel()


async def test_heartbeats_succeed_while_the_coordinator_loads(bench: CoordinatorBench) -> None:
    member_id = await stable_member(bench)
    await bench.stop()
    await bench.start()
    assert (await bench.ask(heartbeat(member_id, 1))).error_code == ErrorCode.none
    await bench.loaded()
    assert (await bench.ask(heartbeat(member_id, 1))).error_code == ErrorCode.none
    assert (await bench.ask(heartbeat(member_id, 2))).error_code == ErrorCode.illegal_generation
