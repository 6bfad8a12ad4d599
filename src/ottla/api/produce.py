"""Produce: append record batches.

v3 is the first with today's batches (v0 to v2 are advertised for old librdkafka's sake, and refused);
v7 allows zstd; v8 explains refused records; v9 is flexible; v10 names the new leader; v12 belongs to
KIP-890; v13 names topics by id. The records are never decoded: a batch is checked, stamped, written.
(On compacted topics they are looked at, because there every record needs a key.)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla.api.context import RequestContext
from ottla.api.table import Reply
from ottla.common.topic_names import INTERNAL_TOPICS
from ottla.protocol.errors import (
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopicException,
    InvalidTxnState,
    KafkaError,
    UnknownServerError,
    UnsupportedCompressionType,
)
from ottla.protocol.produce_codec import (
    ProducePartitionResult,
    ProduceRequest,
    ProduceTopicResult,
    decode_produce_request,
    encode_produce_response,
)
from ottla.protocol.record_batch import BatchHeader, check_batch
from ottla.protocol.records import decode_records
from ottla.replication.partition import Partition

log = logging.getLogger(__name__)

ZSTD = 4
FIRST_WITH_ZSTD = 7


def produce(frame: memoryview, body_at: int, ctx: RequestContext) -> Reply | Awaitable[Reply] | None:
    """Append every batch, and answer once all of them are committed."""
    version = ctx.version
    request = decode_produce_request(frame, body_at, version)
    waiting: list[asyncio.Future[None]] = []
    topics = [
        ProduceTopicResult(
            name,
            topic_id,
            [_append(ctx, request, name, topic_id, index, batch, waiting) for index, batch in partitions],
        )
        for name, topic_id, partitions in request.topics
    ]
    if request.acks == 0:
        _refuse_silently(topics)
        return None
    if waiting:
        return _answer_when_committed(ctx, request, topics, waiting)
    return encode_produce_response(version, ctx.correlation_id, topics)


def _append(
    ctx: RequestContext,
    request: ProduceRequest,
    name: str | None,
    topic_id: UUID | None,
    index: int,
    batch: memoryview | None,
    waiting: list[asyncio.Future[None]],
) -> ProducePartitionResult:
    try:
        if not -1 <= request.acks <= 1:
            raise InvalidRequiredAcks(f"acks is {request.acks}: it must be 0, 1 or all (-1)")
        partitions = ctx.services.partitions
        if topic_id is None:
            partition = partitions.get(name or "", index)
        else:
            partition = partitions.get_by_id(topic_id, index)
        if partition.topic_partition.topic in INTERNAL_TOPICS:
            raise InvalidTopicException(f"{partition.topic_partition.topic} belongs to the broker")
        if batch is None:
            raise InvalidRecord("a produce request carries exactly one batch per partition, not none")
        header = check_batch(batch)
        if header.attributes or partition.log.config.is_compacted:
            _check_content(batch, header, partition, ctx.version)
        appended = partition.append(batch, header)
        if request.acks != 0:
            committed = partition.committed(appended.last_offset + 1)
            if committed is not None:
                waiting.append(committed)
    except KafkaError as error:
        return _failure(index, error)
    except Exception as error:
        log.error("appending to %s-%d failed", name or topic_id, index, exc_info=error)
        return _failure(index, UnknownServerError("the broker failed; its log says why"))
    return ProducePartitionResult(
        index, 0, appended.base_offset, appended.log_append_time_ms, appended.log_start_offset
    )


def _check_content(batch: memoryview, header: BatchHeader, partition: Partition, version: int) -> None:
    """Refuse what no client may write."""
    if header.is_control:
        raise InvalidRecord("clients may not write control batches")
    if header.is_transactional:
        raise InvalidTxnState("this broker does not serve transactions")
    if header.codec == ZSTD and version < FIRST_WITH_ZSTD:
        raise UnsupportedCompressionType(f"zstd needs Produce v{FIRST_WITH_ZSTD}, this is v{version}")
    if partition.log.config.is_compacted:
        for record in decode_records(batch):
            if record.key is None:
                raise InvalidRecord("a compacted topic needs a key in every record")


def _failure(index: int, error: KafkaError) -> ProducePartitionResult:
    return ProducePartitionResult(index, int(error.code), error_message=error.message)


def _refuse_silently(topics: list[ProduceTopicResult]) -> None:
    """Without an answer to put an error in, closing the connection is the only way to tell."""
    for topic in topics:
        for result in topic.partitions:
            if result.error_code:
                name = ErrorCode(result.error_code).name
                raise InvalidRecord(f"acks=0 and {name}: {result.error_message}")


async def _answer_when_committed(
    ctx: RequestContext,
    request: ProduceRequest,
    topics: list[ProduceTopicResult],
    waiting: list[asyncio.Future[None]],
) -> Reply:
    done, late = await asyncio.wait(waiting, timeout=max(1, request.timeout_ms) / 1000)
    failed = [error for each in done if (error := each.exception()) is not None]
    if late or failed:
        code = ErrorCode.request_timed_out
        if failed and isinstance(failed[0], KafkaError):
            code = failed[0].code
        topics = [_all_failed(topic, int(code)) for topic in topics]
    return encode_produce_response(ctx.version, ctx.correlation_id, topics)


def _all_failed(topic: ProduceTopicResult, code: int) -> ProduceTopicResult:
    results = [
        each if each.error_code else ProducePartitionResult(each.partition, code) for each in topic.partitions
    ]
    return ProduceTopicResult(topic.name, topic.topic_id, results)
