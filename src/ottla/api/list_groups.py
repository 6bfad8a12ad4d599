"""ListGroups: the groups that this broker coordinates.

v1 announces throttling; v3 is flexible; v4 adds states and their filter; v5 adds types and their filter.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5 import ListGroupsRequest, ListGroupsResponse
from kio.schema.list_groups.v5.response import ListedGroup

from ottla.api.support.authorization import may
from ottla.api.support.context import RequestContext
from ottla.coordinator.group.machine import GroupMachine
from ottla.protocol.types import NO_THROTTLE, GroupId
from ottla.security.acls import CLUSTER_NAME, ResourceType


async def list_groups(request: ListGroupsRequest, ctx: RequestContext) -> ListGroupsResponse:
    """List the groups in the states and of the types that are asked for; without any, all of them."""
    states = frozenset(each.strip().lower() for each in request.states_filter)
    types = frozenset(each.strip().lower() for each in request.types_filter)
    found = await ctx.services.groups.call_all(GroupMachine.list_groups, states, types)
    sees_all = may(ctx, ResourceType.CLUSTER, CLUSTER_NAME)
    return ListGroupsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        groups=tuple(
            ListedGroup(
                group_id=GroupId(each.group_id),
                protocol_type=each.protocol_type,
                group_state=each.state,
                group_type=each.type,
            )
            for listed in found
            for each in listed
            if sees_all or may(ctx, ResourceType.GROUP, each.group_id)
        ),
    )
