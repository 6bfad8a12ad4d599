"""DescribeTopicPartitions: the partitions of topics, a page at a time.

v0 is the only version. Topics are sorted by name; a request without topics means all of them. A page has at
most `max.request.partition.size.limit` partitions; the cursor of the response, sent with the next request, is
the position of the next page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kio.schema.describe_topic_partitions.v0 import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kio.schema.describe_topic_partitions.v0.response import (
    Cursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import NOT_ASKED, authorized_operations, may, refusal
from ottla.api.support.context import RequestContext
from ottla.common.topic_names import is_legal
from ottla.metadata.image import PartitionImage, TopicImage
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.types import NO_THROTTLE, BrokerId, TopicName, i32
from ottla.security.acls import ResourceType


def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, ctx: RequestContext
) -> DescribeTopicPartitionsResponse:
    """Describe one page of partitions."""
    image = ctx.services.cluster.image
    names: set[str] = {each.name for each in request.topics}
    refused = {name for name in names if refusal(ctx, ResourceType.TOPIC, name) is not None}
    if not names:
        names = {name for name in image.topics if may(ctx, ResourceType.TOPIC, name)}
    limit = min(ctx.services.config.max_request_partition_size_limit, request.response_partition_limit)
    start = ("", 0)
    if request.cursor is not None:
        start = (request.cursor.topic_name, request.cursor.partition_index)
        if start[1] < 0 or (request.topics and start[0] not in names):
            return _refuse_cursor(start, sorted(each.name for each in request.topics))
    wanted = sorted(name for name in names - refused if name >= start[0])
    topics, cursor = _page(ctx, wanted, start, max(limit, 1))
    topics += tuple(_failure(name, ErrorCode.topic_authorization_failed) for name in sorted(refused))
    return DescribeTopicPartitionsResponse(throttle_time=NO_THROTTLE, topics=topics, next_cursor=cursor)


def _refuse_cursor(start: tuple[str, int], names: Sequence[str]) -> DescribeTopicPartitionsResponse:
    """Reject an invalid cursor. The response has no top-level error, so every topic carries it."""
    if not names:
        raise InvalidRequest(f"invalid cursor: partition {start[1]} of {start[0]!r}")
    topics = tuple(_failure(name, ErrorCode.invalid_request) for name in dict.fromkeys(names))
    return DescribeTopicPartitionsResponse(throttle_time=NO_THROTTLE, topics=topics, next_cursor=None)


def _page(
    ctx: RequestContext, names: Iterable[str], start: tuple[str, int], limit: int
) -> tuple[tuple[DescribeTopicPartitionsResponseTopic, ...], Cursor | None]:
    image = ctx.services.cluster.image
    reachable = image.reachable(ctx.connection.listener_name)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if limit == 0:
            return tuple(topics), Cursor(topic_name=TopicName(name), partition_index=i32(0))
        topic = image.topics.get(name)
        if topic is None:
            topics.append(_unknown(name))
            continue
        first = start[1] if name == start[0] else 0
        page = topic.partitions[first : first + limit]
        topics.append(_topic(topic, page, reachable, authorized_operations(ctx, ResourceType.TOPIC, name)))
        limit -= len(page)
        if first + len(page) < len(topic.partitions):
            return tuple(topics), Cursor(topic_name=TopicName(name), partition_index=i32(first + len(page)))
    return tuple(topics), None


def _topic(
    topic: TopicImage, partitions: Iterable[PartitionImage], reachable: frozenset[int], operations: int
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.none,
        name=TopicName(topic.name),
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(_partition(each, reachable) for each in partitions),
        topic_authorized_operations=i32(operations),
    )


def _partition(
    partition: PartitionImage, reachable: frozenset[int]
) -> DescribeTopicPartitionsResponsePartition:
    has_leader = partition.leader in reachable
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.none if has_leader else ErrorCode.leader_not_available,
        partition_index=i32(partition.index),
        leader_id=BrokerId(partition.leader if has_leader else -1),
        leader_epoch=i32(partition.leader_epoch),
        replica_nodes=_ids(partition.replicas),
        isr_nodes=_ids(partition.isr),
        eligible_leader_replicas=_ids(partition.elr),
        last_known_elr=_ids(dict.fromkeys(partition.last_known_elr)),
        offline_replicas=_ids(partition.offline(reachable)),
    )


def _ids(nodes: Iterable[int]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(each) for each in nodes)


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    legal = is_legal(name)
    return _failure(
        name, ErrorCode.unknown_topic_or_partition if legal else ErrorCode.invalid_topic_exception
    )


def _failure(name: str, error_code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error_code,
        name=TopicName(name),
        topic_id=None,
        partitions=(),
        topic_authorized_operations=i32(NOT_ASKED),
    )
