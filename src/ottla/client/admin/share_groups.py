"""Share groups (KIP-932) of clusters that have them: members, and how far each partition is delivered."""

from __future__ import annotations

from dataclasses import dataclass

from kio.schema.describe_share_group_offsets.v1 import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from kio.schema.describe_share_group_offsets.v1.request import DescribeShareGroupOffsetsRequestGroup
from kio.schema.share_group_describe.v1 import ShareGroupDescribeRequest, ShareGroupDescribeResponse

from ottla.client.admin.group_types import GroupDescription, assigned_member
from ottla.client.errors import raise_for
from ottla.common.ids import TopicPartition
from ottla.protocol.types import GroupId
from ottla.wire.connection import Connection

SHARE = "share"


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """The first offset that a share group has not finished; the lag is None where the broker does not say."""

    start_offset: int
    lag: int | None


async def describe_share_group(connection: Connection, node_id: int, group_id: str) -> GroupDescription:
    """Ask the coordinator for a share group; members share partitions, so one is assigned to several."""
    request = ShareGroupDescribeRequest(group_ids=(GroupId(group_id),), include_authorized_operations=False)
    (group,) = (await connection.request(request, ShareGroupDescribeResponse)).groups
    raise_for(group.error_code, group.error_message or group_id)
    members = tuple(assigned_member(each, None) for each in group.members)
    return GroupDescription(group_id, SHARE, SHARE, group.group_state, group.assignor_name, node_id, members)


async def share_group_offsets(connection: Connection, group_id: str) -> dict[TopicPartition, ShareOffset]:
    """Ask the coordinator how far a share group is in each partition."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=GroupId(group_id), topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=(asked,))
    (group,) = (await connection.request(request, DescribeShareGroupOffsetsResponse)).groups
    raise_for(group.error_code, group.error_message or group_id)
    return {
        TopicPartition(topic.topic_name, each.partition_index): ShareOffset(
            each.start_offset, each.lag if each.lag >= 0 else None
        )
        for topic in sorted(group.topics, key=lambda each: each.topic_name)
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
        if not each.error_code
    }
