"""Groups: describe their members and offsets, reset offsets, remove members, delete groups.

Everything about one group is asked of its coordinator, which is looked up first. A question is repeated
until the coordinator has been found; so is a change, because a coordinator that is not the right one, or
still loads, has done nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from kio.schema.consumer_group_describe.v1 import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kio.schema.delete_groups.v2 import DeleteGroupsRequest, DeleteGroupsResponse
from kio.schema.describe_groups.v6 import DescribeGroupsRequest, DescribeGroupsResponse
from kio.schema.describe_groups.v6.response import DescribedGroup
from kio.schema.leave_group.v5 import LeaveGroupRequest, LeaveGroupResponse
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.list_groups.v5 import ListGroupsRequest, ListGroupsResponse
from kio.schema.offset_commit.v9 import OffsetCommitRequest, OffsetCommitResponse
from kio.schema.offset_commit.v9.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kio.schema.offset_delete.v0 import OffsetDeleteRequest, OffsetDeleteResponse
from kio.schema.offset_delete.v0.request import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kio.schema.offset_fetch import v7 as fetch_alone
from kio.schema.offset_fetch import v9 as fetch_many
from kio.schema.offset_fetch.v9.request import OffsetFetchRequestGroup

from ottla.client.admin.group_types import (
    CommittedOffset,
    GroupDescription,
    GroupMember,
    ListedGroup,
    OffsetAndMetadata,
    assigned_member,
)
from ottla.client.admin.share_groups import ShareOffset, describe_share_group, share_group_offsets
from ottla.client.cluster import Cluster
from ottla.client.coordinators import NOT_COORDINATOR, CoordinatorKind, find_coordinator
from ottla.client.errors import error_for, raise_for
from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from ottla.protocol.errors import GroupIdNotFound, InvalidRequest, KafkaError
from ottla.protocol.types import GroupId, TopicName, i32, i64
from ottla.wire.connection import Connection

_REASON = "removed by an operator"


async def remove_members(
    cluster: Cluster, group_id: str, member_ids: Iterable[str], instance_ids: Iterable[str]
) -> dict[str, KafkaError | None]:
    """Remove members by member id, or by instance id if they are static; return the error of each."""
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


FIRST_FETCH_OF_MANY = 8
DEAD = "Dead"


Result = TypeVar("Result")


class Groups:
    """Asks brokers about groups, and for changes to them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def list(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        """Return the groups in these states and of these types, or all; every broker knows some."""
        request = ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types))

        async def attempt() -> list[ListedGroup]:
            await self.cluster.refresh([])
            found: dict[str, ListedGroup] = {}
            for node_id in self.cluster.brokers:
                connection = await self.cluster.broker(node_id)
                response = await connection.request(request, ListGroupsResponse)
                raise_for(response.error_code, f"broker {node_id} cannot list its groups")
                for each in response.groups:
                    found[each.group_id] = ListedGroup(
                        each.group_id, each.group_type.lower(), each.protocol_type, each.group_state
                    )
            return [found[group_id] for group_id in sorted(found)]

        return await self.cluster.retrying(attempt)

    async def describe(self, group_id: str) -> GroupDescription:
        """Return what there is to know of a group; raise GroupIdNotFound if it does not exist."""
        return await self._ask(group_id, lambda node_id, connection: _describe(connection, node_id, group_id))

    async def share_offsets(self, group_id: str) -> dict[TopicPartition, ShareOffset]:
        """Return how far a share group is in each partition."""
        return await self._ask(group_id, lambda _, connection: share_group_offsets(connection, group_id))

    async def committed(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of a group; none if it does not exist."""
        return await self._ask(group_id, lambda _, connection: _committed(connection, group_id))

    async def commit(self, group_id: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Set offsets from outside; brokers refuse it while the group has members (UnknownMemberId)."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
        for (topic, partition), given in offsets.items():
            noted = OffsetAndMetadata(given) if isinstance(given, int) else given
            topics[topic].append(
                OffsetCommitRequestPartition(
                    partition_index=i32(partition),
                    committed_offset=i64(noted.offset),
                    committed_leader_epoch=i32(noted.leader_epoch),
                    committed_metadata=noted.metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=GroupId(group_id),
            member_id="",
            topics=tuple(
                OffsetCommitRequestTopic(name=TopicName(name), partitions=tuple(partitions))
                for name, partitions in topics.items()
            ),
        )

        async def attempt(_: int, connection: Connection) -> None:
            response = await connection.request(request, OffsetCommitResponse)
            for topic in response.topics:
                for each in topic.partitions:
                    raise_for(each.error_code, str(TopicPartition(topic.name, each.partition_index)))

        await self._ask(group_id, attempt)

    async def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets of topics that the group is not subscribed to."""
        topics: dict[str, list[OffsetDeleteRequestPartition]] = defaultdict(list)
        for topic, partition in partitions:
            topics[topic].append(OffsetDeleteRequestPartition(partition_index=i32(partition)))
        request = OffsetDeleteRequest(
            group_id=GroupId(group_id),
            topics=tuple(
                OffsetDeleteRequestTopic(name=TopicName(name), partitions=tuple(each))
                for name, each in topics.items()
            ),
        )

        async def attempt(_: int, connection: Connection) -> None:
            response = await connection.request(request, OffsetDeleteResponse)
            raise_for(response.error_code, group_id)
            for topic in response.topics:
                for each in topic.partitions:
                    raise_for(each.error_code, str(TopicPartition(topic.name, each.partition_index)))

        await self._ask(group_id, attempt)

    async def delete(self, group_id: str) -> None:
        """Delete a group without members, and its offsets."""
        request = DeleteGroupsRequest(groups_names=(GroupId(group_id),))

        async def attempt(_: int, connection: Connection) -> None:
            response = await connection.request(request, DeleteGroupsResponse)
            raise_for(response.results[0].error_code, group_id)

        await self._ask(group_id, attempt)

    async def coordinator(self, group_id: str) -> int:
        """Return the node id of the broker that coordinates a group."""
        return await find_coordinator(self.cluster, CoordinatorKind.GROUP, group_id)

    async def _ask(self, group_id: str, ask: Callable[[int, Connection], Awaitable[Result]]) -> Result:
        async def attempt() -> Result:
            node_id = await self.coordinator(group_id)
            return await ask(node_id, await self.cluster.broker(node_id))

        return await self.cluster.retrying(attempt, also=NOT_COORDINATOR)


async def _describe(connection: Connection, node_id: int, group_id: str) -> GroupDescription:
    """Ask for a group of the consumer protocol; if it is none, for a classic one, then for a share group."""
    served = connection.session.versions
    if ApiKey.CONSUMER_GROUP_DESCRIBE in served:
        try:
            return await _describe_consumer(connection, node_id, group_id)
        except GroupIdNotFound:
            pass
    try:
        return await _describe_classic(connection, node_id, group_id)
    except GroupIdNotFound:
        if ApiKey.SHARE_GROUP_DESCRIBE not in served:
            raise
        return await describe_share_group(connection, node_id, group_id)


async def _describe_classic(connection: Connection, node_id: int, group_id: str) -> GroupDescription:
    request = DescribeGroupsRequest(groups=(GroupId(group_id),), include_authorized_operations=False)
    (group,) = (await connection.request(request, DescribeGroupsResponse)).groups
    raise_for(group.error_code, group.error_message or group_id)
    if group.group_state == DEAD:  # how it was said before version 6
        raise GroupIdNotFound(group_id)
    return GroupDescription(
        group_id,
        "classic",
        group.protocol_type,
        group.group_state,
        group.protocol_data,
        node_id,
        tuple(
            GroupMember(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host.removeprefix("/"),
                _assigned(group, each.member_assignment),
            )
            for each in group.members
        ),
    )


def _assigned(group: DescribedGroup, assignment: bytes) -> tuple[TopicPartition, ...] | None:
    if group.protocol_type != PROTOCOL_TYPE:
        return None
    try:
        return decode_assignment(assignment).partitions
    except InvalidRequest:
        return None


async def _describe_consumer(connection: Connection, node_id: int, group_id: str) -> GroupDescription:
    request = ConsumerGroupDescribeRequest(
        group_ids=(GroupId(group_id),), include_authorized_operations=False
    )
    (group,) = (await connection.request(request, ConsumerGroupDescribeResponse)).groups
    raise_for(group.error_code, group.error_message or group_id)
    return GroupDescription(
        group_id,
        "consumer",
        PROTOCOL_TYPE,
        group.group_state,
        group.assignor_name,
        node_id,
        tuple(assigned_member(each, each.instance_id) for each in group.members),
    )


async def _committed(connection: Connection, group_id: str) -> dict[TopicPartition, CommittedOffset]:
    topics: Iterable[
        fetch_many.response.OffsetFetchResponseTopics | fetch_alone.response.OffsetFetchResponseTopic
    ]
    if connection.version_of(ApiKey.OFFSET_FETCH, 9) < FIRST_FETCH_OF_MANY:
        alone = fetch_alone.OffsetFetchRequest(group_id=GroupId(group_id), topics=None)
        answer = await connection.request(alone, fetch_alone.OffsetFetchResponse)
        raise_for(answer.error_code, group_id)
        topics = answer.topics
    else:
        asked = OffsetFetchRequestGroup(group_id=GroupId(group_id), topics=None)
        many = fetch_many.OffsetFetchRequest(groups=(asked,))
        (group,) = (await connection.request(many, fetch_many.OffsetFetchResponse)).groups
        raise_for(group.error_code, group_id)
        topics = group.topics
    found = {}
    for topic in topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            raise_for(each.error_code, str(partition))
            if each.committed_offset >= 0:
                found[partition] = CommittedOffset(
                    each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                )
    return dict(sorted(found.items()))
