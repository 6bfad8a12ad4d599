"""DeleteGroups: remove groups without members, and their offsets.

v1 announces throttling; v2 is flexible.
"""

from __future__ import annotations

from kio.schema.delete_groups.v2 import DeleteGroupsRequest, DeleteGroupsResponse
from kio.schema.delete_groups.v2.response import DeletableGroupResult

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import refusal
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import try_ask
from ottla.api.support.results import code_of
from ottla.common.yielding import in_slices
from ottla.coordinator.group.machine import GroupMachine
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType


async def delete_groups(request: DeleteGroupsRequest, ctx: RequestContext) -> DeleteGroupsResponse:
    """Delete every group that is named, once."""
    results = []
    async for group_id in in_slices(dict.fromkeys(request.groups_names)):
        result: KafkaError | None = refusal(ctx, ResourceType.GROUP, group_id)
        if result is None:
            result = await try_ask(ctx.services.groups, group_id, GroupMachine.delete, group_id)
            audit_change(ctx, ResourceType.GROUP, group_id, result)
        results.append(DeletableGroupResult(group_id=group_id, error_code=code_of(result)))
    return DeleteGroupsResponse(throttle_time=NO_THROTTLE, results=tuple(results))
