"""OffsetCommit: store the offsets that a group has processed.

v2 to v4 may ask for a retention of their own, v5 drops it; v3 announces throttling; v6 adds the leader
epoch; v7 the instance id of static members; v8 is flexible; v9 knows the member epochs and the errors of the
consumer protocol; v10 names topics by id.

Members commit with their generation; any client may commit for a group that has no members. Topics and
partitions that do not exist are refused one by one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit import v4, v9, v10

from ottla.api.support.authorization import refusal
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import respond_later, try_call
from ottla.api.support.results import milliseconds
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.requests import CommitRequest, Committed, OffsetToCommit
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType

FIRST_WITH_GROUP_NOT_FOUND = 9

R = TypeVar("R")
Codes = list[list[ErrorCode]]
"""By topic and partition, in the order of the request."""
Accepted = tuple[tuple[str, tuple[OffsetToCommit, ...]], ...]
"""Offsets by topic; empty if there are none."""


def offset_commit_by_id(
    request: v10.OffsetCommitRequest, ctx: RequestContext
) -> v10.OffsetCommitResponse | Awaitable[v10.OffsetCommitResponse]:
    """Commit offsets of topics that are named by their ids."""
    known = ctx.services.cluster.image.names_by_id
    names = [None if each.topic_id is None else known.get(each.topic_id) for each in request.topics]
    respond = partial(_response, v10.response, "topic_id", request)
    return _commit(ctx, request, names, ErrorCode.unknown_topic_id, respond)


def offset_commit(
    request: v9.OffsetCommitRequest, ctx: RequestContext
) -> v9.OffsetCommitResponse | Awaitable[v9.OffsetCommitResponse]:
    """Commit offsets of topics that are named by their names."""
    names = [each.name for each in request.topics]
    respond = partial(_response, v9.response, "name", request)
    return _commit(ctx, request, names, ErrorCode.unknown_topic_or_partition, respond)


def offset_commit_for_a_time(
    request: v4.OffsetCommitRequest, ctx: RequestContext
) -> v4.OffsetCommitResponse | Awaitable[v4.OffsetCommitResponse]:
    """Commit offsets, with the retention time that old clients may ask for."""
    names = [each.name for each in request.topics]
    retention_ms = milliseconds(request.retention_time)
    return _commit(
        ctx,
        request,
        names,
        ErrorCode.unknown_topic_or_partition,
        partial(_response, v4.response, "name", request),
        retention_ms=None if retention_ms < 0 else retention_ms,
    )


def _commit(
    ctx: RequestContext,
    request: Any,
    names: Sequence[str | None],
    unknown_topic: ErrorCode,
    respond: Callable[[Codes], R],
    retention_ms: int | None = None,
) -> R | Awaitable[R]:
    """Have the coordinator commit the offsets of partitions that exist; respond now or later."""
    if (refused := refusal(ctx, ResourceType.GROUP, request.group_id)) is not None:
        return respond([[refused.code] * len(topic.partitions) for topic in request.topics])
    codes, accepted = accept(ctx, names, request.topics, unknown_topic)
    if not accepted:
        return respond(codes)
    commit = CommitRequest(
        request.group_id,
        request.member_id,
        getattr(request, "group_instance_id", None),
        request.generation_id_or_member_epoch,
        accepted,
        retention_ms,
        ctx.version >= FIRST_WITH_GROUP_NOT_FOUND,
    )
    result = try_call(ctx.services.groups, request.group_id, GroupMachine.commit, commit)
    if isinstance(result, Awaitable):
        return respond_later(
            result, lambda result: respond(with_result(codes, names, request.topics, result))
        )
    return respond(with_result(codes, names, request.topics, result))


def accept(
    ctx: RequestContext, names: Sequence[str | None], topics: Sequence[Any], unknown_topic: ErrorCode
) -> tuple[Codes, Accepted]:
    """Return a code for every partition of a request, and the offsets of those that exist."""
    known = ctx.services.cluster.image.topics
    codes: Codes = []
    accepted: list[tuple[str, tuple[OffsetToCommit, ...]]] = []
    for name, asked in zip(names, topics, strict=True):
        refused = None if name is None else refusal(ctx, ResourceType.TOPIC, name)
        topic = None if name is None else known.get(name)
        if name is None or topic is None or refused is not None:
            code = unknown_topic if refused is None else refused.code
            codes.append([code] * len(asked.partitions))
            continue
        count = len(topic.partitions)
        codes.append(
            [
                ErrorCode.none if 0 <= each.partition_index < count else ErrorCode.unknown_topic_or_partition
                for each in asked.partitions
            ]
        )
        accepted.append((name, _offsets_of(asked.partitions, count)))
    return codes, tuple(accepted) if any(offsets for _, offsets in accepted) else ()


def _offsets_of(partitions: Sequence[Any], count: int) -> tuple[OffsetToCommit, ...]:
    return tuple(
        OffsetToCommit(
            each.partition_index,
            each.committed_offset,
            getattr(each, "committed_leader_epoch", -1),
            each.committed_metadata or "",
        )
        for each in partitions
        if 0 <= each.partition_index < count
    )


def with_result(
    codes: Codes, names: Sequence[str | None], topics: Sequence[Any], result: Committed | KafkaError
) -> Codes:
    """Put the coordinator's result in the place of every code that is still without error."""
    if isinstance(result, KafkaError):
        return [[result.code if code is ErrorCode.none else code for code in of_topic] for of_topic in codes]
    if result.too_large:
        for name, asked, of_topic in zip(names, topics, codes, strict=True):
            for position, each in enumerate(asked.partitions):
                if (name, each.partition_index) in result.too_large:
                    of_topic[position] = ErrorCode.offset_metadata_too_large
    return codes


def _response(schema: Any, topic_key: str, request: Any, codes: Codes) -> Any:
    return schema.OffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            schema.OffsetCommitResponseTopic(
                partitions=tuple(
                    schema.OffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=code
                    )
                    for each, code in zip(topic.partitions, of_topic, strict=True)
                ),
                **{topic_key: getattr(topic, topic_key)},
            )
            for topic, of_topic in zip(request.topics, codes, strict=True)
        ),
    )
