"""ConditionalAppend: append a batch if the log ends where expected (an API of Ottla's own).

A writer that decides from the records of a partition (the schema registry does) names the end of what it has
read. If another client has written since, nothing is appended and the answer says where the log ends now: the
writer reads on and decides again. So any number of writers share one partition without an election, and a
request that is sent twice is appended once. It is answered when the batch is committed, as with acks=all.
docs/decisions/0105; the message is in protocol/own_messages.py.
"""

from __future__ import annotations

import asyncio

from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.common.topic_names import PROTECTED_TOPICS
from ottla.protocol.errors import (
    InvalidRecord,
    InvalidTopicException,
    InvalidUpdateVersion,
    KafkaError,
    RequestTimedOut,
)
from ottla.protocol.own_messages import ConditionalAppendRequest, ConditionalAppendResponse
from ottla.protocol.records.batch import check_batch
from ottla.protocol.types import NO_THROTTLE, i64
from ottla.replication.partition import Partition
from ottla.security.acls import ResourceType


async def conditional_append(
    request: ConditionalAppendRequest, ctx: RequestContext
) -> ConditionalAppendResponse:
    """Append the batch if the log ends at the expected offset, and wait until it is committed."""
    end_offset = -1
    try:
        partition = _find(request, ctx)
        if ctx.services.quotas is not None:
            ctx.services.quotas.appended(ctx, len(request.batch))
        end_offset = partition.log.log_end_offset
        base_offset = _append(partition, request)
        end_offset = partition.log.log_end_offset
        await _committed(partition, end_offset, request.timeout.total_seconds())
    except KafkaError as error:
        return ConditionalAppendResponse(
            throttle_time=NO_THROTTLE,
            error_code=error.code,
            error_message=error.message,
            end_offset=i64(end_offset),
        )
    return ConditionalAppendResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        base_offset=i64(base_offset),
        end_offset=i64(end_offset),
    )


def _find(request: ConditionalAppendRequest, ctx: RequestContext) -> Partition:
    require(ctx, ResourceType.TOPIC, request.topic)
    if request.topic in PROTECTED_TOPICS:
        raise InvalidTopicException(f"{request.topic} belongs to the broker")
    return ctx.services.partitions.get(request.topic, request.partition_index)


def _append(partition: Partition, request: ConditionalAppendRequest) -> int:
    """Compare and append, without an await in between; return the base offset."""
    batch = memoryview(bytearray(request.batch))
    header = check_batch(batch)
    if header.is_control or header.is_transactional or header.producer_id >= 0:
        raise InvalidRecord("a conditional append takes plain records: no transaction, no idempotence")
    if header.codec:
        raise InvalidRecord("a conditional append is not compressed")  # who looks inside does so on the loop
    if partition.log.config.validates_schemas:
        raise InvalidRecord(
            f"{partition.topic_partition.topic} validates schemas: only Produce can write to it"
        )
    partition.check_in_sync()
    if partition.log.log_end_offset != request.expected_end_offset:
        raise InvalidUpdateVersion(
            f"{partition.topic_partition} ends at {partition.log.log_end_offset}, not at "
            f"{request.expected_end_offset}"
        )
    return partition.append(batch, header).base_offset


async def _committed(partition: Partition, end_offset: int, timeout_s: float) -> None:
    committed = partition.when_committed(end_offset)
    if committed is None:
        return
    await asyncio.wait([committed], timeout=max(0.001, timeout_s))
    if not committed.done():
        committed.cancel()
        raise RequestTimedOut("the records are in the log, but were not committed in time")
    error = committed.exception()
    if error is not None:
        raise error
