"""ConsumerGroupDescribe: the epochs of consumer groups, and what their members have and are to have.

v1 adds the protocol of each member.
"""

from __future__ import annotations

from typing import cast

from kio.schema.consumer_group_describe.v1 import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kio.schema.consumer_group_describe.v1.response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kio.schema.errors import ErrorCode

from ottla.api.consumer_group_heartbeat import check_protocol
from ottla.api.support.authorization import NOT_ASKED, authorized_operations, may, require
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import check_group_id, try_ask
from ottla.common.yielding import in_slices
from ottla.coordinator.group.consumer import events
from ottla.coordinator.group.consumer.partitions import SortedPartitions
from ottla.coordinator.group.consumer.requests import ConsumerGroupDescription, ConsumerMemberDescription
from ottla.metadata.image import ClusterImage
from ottla.protocol.errors import KafkaError, TopicAuthorizationFailed
from ottla.protocol.types import NO_THROTTLE, GroupId, TopicName, i8, i32
from ottla.security.acls import ResourceType

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, ctx: RequestContext
) -> ConsumerGroupDescribeResponse:
    """Describe every group that is asked for, once."""
    groups = []
    async for group_id in in_slices(dict.fromkeys(request.group_ids)):
        try:
            check_protocol(ctx.services.config)
            check_group_id(group_id)
            require(ctx, ResourceType.GROUP, group_id)
            found = await try_ask(ctx.services.groups, group_id, events.describe, group_id)
            if not isinstance(found, KafkaError):
                _check_topics(found, ctx)
        except KafkaError as error:
            found = error
        if isinstance(found, KafkaError):
            groups.append(_failure(group_id, found))
        else:
            operations = NOT_ASKED
            if request.include_authorized_operations:
                operations = authorized_operations(ctx, ResourceType.GROUP, group_id)
            groups.append(_described(found, ctx.services.cluster.image, operations))
    return ConsumerGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=tuple(groups))


def _check_topics(group: ConsumerGroupDescription, ctx: RequestContext) -> None:
    """Refuse to describe a group that reads a topic which the client may not see."""
    if ctx.services.authorizer is None:
        return
    names_by_id = ctx.services.cluster.image.names_by_id
    names = {name for member in group.members for name in member.subscribed_topics}
    for member in group.members:
        for topic_id, _ in (*member.assigned, *member.target):
            if (name := names_by_id.get(topic_id)) is not None:
                names.add(name)
    if not all(may(ctx, ResourceType.TOPIC, name) for name in names):
        raise TopicAuthorizationFailed(
            "The group has described topic(s) that the client is not authorized to describe."
        )


def _described(group: ConsumerGroupDescription, image: ClusterImage, operations: int) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.none,
        group_id=GroupId(group.group_id),
        group_state=group.state,
        group_epoch=i32(group.epoch),
        assignment_epoch=i32(group.target_epoch),
        assignor_name=group.assignor,
        members=tuple(_member(each, image) for each in group.members),
        authorized_operations=i32(operations),
    )


def _member(member: ConsumerMemberDescription, image: ClusterImage) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=i32(member.member_epoch),
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(map(TopicName, member.subscribed_topics)),
        subscribed_topic_regex=member.subscribed_regex,
        assignment=_assignment(member.assigned, image),
        target_assignment=_assignment(member.target, image),
        member_type=i8(CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER),
    )


def _assignment(partitions: SortedPartitions, image: ClusterImage) -> Assignment:
    """Return partitions with the names of their topics; a topic that was deleted has none."""
    named = ((image.names_by_id.get(topic_id), topic_id, indexes) for topic_id, indexes in partitions)
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(
                topic_id=topic_id,
                topic_name=TopicName(name),
                partitions=cast("tuple[i32, ...]", indexes),
            )
            for name, topic_id, indexes in named
            if name is not None
        )
    )


def _failure(group_id: GroupId, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(
        error_code=error.code,
        error_message=error.message,
        group_id=group_id,
        group_state="",
        group_epoch=i32(0),
        assignment_epoch=i32(0),
        assignor_name="",
        members=(),
    )
