"""ListPartitionReassignments: the ongoing partition reassignments.

v0 is the only version. Null topics means all of them; partitions that are not being reassigned, or do not
exist, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0 import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kio.schema.list_partition_reassignments.v0.response import (
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.metadata.image import PartitionImage, TopicImage
from ottla.protocol.types import NO_THROTTLE, BrokerId, TopicName, i32
from ottla.security.acls import ResourceType


def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, ctx: RequestContext
) -> ListPartitionReassignmentsResponse:
    """List the partitions that are being reassigned."""
    require(ctx, ResourceType.CLUSTER)
    topics = ctx.services.cluster.image.topics
    if request.topics is None:
        chosen = {name: set(range(len(topic.partitions))) for name, topic in topics.items()}
    else:
        chosen = {each.name: set(each.partition_indexes) for each in request.topics}
    answers = []
    for name, indexes in chosen.items():
        if name in topics and (moving := tuple(_moving(topics[name], indexes))):
            answers.append(OngoingTopicReassignment(name=TopicName(name), partitions=moving))
    return ListPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, topics=tuple(answers)
    )


def _moving(topic: TopicImage, indexes: set[int]) -> Iterator[OngoingPartitionReassignment]:
    for each in topic.partitions:
        if each.is_reassigning and each.index in indexes:
            yield _ongoing(each)


def _ongoing(partition: PartitionImage) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=i32(partition.index),
        replicas=tuple(BrokerId(each) for each in partition.replicas),
        adding_replicas=tuple(BrokerId(each) for each in partition.adding),
        removing_replicas=tuple(BrokerId(each) for each in partition.removing),
    )
