"""LeaveGroup: members go, and the others take over their partitions at once.

v1 announces throttling; v3 takes many members at a time, and static ones by their instance id, for
administrators; v4 is flexible; v5 carries a reason.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.leave_group.v2 import LeaveGroupRequest as RequestV2
from kio.schema.leave_group.v2 import LeaveGroupResponse as ResponseV2
from kio.schema.leave_group.v5 import LeaveGroupRequest, LeaveGroupResponse
from kio.schema.leave_group.v5.response import MemberResponse

from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import check_group_id, try_ask
from ottla.api.support.results import code_of
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import LeaveResult, LeavingMember
from ottla.protocol.errors import KafkaError, UnknownMemberId
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType


async def leave_group(request: LeaveGroupRequest, ctx: RequestContext) -> LeaveGroupResponse:
    """Take members out of their group."""
    leavers = tuple(
        LeavingMember(each.member_id, each.group_instance_id, each.reason) for each in request.members
    )
    left = await _leave(ctx, request.group_id, leavers)
    return LeaveGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        members=tuple(
            MemberResponse(
                member_id=leaver.member_id, group_instance_id=leaver.instance_id, error_code=code_of(result)
            )
            for leaver, result in zip(leavers, left, strict=True)
        ),
    )


async def leave_group_alone(request: RequestV2, ctx: RequestContext) -> ResponseV2:
    """Take one member out of its group."""
    (result,) = await _leave(ctx, request.group_id, (LeavingMember(request.member_id),))
    return ResponseV2(throttle_time=NO_THROTTLE, error_code=code_of(result))


async def _leave(ctx: RequestContext, group_id: str, leavers: tuple[LeavingMember, ...]) -> LeaveResult:
    check_group_id(group_id)
    require(ctx, ResourceType.GROUP, group_id)
    result = await try_ask(ctx.services.groups, group_id, GroupMachine.leave, group_id, leavers)
    if isinstance(result, UnknownMemberId):  # there is not even a group
        return (result,) * len(leavers)
    if isinstance(result, KafkaError):
        raise result
    return result
