"""ConsumerGroupHeartbeat: all that a member of a consumer group says and hears (KIP-848).

By its epoch a member joins (0), stays, leaves (-1) or, being static, leaves for a while (-2). It says what it
subscribes to and what it has when that changed, and gets its partitions when those changed. From v1 on,
members make up their ids themselves, and may subscribe by a regular expression.
"""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import timedelta
from functools import partial
from typing import cast
from uuid import UUID

from kio.schema.consumer_group_heartbeat.v1 import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kio.schema.consumer_group_heartbeat.v1.response import Assignment, TopicPartitions
from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import may, require
from ottla.api.support.context import RequestContext
from ottla.api.support.coordinator_calls import respond_later, try_call
from ottla.api.support.results import milliseconds
from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import new_uuid
from ottla.coordinator.group.consumer import events
from ottla.coordinator.group.consumer.partitions import grouped
from ottla.coordinator.group.consumer.requests import Heartbeat, HeartbeatRequest
from ottla.protocol.errors import InvalidRequest, KafkaError, UnsupportedVersion
from ottla.protocol.types import NO_THROTTLE, i32, i32Timedelta
from ottla.security.acls import ResourceType

FIRST_WITH_OWN_MEMBER_ID = 1
CONSUMER = "consumer"


def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, ctx: RequestContext
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    """Pass a heartbeat on, and say what became of it."""
    try:
        check_protocol(ctx.services.config)
        _check_ids(request, ctx.version)
        require(ctx, ResourceType.GROUP, request.group_id)
        for name in request.subscribed_topic_names or ():
            require(ctx, ResourceType.TOPIC, name)
    except KafkaError as error:
        return _response(error)
    outcome = try_call(
        ctx.services.groups,
        request.group_id,
        events.consumer_group_heartbeat,
        _heartbeat_request(request, ctx),
    )
    return respond_later(outcome, _response) if isinstance(outcome, Awaitable) else _response(outcome)


def _check_ids(request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    may_lack_id = version < FIRST_WITH_OWN_MEMBER_ID and request.member_epoch == 0
    if not request.member_id.strip() and not may_lack_id:
        raise InvalidRequest("MemberId can't be empty.")
    if not request.group_id.strip():
        raise InvalidRequest("GroupId can't be empty.")


def check_protocol(config: BrokerConfig) -> None:
    """Refuse the consumer protocol if it is not among those that are to be served."""
    if CONSUMER not in config.group_coordinator_rebalance_protocols:
        raise UnsupportedVersion("group.coordinator.rebalance.protocols does not list the consumer protocol")


def _heartbeat_request(request: ConsumerGroupHeartbeatRequest, ctx: RequestContext) -> HeartbeatRequest:
    owned = None
    if request.topic_partitions is not None:
        owned = grouped(
            (each.topic_id or UUID(int=0), int(index))
            for each in request.topic_partitions
            for index in each.partitions
        )
    return HeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        subscribed_topics=request.subscribed_topic_names,
        subscribed_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=owned,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.connection.host}",
        fresh_id=str(new_uuid()),
        may_see=None if ctx.services.authorizer is None else partial(may, ctx, ResourceType.TOPIC),
    )


def _response(beat: Heartbeat | KafkaError) -> ConsumerGroupHeartbeatResponse:
    if isinstance(beat, KafkaError):
        return ConsumerGroupHeartbeatResponse(
            throttle_time=NO_THROTTLE,
            error_code=beat.code,
            error_message=beat.message,
            member_epoch=i32(0),
            heartbeat_interval=NO_THROTTLE,
        )
    assignment = None
    if beat.assignment is not None:
        assignment = Assignment(
            topic_partitions=tuple(
                TopicPartitions(topic_id=topic_id, partitions=cast("tuple[i32, ...]", indexes))
                for topic_id, indexes in beat.assignment
            )
        )
    return ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        member_id=beat.member_id,
        member_epoch=i32(beat.member_epoch),
        heartbeat_interval=cast("i32Timedelta", timedelta(milliseconds=beat.heartbeat_interval_ms)),
        assignment=assignment,
    )
