"""DeleteRecords: delete the records before an offset, by raising the log start offset.

v1 announces throttling; v2 is flexible. The offset -1 stands for the high watermark. The response carries the
new log start offset.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import replace

from kio.schema.delete_records.v2 import DeleteRecordsRequest, DeleteRecordsResponse
from kio.schema.delete_records.v2.response import DeleteRecordsPartitionResult, DeleteRecordsTopicResult
from kio.schema.errors import ErrorCode

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import refusal
from ottla.api.support.context import RequestContext
from ottla.common.topic_names import is_internal
from ottla.protocol.errors import ERRORS, InvalidTopicException, KafkaError, PolicyViolation
from ottla.protocol.types import NO_THROTTLE, i32, i64
from ottla.security.acls import ResourceType

log = logging.getLogger(__name__)

UNKNOWN_OFFSET = -1
PARTITIONS_PER_SLICE = 10


async def delete_records(request: DeleteRecordsRequest, ctx: RequestContext) -> DeleteRecordsResponse:
    """Raise the log start offsets; return the new ones."""
    topics = []
    done = 0
    for topic in request.topics:
        results = []
        refused = refusal(ctx, ResourceType.TOPIC, topic.name)
        for each in topic.partitions:
            results.append(_delete(topic.name, each.partition_index, each.offset, refused, ctx))
            done += 1
            if done % PARTITIONS_PER_SLICE == 0:
                await asyncio.sleep(0)
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=tuple(results)))
        if refused is None:
            failed = next((each.error_code for each in results if each.error_code != ErrorCode.none), None)
            error = None if failed is None else ERRORS[failed]()
            audit_change(ctx, ResourceType.TOPIC, topic.name, error)
    # The new log start offsets are on disk before the client is answered.
    try:
        await asyncio.to_thread(ctx.services.log_directories.capture_checkpoints())
    except OSError as error:
        log.error("cannot write the log start offsets: %s", error)
        topics = [_failed(topic, None, ErrorCode.kafka_storage_error) for topic in topics]
    topics = await _when_followers_did(topics, request, ctx)
    return DeleteRecordsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


async def _when_followers_did(
    topics: list[DeleteRecordsTopicResult], request: DeleteRecordsRequest, ctx: RequestContext
) -> list[DeleteRecordsTopicResult]:
    """Wait until every live replica has deleted the records; report an error for partitions where one has
    not.
    """
    waiting: dict[tuple[str, int], asyncio.Future[None]] = {}
    for topic in topics:
        for each in topic.partitions:
            leader = None
            if each.error_code == ErrorCode.none:
                leader = ctx.services.partitions.get(topic.name, each.partition_index).leader_state
            done = None if leader is None else leader.when_deleted(each.low_watermark)
            if done is not None:
                waiting[topic.name, each.partition_index] = done
    if not waiting:
        return topics
    await asyncio.wait(waiting.values(), timeout=max(0.0, request.timeout.total_seconds()))
    late = {
        topic_partition
        for topic_partition, done in waiting.items()
        if not done.done() or done.exception() is not None
    }
    for topic_partition in late:
        waiting[topic_partition].cancel()
    return [_failed(topic, late, ErrorCode.request_timed_out) for topic in topics]


def _failed(
    topic: DeleteRecordsTopicResult, which: Collection[tuple[str, int]] | None, code: ErrorCode
) -> DeleteRecordsTopicResult:
    """Replace the results of some partitions, or of all, by an error: their records may reappear."""
    partitions = (
        replace(each, error_code=code)
        if each.error_code == ErrorCode.none
        and (which is None or (topic.name, each.partition_index) in which)
        else each
        for each in topic.partitions
    )
    return replace(topic, partitions=tuple(partitions))


def _delete(
    topic: str, index: int, offset: int, refused: KafkaError | None, ctx: RequestContext
) -> DeleteRecordsPartitionResult:
    code = ErrorCode.none
    low_watermark = UNKNOWN_OFFSET
    try:
        if refused is not None:
            raise refused
        if is_internal(topic):
            raise InvalidTopicException(f"{topic} is an internal topic; its records cannot be deleted")
        partition = ctx.services.partitions.get(topic, index)
        if "delete" not in partition.log.config.cleanup_policy:
            raise PolicyViolation(f"{topic} is compacted: its cleanup.policy does not include delete")
        low_watermark = partition.delete_records(offset)
    except KafkaError as error:
        code = error.code
    return DeleteRecordsPartitionResult(
        partition_index=i32(index), low_watermark=i64(low_watermark), error_code=code
    )
