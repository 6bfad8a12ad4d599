"""OffsetFetch: how far groups have read.

v2 can ask for all of a group's offsets and has a place for an error of the group; v3 announces throttling;
v5 adds the leader epoch; v6 is flexible; v7 can ask for stable offsets only, behind which no transaction is
open; v8 asks about many groups at once; v9 knows the member epochs of the consumer protocol; v10 names topics
by id. What was never committed is -1, and no error. Partitions that are named again and again are answered
once, and a group that is named again is refused: no small request gets a huge answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch import v7, v9, v10

from ottla.api.support.authorization import may, refusal
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import try_ask
from ottla.api.support.librdkafka_offset_fetch import check_retried
from ottla.common.yielding import in_slices
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.records import OffsetValue
from ottla.coordinator.group.requests import FetchedOffset, FetchedOffsets, FetchRequest
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE, TopicName, i32, i64
from ottla.security.acls import ResourceType

FIRST_WITH_GROUP_ERROR = 2
NO_OFFSET = -1
NO_EPOCH = -1

Asked = tuple[tuple[str, tuple[int, ...]], ...]


async def offset_fetch_by_id(request: v10.OffsetFetchRequest, ctx: RequestContext) -> v10.OffsetFetchResponse:
    """Return offsets of topics that are named by their ids."""
    once, repeated = _named_once(request.groups)
    groups = [await _fetch_by_id(ctx, each, request.require_stable) async for each in in_slices(once)]
    groups += _refused(v10.response, repeated)
    return v10.OffsetFetchResponse(throttle_time=NO_THROTTLE, groups=tuple(groups))


async def offset_fetch(request: v9.OffsetFetchRequest, ctx: RequestContext) -> v9.OffsetFetchResponse:
    """Return the offsets of several groups."""
    once, repeated = _named_once(request.groups)
    groups = _refused(v9.response, repeated)
    async for asked in in_slices(once):
        topics = None if asked.topics is None else _by_name(asked.topics)
        wanted = FetchRequest(
            asked.group_id, topics, asked.member_id, asked.member_epoch, request.require_stable
        )
        found = await _fetch(ctx, wanted)
        groups.append(
            v9.response.OffsetFetchResponseGroup(
                group_id=asked.group_id,
                topics=() if isinstance(found, KafkaError) else _named(v9.response, "s", found),
                error_code=found.code if isinstance(found, KafkaError) else ErrorCode.none,
            )
        )
    return v9.OffsetFetchResponse(throttle_time=NO_THROTTLE, groups=tuple(groups))


async def offset_fetch_alone(request: v7.OffsetFetchRequest, ctx: RequestContext) -> v7.OffsetFetchResponse:
    """Return the offsets of one group."""
    topics = None if request.topics is None else _by_name(request.topics)
    found = await _fetch(ctx, FetchRequest(request.group_id, topics, must_be_stable=request.require_stable))
    code = ErrorCode.none
    if isinstance(found, KafkaError):
        code = found.code
        found = ()
        if ctx.version < FIRST_WITH_GROUP_ERROR:
            found = tuple(
                (name, tuple((each, None) for each in partitions)) for name, partitions in topics or ()
            )
    error_code = code if ctx.version < FIRST_WITH_GROUP_ERROR else ErrorCode.none
    return v7.OffsetFetchResponse(
        throttle_time=NO_THROTTLE, topics=_named(v7.response, "", found, error_code), error_code=code
    )


def _named_once(groups: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """Return the groups that a request names once, and the ids of those that it names more often."""
    times = Counter(each.group_id for each in groups)
    once = [each for each in groups if times[each.group_id] == 1]
    return once, [group_id for group_id, count in times.items() if count > 1]


def _refused(schema: Any, group_ids: Iterable[str]) -> list[Any]:
    refusal = ErrorCode.invalid_request
    return [
        schema.OffsetFetchResponseGroup(group_id=each, topics=(), error_code=refusal) for each in group_ids
    ]


async def _fetch(ctx: RequestContext, request: FetchRequest) -> FetchedOffsets | KafkaError:
    """Return the offsets of the topics that the client may see, and errors for the others that it names."""
    if (refused := refusal(ctx, ResourceType.GROUP, request.group_id)) is not None:
        return refused
    hidden: FetchedOffsets = ()
    if ctx.services.authorizer is not None and request.topics is not None:
        errors = {name: refusal(ctx, ResourceType.TOPIC, name) for name, _ in request.topics}
        hidden = tuple(
            (name, tuple((each, error) for each in partitions))
            for name, partitions in request.topics
            if (error := errors[name]) is not None
        )
        request = replace(request, topics=tuple(each for each in request.topics if errors[each[0]] is None))
    found = await try_ask(ctx.services.groups, request.group_id, GroupMachine.fetch, request)
    if isinstance(found, KafkaError):
        check_retried(ctx, found)
        return found
    if request.topics is None:
        found = tuple(each for each in found if may(ctx, ResourceType.TOPIC, each[0]))
    return (*found, *hidden)


def _by_name(topics: Iterable[Any]) -> Asked:
    return _merged((each.name, each.partition_indexes) for each in topics)


def _merged(topics: Iterable[tuple[str, Iterable[int]]]) -> Asked:
    """Return what is asked for, each partition once."""
    asked: dict[str, dict[int, None]] = {}
    for name, partitions in topics:
        asked.setdefault(name, {}).update(dict.fromkeys(partitions))
    return tuple((name, tuple(partitions)) for name, partitions in asked.items())


def _named(
    schema: Any, plural: str, found: FetchedOffsets, code: ErrorCode = ErrorCode.none
) -> tuple[Any, ...]:
    """Return topics as versions before 10 have them; v8 put the names of their classes in the plural."""
    topic_class = getattr(schema, f"OffsetFetchResponseTopic{plural}")
    partition_class = getattr(schema, f"OffsetFetchResponsePartition{plural}")
    return tuple(
        topic_class(name=TopicName(name), partitions=_partitions(partition_class, offsets, code))
        for name, offsets in found
    )


def _partitions(
    partition_class: type[Any], offsets: Sequence[tuple[int, FetchedOffset]], code: ErrorCode
) -> tuple[Any, ...]:
    return tuple(
        partition_class(
            partition_index=i32(partition),
            committed_offset=i64(value.offset if isinstance(value, OffsetValue) else NO_OFFSET),
            committed_leader_epoch=i32(value.leader_epoch if isinstance(value, OffsetValue) else NO_EPOCH),
            metadata=value.metadata if isinstance(value, OffsetValue) else "",
            error_code=value.code if isinstance(value, KafkaError) else code,
        )
        for partition, value in offsets
    )


async def _fetch_by_id(
    ctx: RequestContext, asked: v10.request.OffsetFetchRequestGroup, must_be_stable: bool
) -> v10.response.OffsetFetchResponseGroup:
    image = ctx.services.cluster.image
    wanted: Asked | None = None
    unknown: list[v10.request.OffsetFetchRequestTopics] = []
    if asked.topics is not None:
        known = [each for each in asked.topics if each.topic_id in image.names_by_id]
        unknown = [each for each in asked.topics if each.topic_id not in image.names_by_id]
        wanted = _merged(
            (image.names_by_id[each.topic_id], each.partition_indexes) for each in known if each.topic_id
        )
    found = await _fetch(
        ctx, FetchRequest(asked.group_id, wanted, asked.member_id, asked.member_epoch, must_be_stable)
    )
    if isinstance(found, KafkaError):
        return v10.response.OffsetFetchResponseGroup(
            group_id=asked.group_id, topics=(), error_code=found.code
        )
    one, many = v10.response.OffsetFetchResponseTopics, v10.response.OffsetFetchResponsePartitions
    topics = [
        one(topic_id=image.topics[name].topic_id, partitions=_partitions(many, offsets, ErrorCode.none))
        for name, offsets in found
        if name in image.topics
    ]
    for each in unknown:
        nothing = [(partition, None) for partition in each.partition_indexes]
        topics.append(
            one(topic_id=each.topic_id, partitions=_partitions(many, nothing, ErrorCode.unknown_topic_id))
        )
    return v10.response.OffsetFetchResponseGroup(group_id=asked.group_id, topics=tuple(topics))
