"""SyncGroup: the leader of a classic group sends the assignment, and every member gets its own.

v1 announces throttling; v3 adds the instance id of static members; v4 is flexible; v5 names the protocol
type and the protocol, so that a member notices if it is in another group than it believes.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.sync_group.v5 import SyncGroupRequest, SyncGroupResponse

from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import await_reply, check_group_id
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import SyncRequest
from ottla.protocol.errors import InconsistentGroupProtocol
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType

FIRST_WITH_PROTOCOL = 5


async def sync_group(request: SyncGroupRequest, ctx: RequestContext) -> SyncGroupResponse:
    """Accept the leader's assignment, and return the member's own when it is there."""
    check_group_id(request.group_id)
    require(ctx, ResourceType.GROUP, request.group_id)
    if ctx.version >= FIRST_WITH_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        raise InconsistentGroupProtocol("the protocol type and the protocol must be named")
    sync = SyncRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation_id=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=tuple((each.member_id, each.assignment) for each in request.assignments),
    )
    groups = ctx.services.groups
    reply = groups.call(request.group_id, GroupMachine.sync, sync)
    synced = await await_reply(groups.park(ctx.connection, reply))
    return SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol_name,
        assignment=synced.assignment,
    )
