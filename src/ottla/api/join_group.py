"""JoinGroup: become, or stay, a member of a classic group. The response is sent when every member has joined.

v1 adds the rebalance timeout (before, the session timeout was both); v2 announces throttling; v4 makes new
members join again with an id that the broker gave them; v5 adds static members; v6 is flexible; v7 tells the
protocol type; v8 carries a reason; v9 lets a static leader skip the assignment.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.join_group.v9 import JoinGroupRequest, JoinGroupResponse
from kio.schema.join_group.v9.response import JoinGroupResponseMember

from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import await_reply, check_group_id
from ottla.api.support.results import milliseconds
from ottla.common.ids import new_uuid
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import JoinRequest
from ottla.protocol.errors import KafkaError, MemberIdRequired
from ottla.protocol.types import NO_THROTTLE, i32
from ottla.security.acls import ResourceType

FIRST_WITH_REBALANCE_TIMEOUT = 1
FIRST_WITH_MEMBER_ID_REQUIRED = 4
FIRST_WITH_SKIP_ASSIGNMENT = 9


async def join_group(request: JoinGroupRequest, ctx: RequestContext) -> JoinGroupResponse:
    """Join, and wait for the generation to begin."""
    groups = ctx.services.groups
    try:
        check_group_id(request.group_id)
        require(ctx, ResourceType.GROUP, request.group_id)
        reply = groups.call(request.group_id, GroupMachine.join, _join_request(request, ctx))
        joined = await await_reply(groups.park(ctx.connection, reply))
    except KafkaError as error:
        return _refusal(request, error)
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        generation_id=i32(joined.generation_id),
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol_name,
        leader=joined.leader_id,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=tuple(
            JoinGroupResponseMember(
                member_id=each.member_id, group_instance_id=each.instance_id, metadata=each.metadata
            )
            for each in joined.members
        ),
    )


def _join_request(request: JoinGroupRequest, ctx: RequestContext) -> JoinRequest:
    session_timeout_ms = milliseconds(request.session_timeout)
    has_rebalance_timeout = ctx.version >= FIRST_WITH_REBALANCE_TIMEOUT
    return JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.connection.host}",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=(
            milliseconds(request.rebalance_timeout) if has_rebalance_timeout else session_timeout_ms
        ),
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, each.metadata) for each in request.protocols),
        fresh_id=str(new_uuid()),
        requires_member_id=ctx.version >= FIRST_WITH_MEMBER_ID_REQUIRED,
        can_skip_assignment=ctx.version >= FIRST_WITH_SKIP_ASSIGNMENT,
    )


def _refusal(request: JoinGroupRequest, error: KafkaError) -> JoinGroupResponse:
    return JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=error.code,
        protocol_name=None,
        leader="",
        member_id=error.member_id if isinstance(error, MemberIdRequired) else request.member_id,
        members=(),
    )
