"""Taking members out of a group from outside."""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.leave_group.v5 import LeaveGroupRequest, LeaveGroupResponse
from kio.schema.leave_group.v5.request import MemberIdentity

from ottla.client.cluster import Cluster
from ottla.client.coordinators import NOT_COORDINATOR, CoordinatorKind, find_coordinator
from ottla.client.errors import error_for, raise_for
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import GroupId

_REASON = "removed by an operator"


async def remove_members(
    cluster: Cluster, group_id: str, member_ids: Iterable[str], instance_ids: Iterable[str]
) -> dict[str, KafkaError | None]:
    """Let members leave, by member id or by the instance id of static ones; return why each could not."""
    members = [MemberIdentity(member_id=each, reason=_REASON) for each in member_ids]
    members += [MemberIdentity(member_id="", group_instance_id=each, reason=_REASON) for each in instance_ids]
    request = LeaveGroupRequest(group_id=GroupId(group_id), members=tuple(members))

    async def attempt() -> dict[str, KafkaError | None]:
        node_id = await find_coordinator(cluster, CoordinatorKind.GROUP, group_id)
        connection = await cluster.broker(node_id)
        response = await connection.request(request, LeaveGroupResponse)
        raise_for(response.error_code, group_id)
        return {
            each.group_instance_id or each.member_id: (
                error_for(each.error_code, group_id) if each.error_code else None
            )
            for each in response.members
        }

    return await cluster.retrying(attempt, also=NOT_COORDINATOR)
