"""DeleteRecords: forget the records before an offset, by moving the log start there.

v1 announces throttling; v2 is flexible. The offset -1 stands for the high watermark. The answer is the
offset of the first record that is left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import replace

from kio.schema.delete_records.v2 import DeleteRecordsRequest, DeleteRecordsResponse
from kio.schema.delete_records.v2.response import DeleteRecordsPartitionResult, DeleteRecordsTopicResult
from kio.schema.errors import ErrorCode

from ottla.api.support.context import RequestContext
from ottla.common.topic_names import is_internal
from ottla.protocol.errors import InvalidTopicException, KafkaError, PolicyViolation
from ottla.protocol.types import NO_THROTTLE, i32, i64

log = logging.getLogger(__name__)

UNKNOWN_OFFSET = -1
PARTITIONS_PER_TURN = 10


async def delete_records(request: DeleteRecordsRequest, ctx: RequestContext) -> DeleteRecordsResponse:
    """Move the log starts and tell where each of them is now."""
    topics = []
    done = 0
    for topic in request.topics:
        results = []
        for each in topic.partitions:
            results.append(_delete(topic.name, each.partition_index, each.offset, ctx))
            done += 1
            if done % PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=tuple(results)))
    # Deleted means deleted: the new log starts are on the disk before the client hears of them.
    try:
        await asyncio.to_thread(ctx.services.log_directory.capture_checkpoints())
    except OSError as error:
        log.error("the log starts cannot be written: %s", error)
        topics = [_failed(topic, None, ErrorCode.kafka_storage_error) for topic in topics]
    topics = await _when_followers_did(topics, request, ctx)
    return DeleteRecordsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


async def _when_followers_did(
    topics: list[DeleteRecordsTopicResult], request: DeleteRecordsRequest, ctx: RequestContext
) -> list[DeleteRecordsTopicResult]:
    """Wait until the records are gone from every living replica, or say of which they are not."""
    waiting: dict[tuple[str, int], asyncio.Future[None]] = {}
    for topic in topics:
        for each in topic.partitions:
            leading = None
            if each.error_code == ErrorCode.none:
                leading = ctx.services.partitions.get(topic.name, each.partition_index).leader_state
            done = None if leading is None else leading.when_deleted(each.low_watermark)
            if done is not None:
                waiting[topic.name, each.partition_index] = done
    if not waiting:
        return topics
    await asyncio.wait(waiting.values(), timeout=max(0.0, request.timeout.total_seconds()))
    late = {at for at, done in waiting.items() if not done.done() or done.exception() is not None}
    for at in late:
        waiting[at].cancel()
    return [_failed(topic, late, ErrorCode.request_timed_out) for topic in topics]


def _failed(
    topic: DeleteRecordsTopicResult, which: Collection[tuple[str, int]] | None, code: ErrorCode
) -> DeleteRecordsTopicResult:
    """Say of some partitions, or of all, that their records may come back."""
    partitions = (
        replace(each, error_code=code)
        if each.error_code == ErrorCode.none
        and (which is None or (topic.name, each.partition_index) in which)
        else each
        for each in topic.partitions
    )
    return replace(topic, partitions=tuple(partitions))


def _delete(topic: str, index: int, offset: int, ctx: RequestContext) -> DeleteRecordsPartitionResult:
    code = ErrorCode.none
    low_watermark = UNKNOWN_OFFSET
    try:
        if is_internal(topic):
            raise InvalidTopicException(f"the records of {topic} belong to the broker")
        partition = ctx.services.partitions.get(topic, index)
        if "delete" not in partition.log.config.cleanup_policy:
            raise PolicyViolation(f"{topic} is compacted; its cleanup.policy does not delete by age")
        low_watermark = partition.delete_records(offset)
    except KafkaError as error:
        code = error.code
    return DeleteRecordsPartitionResult(
        partition_index=i32(index), low_watermark=i64(low_watermark), error_code=code
    )
