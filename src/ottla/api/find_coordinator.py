"""FindCoordinator: which broker coordinates a group or a transactional id.

v1 adds the key type and the error message; v3 is flexible; v4 asks for many keys at once; v5 and v6
only announce newer error codes and key types. The first to ask makes the coordinator's topic.
"""

from __future__ import annotations

import asyncio
from enum import IntEnum

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3 import FindCoordinatorRequest as RequestV3
from kio.schema.find_coordinator.v3 import FindCoordinatorResponse as ResponseV3
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from ottla.api.support.authorization import require
from ottla.api.support.brief_wait import POLL_INTERVAL_S, BriefWait
from ottla.api.support.context import RequestContext
from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from ottla.common.yielding import in_slices
from ottla.protocol.errors import CoordinatorNotAvailable, InvalidRequest, KafkaError
from ottla.protocol.types import NO_THROTTLE, BrokerId, i32
from ottla.replication.replica_fetcher import CHANNEL as FETCH_CHANNEL
from ottla.security.acls import ResourceType


class CoordinatorType(IntEnum):
    """What a key is."""

    GROUP = 0
    TRANSACTION = 1


RESOURCES: dict[int, ResourceType] = {
    CoordinatorType.GROUP: ResourceType.GROUP,
    CoordinatorType.TRANSACTION: ResourceType.TRANSACTIONAL_ID,
}
TOPICS: dict[int, str] = {
    CoordinatorType.GROUP: CONSUMER_OFFSETS_TOPIC,
    CoordinatorType.TRANSACTION: TRANSACTION_STATE_TOPIC,
}


async def find_coordinators(request: FindCoordinatorRequest, ctx: RequestContext) -> FindCoordinatorResponse:
    """Find the coordinator of every key, once."""
    keys = dict.fromkeys(request.coordinator_keys)
    waiting = BriefWait(ctx.connection)
    found = [await _find(key, request.key_type, ctx, waiting) async for key in in_slices(keys)]
    return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=tuple(found))


async def find_coordinator(request: RequestV3, ctx: RequestContext) -> ResponseV3:
    """Find the coordinator of one key."""
    found = await _find(request.key, request.key_type, ctx, BriefWait(ctx.connection))
    return ResponseV3(
        throttle_time=NO_THROTTLE,
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _node_id(key: str, key_type: int, ctx: RequestContext, waiting: BriefWait) -> int:
    """Return the node id of the coordinator, as far as this broker knows."""
    if key_type in TOPICS and TOPICS[key_type] not in ctx.services.cluster.image.topics:
        refusal = CoordinatorNotAvailable(f"{TOPICS[key_type]} is being created")
        return await waiting.until_done(_ask(key, key_type, ctx), refusal)
    return await _ask(key, key_type, ctx)


async def _ask(key: str, key_type: int, ctx: RequestContext) -> int:
    match key_type:
        case CoordinatorType.GROUP:
            # No member joins the group without a name, but old clients commit offsets to it.
            return await ctx.services.groups.find(key)
        case CoordinatorType.TRANSACTION:
            if not key:
                raise InvalidRequest("the transactional id is empty")
            return await ctx.services.transactions.find(key)
    raise InvalidRequest(f"this broker has no coordinator of key type {key_type}")


async def _reachable_node_id(key: str, key_type: int, ctx: RequestContext, waiting: BriefWait) -> int:
    """Return the coordinator's node id; if it seems to have died, wait for the next one for a moment.

    The followers of a broker's partitions notice its crash at once, seconds before its session expires and
    another broker takes over. An error response would not help: librdkafka retries COORDINATOR_NOT_AVAILABLE
    three times and then hangs, and so does kafka-python 3.0 if no broker listens at the address that it got.
    """
    services = ctx.services
    while True:
        has_time = not waiting.is_over
        try:
            node_id = await _node_id(key, key_type, ctx, waiting)
        except CoordinatorNotAvailable:
            if not has_time or TOPICS[key_type] not in services.cluster.image.topics:
                raise
        else:
            if node_id == services.node_id or services.peers is None:
                return node_id
            if not has_time or not services.peers.is_cut_off(node_id, FETCH_CHANNEL):
                return node_id
        await asyncio.sleep(POLL_INTERVAL_S)


async def _find(key: str, key_type: int, ctx: RequestContext, waiting: BriefWait) -> Coordinator:
    try:
        if key_type in RESOURCES:
            require(ctx, RESOURCES[key_type], key)
        node_id = await _reachable_node_id(key, key_type, ctx, waiting)
        broker = ctx.services.cluster.image.brokers.get(node_id)
        endpoint = None if broker is None else broker.endpoint(ctx.connection.listener_name)
        if endpoint is None:
            raise CoordinatorNotAvailable(f"broker {node_id} has no {ctx.connection.listener_name}")
    except KafkaError as error:
        return Coordinator(
            key=key,
            node_id=BrokerId(-1),
            host="",
            port=i32(-1),
            error_code=error.code,
            error_message=error.message,
        )
    return Coordinator(
        key=key,
        node_id=BrokerId(node_id),
        host=endpoint.host,
        port=i32(endpoint.port),
        error_code=ErrorCode.none,
        error_message=None,
    )
