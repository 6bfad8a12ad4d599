"""Produce: append record batches.

v3 is the first version with today's batch format (v0 to v2 are advertised for old librdkafka, and rejected);
v7 allows zstd; v8 explains rejected records; v9 is flexible; v10 names the new leader; v11 knows
TRANSACTION_ABORTABLE; v12 adds its partitions to the transaction (KIP-890,
support/transaction_verification.py); v13 names topics by id. Records are not decoded: a batch is validated,
stamped with its offset, and written. Compacted topics are the exception, because there every record needs a
key, and topics that validate schemas (schema_validation/); large batches are validated in a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from functools import partial
from inspect import isawaitable
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import deny, may, refusal
from ottla.api.support.context import RequestContext
from ottla.api.support.produce_scheduler import Steps
from ottla.api.support.results import leader_hint
from ottla.api.support.transaction_verification import Failures, must_be_verified, verify_partitions
from ottla.api.table import Reply
from ottla.common.topic_names import AUDIT_TOPIC, PROTECTED_TOPICS
from ottla.common.yielding import yield_to_loop
from ottla.log.validator import is_expensive_to_validate, validate_records
from ottla.protocol.errors import (
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopicException,
    KafkaError,
    RequestTimedOut,
    TransactionalIdAuthorizationFailed,
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
from ottla.protocol.records.batch import BatchHeader, check_batch
from ottla.replication.backlog import SILENT_MS, Backlog
from ottla.replication.partition import Partition
from ottla.security.acls import Operation, ResourceType
from ottla.security.authorizer import Authorizer

log = logging.getLogger(__name__)

Waiting = list[tuple[ProducePartitionResult, asyncio.Future[None]]]
"""Results that are valid only once their records are committed."""

BATCHES_PER_SLICE = 500
"""Batches appended before the request yields to the event loop."""

RECORDS_COST = 10
"""The cost of decoding the records of a batch, in appends."""

ZSTD = 4
FIRST_WITH_ZSTD = 7


def produce(frame: memoryview, body_at: int, ctx: RequestContext) -> Reply | Awaitable[Reply | None] | None:
    """Append every batch; answer once all of them are committed."""
    request = decode_produce_request(frame, body_at, ctx.version)
    if ctx.services.quotas is not None:
        ctx.services.quotas.produced(ctx, len(frame), is_answered=request.acks != 0)
    topics: list[ProduceTopicResult] = []
    waiting: Waiting = []
    unfinished = ctx.services.produce_scheduler.run(
        ctx.connection, _append_all(ctx, request, topics, waiting)
    )
    if unfinished is not None:
        return _answer_when_finished(ctx, request, topics, waiting, unfinished)
    return _answer(ctx, request, topics, waiting)


async def _answer_when_finished(
    ctx: RequestContext,
    request: ProduceRequest,
    topics: list[ProduceTopicResult],
    waiting: Waiting,
    unfinished: asyncio.Task[None],
) -> Reply | None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    await unfinished
    left_ms = max(1, request.timeout_ms - round((loop.time() - started) * 1000))
    reply = _answer(ctx, request._replace(timeout_ms=left_ms), topics, waiting)
    return await reply if isawaitable(reply) else reply


def _answer(
    ctx: RequestContext, request: ProduceRequest, topics: list[ProduceTopicResult], waiting: Waiting
) -> Reply | Awaitable[Reply] | None:
    if request.acks == 0:
        _refuse_silently(topics)
        return None
    if waiting:
        return _answer_when_committed(ctx, topics, waiting, request.timeout_ms)
    return encode_produce_response(ctx.version, ctx.correlation_id, topics, ctx.throttle_ms)


def _append_all(
    ctx: RequestContext, request: ProduceRequest, topics: list[ProduceTopicResult], waiting: Waiting
) -> Steps[None]:
    """Append the batches in order; see support/produce_scheduler.py for what is yielded."""
    room = BATCHES_PER_SLICE
    unverified: Failures | None = None
    authorizer = ctx.services.authorizer
    txn_refusal: KafkaError | None = None
    if request.transactional_id is not None:
        txn_refusal = refusal(ctx, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    for name, topic_id, partitions in request.topics:
        denied = None if authorizer is None else _topic_refusal(ctx, authorizer, name, topic_id)
        results: list[ProducePartitionResult] = []
        topics.append(ProduceTopicResult(name, topic_id, results))
        for index, batch in partitions:
            if room <= 0:
                yield None
                room = BATCHES_PER_SLICE
            room -= 1
            try:
                if denied is not None:
                    raise txn_refusal or denied
                partition = _find(ctx, request.acks, name, topic_id, index)
                if batch is None:
                    raise InvalidRecord(
                        "a produce request must carry exactly one batch per partition; this one has none"
                    )
                header = check_batch(batch)
                if header.attributes:
                    _check_attributes(header, ctx.version, request.transactional_id, txn_refusal)
                    if unverified is None and must_be_verified(partition, header):
                        unverified = yield from verify_partitions(ctx, _writable(ctx, request))
                if unverified and (error := unverified.get((topic_id or name, index))) is not None:
                    raise error
                is_validated = False
                if partition.log.validates_records:
                    room -= RECORDS_COST
                    config = partition.log.config
                    if config.validates_schemas:
                        topic = partition.topic_partition.topic
                        yield from ctx.services.schema_validator.check(topic, batch, header, config)
                    if is_expensive_to_validate(header, config):
                        now_ms = ctx.services.clock.wall_ms()
                        batch, header = yield partial(
                            validate_records, batch, header, config, now_ms, yield_to_loop
                        )
                        is_validated = True
                leader = partition.leader_state
                if leader is not None and (full := leader.full_backlog(request.acks)) is not None:
                    yield from _wait_for_room(ctx, request, full, len(batch))
                if request.acks < 0:
                    partition.check_in_sync()
                if header.base_sequence > 0 and header.producer_id not in partition.log.producers.producers:
                    services = ctx.services
                    services.first_sequence_guard.check(
                        topic_id or name, index, header, services.clock.mono_ms()
                    )
                results.append(_append(partition, index, batch, header, is_validated, waiting, request.acks))
            except KafkaError as error:
                _count_failure(ctx, topic_id or name, batch)
                hint = leader_hint(ctx, error, topic_id or name, index)
                results.append(_failure(index, error)._replace(current_leader=hint))
            except Exception as error:
                log.error("appending to %s-%d failed", name or topic_id, index, exc_info=error)
                results.append(_failure(index, UnknownServerError("internal error; see the broker's log")))


def _wait_for_room(
    ctx: RequestContext, request: ProduceRequest, full: Backlog, size_bytes: int
) -> Steps[None]:
    """Wait for the followers before appending more; meanwhile the connection is not read.

    Half of the request's timeout is left for the commit. If nothing was appended, a retry duplicates nothing.
    """
    timeout_ms = request.timeout_ms / 2 if request.acks < 0 else SILENT_MS
    ctx.connection.hold()
    try:
        has_room = yield full.wait(size_bytes, max(1, timeout_ms) / 1000)
    finally:
        ctx.connection.release()
    if not has_room and request.acks < 0:
        raise RequestTimedOut("the followers are too far behind; nothing was appended")


def _writable(ctx: RequestContext, request: ProduceRequest) -> ProduceRequest:
    """Return a request with the topics that the client may write to.

    A verification may add partitions to the transaction, and its end writes markers to them.
    """
    if ctx.services.authorizer is None:
        return request
    names_by_id = ctx.services.cluster.image.names_by_id
    named = (
        (each, each.name if each.topic_id is None else names_by_id.get(each.topic_id))
        for each in request.topics
    )
    return request._replace(
        topics=[each for each, name in named if name is not None and may(ctx, ResourceType.TOPIC, name)]
    )


def _topic_refusal(
    ctx: RequestContext, authorizer: Authorizer, name: str | None, topic_id: UUID | None
) -> KafkaError | None:
    """Return the error of a topic that the client may not write to; an unknown id has no name to check."""
    if topic_id is not None:
        name = ctx.services.cluster.image.names_by_id.get(topic_id)
    connection = ctx.connection
    if name is None or authorizer.allows(
        connection.principal, connection.host, Operation.WRITE, ResourceType.TOPIC, name
    ):
        return None
    return deny(ctx, ResourceType.TOPIC, name, is_named=topic_id is None)


def _find(ctx: RequestContext, acks: int, name: str | None, topic_id: UUID | None, index: int) -> Partition:
    """Return the partition to append to."""
    if not -1 <= acks <= 1:
        raise InvalidRequiredAcks(f"invalid acks {acks}: must be 0, 1 or all (-1)")
    partitions = ctx.services.partitions
    if topic_id is None:
        partition = partitions.get(name or "", index)
    else:
        partition = partitions.get_by_id(topic_id, index)
    if partition.topic_partition.topic in PROTECTED_TOPICS:
        _check_protected(ctx, partition.topic_partition.topic)
    return partition


def _check_protected(ctx: RequestContext, topic: str) -> None:
    """Refuse clients that write to a topic of the brokers; brokers write to the audit log."""
    if topic == AUDIT_TOPIC and may(ctx, ResourceType.CLUSTER, operation=Operation.CLUSTER_ACTION):
        return
    raise InvalidTopicException(f"{topic} is an internal topic; clients cannot produce to it")


def _append(
    partition: Partition,
    index: int,
    batch: memoryview,
    header: BatchHeader,
    is_validated: bool,
    waiting: Waiting,
    acks: int,
) -> ProducePartitionResult:
    appended = partition.append(batch, header, is_validated)
    result = ProducePartitionResult(
        index, 0, appended.base_offset, appended.log_append_time_ms, appended.log_start_offset
    )
    if acks:
        end_offset = appended.last_offset + 1
        done = partition.when_committed(end_offset) if acks < 0 else partition.when_durable(end_offset)
        if done is not None:
            waiting.append((result, done))
            if acks < 0 and partition.leader_state is not None and not appended.is_duplicate:
                partition.leader_state.acks_all_backlog.add(end_offset, len(batch))
    return result


def _check_attributes(
    header: BatchHeader, version: int, transactional_id: str | None, txn_refusal: KafkaError | None
) -> None:
    """Reject batches that clients must not write. What counts is the batch, not what the request says."""
    if header.is_control:
        raise InvalidRecord("clients must not write control batches")
    if header.is_transactional and transactional_id is None:
        raise TransactionalIdAuthorizationFailed("transactional records need a transactional id")
    if header.is_transactional and txn_refusal is not None:
        raise txn_refusal
    if header.codec == ZSTD and version < FIRST_WITH_ZSTD:
        raise UnsupportedCompressionType(f"zstd needs Produce v{FIRST_WITH_ZSTD}; this is v{version}")


def _count_failure(ctx: RequestContext, topic: UUID | str | None, batch: memoryview | None) -> None:
    traffic = ctx.services.partitions.traffic_of(topic)
    traffic.failed_appends += 1
    traffic.bytes_rejected += 0 if batch is None else len(batch)


def _failure(index: int, error: KafkaError) -> ProducePartitionResult:
    return ProducePartitionResult(
        index, int(error.code), error_message=error.message, record_errors=error.record_errors
    )


def _refuse_silently(topics: list[ProduceTopicResult]) -> None:
    """Close the connection, which is the only way to report an error with acks=0: there is no response."""
    for topic in topics:
        for result in topic.partitions:
            if result.error_code:
                name = ErrorCode(result.error_code).name
                raise InvalidRecord(f"acks=0 and {name}: {result.error_message}")


async def _answer_when_committed(
    ctx: RequestContext, topics: list[ProduceTopicResult], waiting: Waiting, timeout_ms: int
) -> Reply:
    """Set the result of each partition separately: committed batches must not be resent because of
    another.
    """
    await asyncio.wait([committed for _, committed in waiting], timeout=max(1, timeout_ms) / 1000)
    failures = {
        id(result): _failure(result.partition, error)
        for result, committed in waiting
        if (error := _why_not(committed)) is not None
    }
    if failures:
        topics = [
            topic._replace(partitions=[failures.get(id(each), each) for each in topic.partitions])
            for topic in topics
        ]
    return encode_produce_response(ctx.version, ctx.correlation_id, topics, ctx.throttle_ms)


def _why_not(committed: asyncio.Future[None]) -> KafkaError | None:
    if not committed.done():
        committed.cancel()  # the result is not needed any more: mark its exception as retrieved
        return RequestTimedOut("appended, but not replicated in time")
    error = committed.exception()
    return error if isinstance(error, KafkaError) else None
