"""Metadata: the brokers, and the leaders of the requested topics.

v1: null means all topics, an empty list none; v4 lets the client forbid auto-creation; v5 adds offline
replicas, v7 leader epochs, v8 authorised operations, v9 is flexible, v10 topic ids, v12 look-ups by topic id,
v13 a top-level error. The response for all topics is encoded once per change of the cluster image: large
clusters are asked for it again and again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import cast
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.metadata import v10 as old
from kio.schema.metadata.v10 import request as old_request
from kio.schema.metadata.v10 import response as old_response
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import (
    NOT_ASKED,
    authorized_operations,
    cluster_operations,
    deny,
    may,
    refusal,
)
from ottla.api.support.brief_wait import BriefWait
from ottla.api.support.client_quotas import within_mutation_quota
from ottla.api.support.context import RequestContext
from ottla.api.support.forwarding import controller_id_for_clients
from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, why_illegal
from ottla.controller.machine import NewTopic
from ottla.metadata.image import ClusterImage, PartitionImage, TopicImage
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import (
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    RequestTimedOut,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.protocol.frames import encode_frame, encode_response_header
from ottla.protocol.schema.messages import response_encoder
from ottla.protocol.types import NO_THROTTLE, BrokerId, TopicName, i32
from ottla.security.acls import Operation, ResourceType

log = logging.getLogger(__name__)

_Asked = MetadataRequestTopic | old_request.MetadataRequestTopic

_OF_COORDINATORS = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})

NEWEST = 13
NEWEST_WITH_CLUSTER_OPERATIONS = 10
FIRST_BY_ID = 12


async def metadata(request: MetadataRequest, ctx: RequestContext) -> MetadataResponse | bytes:
    """Describe the cluster and the requested topics; create missing ones if auto-creation is enabled."""
    if request.topics is None:
        return _all_topics(
            ctx, NEWEST, request.include_topic_authorized_operations, lambda response: response
        )
    return await _some_topics(request, ctx)


async def metadata_with_cluster_operations(
    request: old.MetadataRequest, ctx: RequestContext
) -> old.MetadataResponse | bytes:
    """Serve the versions with cluster authorized operations (v8 to v10 can ask for them)."""
    asks_operations = request.include_cluster_authorized_operations
    operations = i32(cluster_operations(ctx) if asks_operations else NOT_ASKED)

    def lowered(response: MetadataResponse) -> old.MetadataResponse:
        return old.MetadataResponse(
            throttle_time=response.throttle_time,
            brokers=cast("tuple[old_response.MetadataResponseBroker, ...]", response.brokers),
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            topics=cast("tuple[old_response.MetadataResponseTopic, ...]", response.topics),
            cluster_authorized_operations=operations,
        )

    if request.topics is None or (ctx.version == 0 and not request.topics):
        with_operations = request.include_topic_authorized_operations
        return _all_topics(ctx, NEWEST_WITH_CLUSTER_OPERATIONS, with_operations, lowered, operations)
    return lowered(await _some_topics(request, ctx))


async def _some_topics(
    request: MetadataRequest | old.MetadataRequest, ctx: RequestContext
) -> MetadataResponse:
    assert request.topics is not None
    # A topic is described once, even if it is named repeatedly: a small request must not get a huge response.
    wanted: Collection[_Asked] = {each.topic_id or each.name: each for each in request.topics}.values()
    refused = _refusals(wanted, ctx)
    if request.allow_auto_topic_creation and ctx.services.config.auto_create_topics_enable:
        refused |= await _create_missing([each for each in wanted if each.name not in refused], ctx)
    image = ctx.services.cluster.image
    described = _Described(image, ctx, request.include_topic_authorized_operations)
    return _response(image, ctx, tuple(_answer(each, described, refused, ctx.version) for each in wanted))


def _refusals(wanted: Iterable[_Asked], ctx: RequestContext) -> dict[str, KafkaError]:
    """Return the errors of the topics that the client may not see, by name; they may exist or not."""
    if ctx.services.authorizer is None:
        return {}
    names_by_id = ctx.services.cluster.image.names_by_id
    named = (names_by_id.get(each.topic_id) if each.topic_id is not None else each.name for each in wanted)
    errors = {name: refusal(ctx, ResourceType.TOPIC, name) for name in named if name is not None}
    return {name: error for name, error in errors.items() if error is not None}


def _all_topics(
    ctx: RequestContext,
    as_version: int,
    with_operations: bool,
    shape: Callable[[MetadataResponse], object],
    *more: Hashable,
) -> bytes:
    image = ctx.services.cluster.image
    seen = tuple(topic for topic in image.topics.values() if may(ctx, ResourceType.TOPIC, topic.name))

    def encode() -> bytes:
        described = _Described(image, ctx, with_operations)
        topics = tuple(described.topic(topic) for topic in seen)
        response = shape(_response(image, ctx, topics))
        return response_encoder(ApiKey.METADATA, ctx.version, as_version)(response)

    if ctx.services.authorizer is not None and (with_operations or len(seen) < len(image.topics)):
        body = encode()  # what this client sees; not worth a place in the cache
    else:
        departed = ctx.services.recently_fenced_brokers.still_listed(image, ctx.connection)
        key = (ctx.version, ctx.connection.listener_name, departed, with_operations, *more)
        body = ctx.services.encoded_metadata.body(image, key, encode)
    return encode_frame(encode_response_header(ApiKey.METADATA, ctx.version, ctx.correlation_id), body)


def _response(
    image: ClusterImage, ctx: RequestContext, topics: tuple[MetadataResponseTopic, ...]
) -> MetadataResponse:
    return MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=_brokers(image, ctx),
        cluster_id=image.cluster_id,
        controller_id=BrokerId(controller_id_for_clients(image, ctx)),
        topics=topics,
        error_code=ErrorCode.none,
    )


def _brokers(image: ClusterImage, ctx: RequestContext) -> tuple[MetadataResponseBroker, ...]:
    listener = ctx.connection.listener_name
    departed = ctx.services.recently_fenced_brokers.still_listed(image, ctx.connection)
    return tuple(
        MetadataResponseBroker(
            node_id=BrokerId(broker.node_id),
            host=endpoint.host,
            port=i32(endpoint.port),
            rack=broker.rack,
        )
        for broker in image.brokers.values()
        if (not broker.fenced or broker.node_id in departed)
        and (endpoint := broker.endpoint(listener)) is not None
    )


async def _create_missing(wanted: Iterable[_Asked], ctx: RequestContext) -> dict[str, KafkaError]:
    """Create the missing topics; the next look-up shows whether that succeeded.

    Return the errors of those that the client may not create.
    """
    image = ctx.services.cluster.image
    missing = [
        each.name
        for each in wanted
        if each.name is not None and each.topic_id is None and each.name not in image.topics
    ]
    refused: dict[str, KafkaError] = {}
    if missing and not may(ctx, ResourceType.CLUSTER):
        refused = {
            name: deny(ctx, ResourceType.TOPIC, name, Operation.CREATE)
            for name in missing
            if not may(ctx, ResourceType.TOPIC, name, Operation.CREATE)
        }
        missing = [name for name in missing if name not in refused]
    if missing:
        try:
            await BriefWait(ctx.connection).until_done(_create(missing, ctx), RequestTimedOut("not yet"))
        except KafkaError as error:
            peer = ctx.connection.peer
            log.info("%d topics requested by %s are not auto-created: %s", len(missing), peer, error)
    return refused


async def _create(missing: Iterable[str], ctx: RequestContext) -> None:
    for name in _OF_COORDINATORS.intersection(missing):
        await _create_for_coordinator(name, ctx)
    # In one request, so that the limit on new partitions per request applies to all of them together.
    new = [NewTopic(name) for name in dict.fromkeys(missing) if name not in _OF_COORDINATORS]
    if not new:
        return
    try:
        made = await within_mutation_quota(
            ctx, new, lambda _: ctx.services.config.num_partitions, ctx.services.controller.create_topics, 0
        )
    except asyncio.CancelledError:
        for topic in new:  # the controller may create it all the same
            audit_change(ctx, ResourceType.TOPIC, topic.name, RequestTimedOut("not yet"))
        raise
    ctx.throttle_ms = 0  # the topics may have to wait, Metadata not
    for topic, result in zip(new, made, strict=True):
        audit_change(ctx, ResourceType.TOPIC, topic.name, result)
    refused = [(topic.name, why) for topic, why in zip(new, made, strict=True) if isinstance(why, KafkaError)]
    if refused:
        count, (name, why) = len(refused), refused[0]
        log.info(
            "%d topics requested by %s could not be auto-created: %r: %s",
            count,
            ctx.connection.peer,
            name,
            why,
        )


async def _create_for_coordinator(name: str, ctx: RequestContext) -> None:
    """Let the coordinator create its internal topic with its own settings."""
    services = ctx.services
    coordinator = services.groups if name == CONSUMER_OFFSETS_TOPIC else services.transactions
    try:
        await coordinator.create_topic()
    except KafkaError as error:
        log.info("the internal topic requested by %s could not be created: %s", ctx.connection.peer, error)


def _answer(
    wanted: _Asked, described: _Described, refused: Mapping[str, KafkaError], version: int
) -> MetadataResponseTopic:
    image = described.image
    if (wanted.name is None or wanted.topic_id is not None) and version < FIRST_BY_ID:
        # v10 and v11 have the field, but Kafka's brokers ignored it in these versions.
        error = InvalidRequest(f"look-ups by topic id need version {FIRST_BY_ID}")
        return _failure(
            error, wanted.name or "", wanted.topic_id
        )  # the name is not nullable in these versions
    if wanted.topic_id is not None:
        found = image.topic_by_id(wanted.topic_id)
        if found is None:
            return _failure(UnknownTopicId(), None, wanted.topic_id)
        if found.name in refused:  # ids are no secret, names are
            return _failure(refused[found.name], None, wanted.topic_id)
        return described.topic(found)
    if wanted.name is None:
        return _failure(InvalidRequest("a topic needs a name or an id"), None, None)
    if wanted.name in refused:
        return _failure(refused[wanted.name], wanted.name, None)
    found = image.topics.get(wanted.name)
    if found is not None:
        return described.topic(found)
    if reason := why_illegal(wanted.name):
        return _failure(InvalidTopicException(reason), wanted.name, None)
    return _failure(UnknownTopicOrPartition(), wanted.name, None)


class _Described:
    """Describes topics, with the addresses of one listener."""

    def __init__(self, image: ClusterImage, ctx: RequestContext, with_operations: bool) -> None:
        self.image = image
        self._ctx = ctx
        self._with_operations = with_operations
        self._reachable = image.reachable(ctx.connection.listener_name)

    def topic(self, topic: TopicImage) -> MetadataResponseTopic:
        """Describe a topic with all its partitions."""
        operations = NOT_ASKED
        if self._with_operations:
            operations = authorized_operations(self._ctx, ResourceType.TOPIC, topic.name)
        return MetadataResponseTopic(
            error_code=ErrorCode.none,
            name=TopicName(topic.name),
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=tuple(self._partition(each) for each in topic.partitions),
            topic_authorized_operations=i32(operations),
        )

    def _partition(self, partition: PartitionImage) -> MetadataResponsePartition:
        error_code, reachable = ErrorCode.none, self._reachable
        if partition.leader < 0:
            error_code = ErrorCode.leader_not_available
        elif partition.leader not in reachable:
            error_code = ErrorCode.listener_not_found
        is_whole = reachable.issuperset(partition.replicas) and not partition.failed
        offline = () if is_whole else partition.offline(reachable)
        return MetadataResponsePartition(
            error_code=error_code,
            partition_index=i32(partition.index),
            leader_id=BrokerId(partition.leader),
            leader_epoch=i32(partition.leader_epoch),
            replica_nodes=cast("tuple[BrokerId, ...]", partition.replicas),
            isr_nodes=cast("tuple[BrokerId, ...]", partition.isr),
            offline_replicas=cast("tuple[BrokerId, ...]", offline),
        )


def _failure(error: KafkaError, name: str | None, topic_id: UUID | None) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error.code,
        name=None if name is None else TopicName(name),
        topic_id=topic_id,
        partitions=(),
    )
