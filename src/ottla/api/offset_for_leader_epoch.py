"""OffsetForLeaderEpoch: the end offset of a leader epoch, from which a reader learns whether to truncate.

v3 adds the replica id, v4 is flexible. A consumer asks after it reconnects (KIP-320), a follower before it
fetches (KIP-101).
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

from ottla.api.support.authorization import may, refusal
from ottla.api.support.context import RequestContext
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE, i32, i64
from ottla.security.acls import ResourceType


def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, ctx: RequestContext
) -> OffsetForLeaderEpochResponse:
    """Return the end offset of each requested epoch."""
    is_broker = may(ctx, ResourceType.CLUSTER)
    refused = {
        topic.topic: None if is_broker else refusal(ctx, ResourceType.TOPIC, topic.topic)
        for topic in request.topics
    }
    return OffsetForLeaderEpochResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    _end_of(topic.topic, each, refused[topic.topic], ctx) for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _end_of(
    topic: str, wanted: OffsetForLeaderPartition, refused: KafkaError | None, ctx: RequestContext
) -> EpochEndOffset:
    try:
        if refused is not None:
            raise refused
        partition = ctx.services.partitions.get(topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        epoch, end_offset = partition.end_offset_for_epoch(wanted.leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=wanted.partition)
    return EpochEndOffset(
        error_code=ErrorCode.none,
        partition=wanted.partition,
        leader_epoch=i32(epoch),
        end_offset=i64(end_offset),
    )
