"""FindCoordinator: which broker coordinates a group or a transactional id.

v1 adds the key type and the error message; v3 is flexible; v4 asks for many keys at once; v5 and v6
only announce newer error codes and key types. The first to ask makes the topic of committed offsets.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3 import FindCoordinatorRequest as RequestV3
from kio.schema.find_coordinator.v3 import FindCoordinatorResponse as ResponseV3
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from ottla.api.context import RequestContext
from ottla.api.turns import in_turns
from ottla.protocol.errors import CoordinatorNotAvailable, InvalidGroupId, InvalidRequest, KafkaError
from ottla.protocol.types import NO_THROTTLE, BrokerId, i32

GROUP = 0


async def find_coordinators(request: FindCoordinatorRequest, ctx: RequestContext) -> FindCoordinatorResponse:
    """Find the coordinator of every key, once."""
    keys = dict.fromkeys(request.coordinator_keys)
    found = [await _find(key, request.key_type, ctx) async for key in in_turns(keys)]
    return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=tuple(found))


async def find_coordinator(request: RequestV3, ctx: RequestContext) -> ResponseV3:
    """Find the coordinator of one key."""
    found = await _find(request.key, request.key_type, ctx)
    return ResponseV3(
        throttle_time=NO_THROTTLE,
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(key: str, key_type: int, ctx: RequestContext) -> Coordinator:
    try:
        if key_type != GROUP:
            raise InvalidRequest(f"this broker has no coordinator of key type {key_type}")
        if not key:
            raise InvalidGroupId("the group id is empty")
        node_id = await ctx.services.groups.find(key)
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
