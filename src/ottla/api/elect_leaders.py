"""ElectLeaders: elect the preferred leaders of partitions, or leaders for offline partitions.

v1 adds the type of the election (0: preferred, 1: unclean, which may lose records); v2 is flexible. A request
without partitions means all of them; those that need no election are left out of the response.
"""

from __future__ import annotations

from kio.schema.elect_leaders.v2 import ElectLeadersRequest, ElectLeadersResponse
from kio.schema.elect_leaders.v2.response import PartitionResult, ReplicaElectionResult
from kio.schema.errors import ErrorCode

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import refusal
from ottla.api.support.context import RequestContext
from ottla.api.support.results import code_of, message_of
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import ElectionNotNeeded
from ottla.protocol.types import NO_THROTTLE, TopicName, i32
from ottla.security.acls import ResourceType

PARTITIONS_AT_ONCE = 1_000


async def elect_leaders(request: ElectLeadersRequest, ctx: RequestContext) -> ElectLeadersResponse:
    """Elect the leaders; return one result per election."""
    active_controller = ctx.services.controller.active_controller
    wanted = _wanted(request, ctx)
    answers: dict[str, list[PartitionResult]] = {}
    if (refused := refusal(ctx, ResourceType.CLUSTER)) is not None:
        for topic, index in wanted if request.topic_partitions is not None else ():
            answers.setdefault(topic, []).append(
                PartitionResult(
                    partition_id=i32(index), error_code=refused.code, error_message=refused.message
                )
            )
        wanted = []
    for first in range(0, len(wanted), PARTITIONS_AT_ONCE):
        part = wanted[first : first + PARTITIONS_AT_ONCE]
        for topic_partition, result in zip(
            part, await active_controller.elect_leaders(request.election_type, part), strict=True
        ):
            if request.topic_partitions is None and isinstance(result, ElectionNotNeeded):
                continue
            audit_change(ctx, ResourceType.TOPIC, str(topic_partition), result, "PARTITION")
            answers.setdefault(topic_partition.topic, []).append(
                PartitionResult(
                    partition_id=i32(topic_partition.partition),
                    error_code=code_of(result),
                    error_message=message_of(result),
                )
            )
    return ElectLeadersResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none if refused is None or ctx.version == 0 else refused.code,
        replica_election_results=tuple(
            ReplicaElectionResult(topic=TopicName(topic), partition_result=tuple(results))
            for topic, results in answers.items()
        ),
    )


def _wanted(request: ElectLeadersRequest, ctx: RequestContext) -> list[TopicPartition]:
    if request.topic_partitions is not None:
        return [
            TopicPartition(each.topic, index)
            for each in request.topic_partitions
            for index in each.partitions
        ]
    topics = ctx.services.cluster.image.topics
    return [TopicPartition(topic.name, each.index) for topic in topics.values() for each in topic.partitions]
