"""AlterPartitionReassignments: move replicas to other brokers, or cancel ongoing moves.

v0 is flexible; v1 lets the client forbid changes of the replication factor. The response is sent when the
moves have begun; ListPartitionReassignments lists those that are ongoing.
"""

from __future__ import annotations

from kio.schema.alter_partition_reassignments.v1 import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kio.schema.alter_partition_reassignments.v1.response import (
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.schema.errors import ErrorCode

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.api.support.results import code_of, message_of
from ottla.controller.machine import Reassignment
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE, TopicName, i32
from ottla.security.acls import ResourceType

MOVES_AT_ONCE = 1_000


async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, ctx: RequestContext
) -> AlterPartitionReassignmentsResponse:
    """Begin or cancel the moves; return one result per partition."""
    require(ctx, ResourceType.CLUSTER)
    moves = [
        Reassignment(
            topic.name, each.partition_index, None if each.replicas is None else tuple(each.replicas)
        )
        for topic in request.topics
        for each in topic.partitions
    ]
    active_controller = ctx.services.controller.active_controller
    answers: dict[str, list[ReassignablePartitionResponse]] = {each.name: [] for each in request.topics}
    for first in range(0, len(moves), MOVES_AT_ONCE):
        part = moves[first : first + MOVES_AT_ONCE]
        results = await active_controller.reassign(
            part, may_change_factor=request.allow_replication_factor_change
        )
        for move, result in zip(part, results, strict=True):
            answers[move.topic].append(_answer(move, result))
            audit_change(ctx, ResourceType.TOPIC, f"{move.topic}-{move.partition}", result, "PARTITION")
    return AlterPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple(
            ReassignableTopicResponse(name=TopicName(topic), partitions=tuple(each))
            for topic, each in answers.items()
        ),
    )


def _answer(move: Reassignment, result: KafkaError | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=i32(move.partition), error_code=code_of(result), error_message=message_of(result)
    )
