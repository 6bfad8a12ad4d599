"""Requests that a member of a group sends, in the newest version."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kio.schema.heartbeat.v4 import HeartbeatRequest
from kio.schema.join_group.v9 import JoinGroupRequest
from kio.schema.join_group.v9.request import JoinGroupRequestProtocol
from kio.schema.sync_group.v5 import SyncGroupRequest
from kio.schema.sync_group.v5.request import SyncGroupRequestAssignment
from tests.unit.coordinator.coordinator_bench import CoordinatorBench
from tests.unit.coordinator.group_table import subscription


def join(member_id: str = "", **changes: Any) -> JoinGroupRequest:
    fields: dict[str, Any] = {
        "group_id": "g",
        "session_timeout": timedelta(seconds=10),
        "rebalance_timeout": timedelta(seconds=60),
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": (JoinGroupRequestProtocol(name="range", metadata=subscription("orders")),),
        "reason": None,
    }
    return JoinGroupRequest(**{**fields, **changes})


def sync(
    member_id: str, generation_id: int, assignments: dict[str, bytes], **changes: Any
) -> SyncGroupRequest:
    fields: dict[str, Any] = {
        "group_id": "g",
        "generation_id": generation_id,
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": tuple(
            SyncGroupRequestAssignment(member_id=each, assignment=assignment)
            for each, assignment in assignments.items()
        ),
    }
    return SyncGroupRequest(**{**fields, **changes})


def heartbeat(member_id: str, generation_id: int, **changes: Any) -> HeartbeatRequest:
    fields: dict[str, Any] = {
        "group_id": "g",
        "generation_id": generation_id,
        "member_id": member_id,
        "group_instance_id": None,
    }
    return HeartbeatRequest(**{**fields, **changes})


async def stable_member(bench: CoordinatorBench, **changes: Any) -> str:
    """Let a group of one member become Stable; return the member's id."""
    first = await bench.ask(join(**changes), 3)
    member_id: str = first.member_id
    instance_id = changes.get("group_instance_id")
    request = sync(member_id, first.generation_id, {member_id: b"all"}, group_instance_id=instance_id)
    await bench.ask(request)
    return member_id
