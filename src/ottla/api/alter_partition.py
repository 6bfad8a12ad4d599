"""AlterPartition: change the in-sync replicas of partitions, on behalf of their leader.

Leaders send it to the controller. v3 carries the broker epoch of every replica (KIP-903), so that a broker
that has restarted since it caught up does not enter the ISR. v2, without epochs, is not served.
"""

from __future__ import annotations

from uuid import UUID

from kio.schema.alter_partition.v3 import AlterPartitionRequest, AlterPartitionResponse
from kio.schema.alter_partition.v3.response import PartitionData, TopicData
from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import require
from ottla.api.support.context import RequestContext
from ottla.api.support.results import code_of
from ottla.metadata.entities import IsrChange
from ottla.metadata.image import PartitionImage
from ottla.protocol.errors import KafkaError, StaleBrokerEpoch
from ottla.protocol.types import NO_THROTTLE, BrokerId, i32
from ottla.security.acls import ResourceType

NO_TOPIC_ID: UUID = UUID(int=0)


async def alter_partition(request: AlterPartitionRequest, ctx: RequestContext) -> AlterPartitionResponse:
    """Change the ISRs; return the resulting state of each partition."""
    require(ctx, ResourceType.CLUSTER)
    changes = [
        IsrChange(
            topic.topic_id or NO_TOPIC_ID,
            each.partition_index,
            each.leader_epoch,
            each.partition_epoch,
            tuple((member.broker_id, member.broker_epoch) for member in each.new_isr_with_epochs),
        )
        for topic in request.topics
        for each in topic.partitions
    ]
    active_controller = ctx.services.controller.active_controller
    results = await active_controller.alter_partitions(request.broker_id, request.broker_epoch, changes)
    if results and all(isinstance(each, StaleBrokerEpoch) for each in results):
        raise StaleBrokerEpoch(str(results[0]))
    topics: dict[UUID, list[PartitionData]] = {}
    for change, result in zip(changes, results, strict=True):
        topics.setdefault(change.topic_id, []).append(_answer(change, result))
    return AlterPartitionResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        topics=tuple(TopicData(topic_id=each, partitions=tuple(of)) for each, of in topics.items()),
    )


def _answer(change: IsrChange, result: PartitionImage | KafkaError) -> PartitionData:
    if isinstance(result, KafkaError):
        return PartitionData(
            partition_index=i32(change.partition),
            error_code=code_of(result),
            leader_id=BrokerId(-1),
            leader_epoch=i32(-1),
            partition_epoch=i32(-1),
        )
    return PartitionData(
        partition_index=i32(change.partition),
        error_code=ErrorCode.none,
        leader_id=BrokerId(result.leader),
        leader_epoch=i32(result.leader_epoch),
        isr=tuple(BrokerId(each) for each in result.isr),
        partition_epoch=i32(result.partition_epoch),
    )
