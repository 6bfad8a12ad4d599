"""OffsetDelete: forget the offsets of topics that a group has stopped reading. There is only v0."""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.errors import ErrorCode
from kio.schema.offset_delete.v0 import OffsetDeleteRequest, OffsetDeleteResponse
from kio.schema.offset_delete.v0.response import OffsetDeleteResponsePartition, OffsetDeleteResponseTopic

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import refusal, require
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import await_reply, check_group_id
from ottla.api.support.results import code_of
from ottla.coordinator.group.machine import GroupMachine
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType


async def offset_delete(request: OffsetDeleteRequest, ctx: RequestContext) -> OffsetDeleteResponse:
    """Delete the named offsets of topics that no member subscribes to."""
    check_group_id(request.group_id)
    require(ctx, ResourceType.GROUP, request.group_id)
    names = dict.fromkeys(topic.name for topic in request.topics)
    refused: dict[str, KafkaError] = {
        name: error for name in names if (error := refusal(ctx, ResourceType.TOPIC, name)) is not None
    }
    image = ctx.services.cluster.image
    known = tuple(
        (topic.name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
        if topic.name not in refused and image.partition(topic.name, each.partition_index) is not None
    )
    groups = ctx.services.groups
    results = await await_reply(
        groups.call(request.group_id, GroupMachine.delete_offsets, request.group_id, known)
    )
    for (topic, index), result in zip(known, results, strict=True):
        offset = f"offset of {topic}-{index} in {request.group_id}"
        audit_change(ctx, ResourceType.GROUP, offset, result)
    codes = dict(zip(known, map(code_of, results), strict=True))
    return OffsetDeleteResponse(
        error_code=ErrorCode.none,
        throttle_time=NO_THROTTLE,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=each.partition_index,
                        error_code=codes.get(
                            (topic.name, each.partition_index), _missing(refused, topic.name)
                        ),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _missing(refused: Mapping[str, KafkaError], topic: str) -> ErrorCode:
    error = refused.get(topic)
    return ErrorCode.unknown_topic_or_partition if error is None else error.code
