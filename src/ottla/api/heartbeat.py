"""Heartbeat: a member of a classic group is alive, and learns when to join again.

v1 announces throttling; v3 adds the instance id of static members; v4 is flexible.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4 import HeartbeatRequest, HeartbeatResponse

from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import check_group_id, respond_later
from ottla.coordinator.group.machine import GroupMachine
from ottla.protocol.errors import CoordinatorLoadInProgress
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType

_ALIVE = HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none)


def heartbeat(
    request: HeartbeatRequest, ctx: RequestContext
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    """Extend the member's session."""
    check_group_id(request.group_id)
    require(ctx, ResourceType.GROUP, request.group_id)
    try:
        reply = ctx.services.groups.call(
            request.group_id,
            GroupMachine.heartbeat,
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id,
        )
    except CoordinatorLoadInProgress:
        return _ALIVE  # sessions begin when the coordinator has loaded; no reason to worry anyone
    return _ALIVE if reply is None else respond_later(reply, lambda _: _ALIVE)
