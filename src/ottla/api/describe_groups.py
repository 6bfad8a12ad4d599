"""DescribeGroups: the state of classic groups, their members and what those are assigned.

v1 announces throttling; v3 adds authorized operations if asked to; v4 adds the instance ids of static
members; v5 is flexible; v6 says that a group does not exist (before, it was called Dead).
"""

from __future__ import annotations

from kio.schema.describe_groups.v6 import DescribeGroupsRequest, DescribeGroupsResponse
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribedGroupMember
from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import NOT_ASKED, authorized_operations, refusal
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import try_ask
from ottla.common.yielding import in_slices
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import DescribedGroup as Description
from ottla.protocol.errors import GroupIdNotFound, KafkaError
from ottla.protocol.types import NO_THROTTLE, GroupId, i32
from ottla.security.acls import ResourceType

FIRST_WITH_GROUP_NOT_FOUND = 6
DEAD = "Dead"


async def describe_groups(request: DescribeGroupsRequest, ctx: RequestContext) -> DescribeGroupsResponse:
    """Describe every group that is asked for, once."""
    groups = []
    async for group_id in in_slices(dict.fromkeys(request.groups)):
        if (refused := refusal(ctx, ResourceType.GROUP, group_id)) is not None:
            groups.append(_failure(group_id, refused, NOT_ASKED, ctx.version))
            continue
        operations = NOT_ASKED
        if request.include_authorized_operations:
            operations = authorized_operations(ctx, ResourceType.GROUP, group_id)
        result = await try_ask(ctx.services.groups, group_id, GroupMachine.describe, group_id)
        if isinstance(result, KafkaError):
            groups.append(_failure(group_id, result, operations, ctx.version))
        else:
            groups.append(_described(result, operations))
    return DescribeGroupsResponse(throttle_time=NO_THROTTLE, groups=tuple(groups))


def _described(group: Description, operations: int) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.none,
        group_id=GroupId(group.group_id),
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=tuple(
            DescribedGroupMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                member_metadata=each.metadata,
                member_assignment=each.assignment,
            )
            for each in group.members
        ),
        authorized_operations=i32(operations),
    )


def _failure(group_id: GroupId, error: KafkaError, operations: int, version: int) -> DescribedGroup:
    is_missing = isinstance(error, GroupIdNotFound)
    is_dead = is_missing and version < FIRST_WITH_GROUP_NOT_FOUND
    return DescribedGroup(
        error_code=ErrorCode.none if is_dead else error.code,
        error_message=None if is_dead else error.message,
        group_id=group_id,
        group_state=DEAD if is_missing else "",
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=i32(operations if is_dead else NOT_ASKED),
    )
