"""Leader epochs, moved leaders and preferred replicas of the client tests' broker in memory."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.offset_for_leader_epoch.v4 import response as epochs

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.records.batch import decode_header
from ottla.protocol.types import NO_THROTTLE


def fault(broker: Any, partition: Any, epoch: int) -> ErrorCode | None:
    """Return why a broker refuses a partition: another one leads it, or the epoch is an older one."""
    if broker.node_id not in (partition.leader, partition.preferred_replica) and partition.leader >= 0:
        return ErrorCode.not_leader_or_follower
    if 0 <= epoch < partition.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    return None


def serves(broker: Any, partition: Any) -> bool:
    """Return whether a broker sends records itself, instead of naming the replica to read."""
    return partition.preferred_replica in (-1, broker.node_id)


def redirect(broker: Any, partition: Any) -> dict[str, int]:
    """Return the field that names the replica to read."""
    return {} if serves(broker, partition) else {"preferred_read_replica": partition.preferred_replica}


def end_of_epoch(partition: Any, epoch: int) -> tuple[int, int]:
    """Return the largest epoch up to this one, and where it ends."""
    headers = [decode_header(batch) for batch in partition.batches]
    older = [each.leader_epoch for each in headers if each.leader_epoch <= epoch]
    later = [each.base_offset for each in headers if each.leader_epoch > epoch]
    if not older:
        return -1, -1
    return max(older), min(later, default=partition.end)


def offset_for_leader_epoch(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    topics = []
    for topic in request.topics:
        answers = []
        for each in topic.partitions:
            epoch, end = end_of_epoch(
                broker.topics[topic.topic].partitions[each.partition], each.leader_epoch
            )
            answers.append(
                epochs.EpochEndOffset(
                    error_code=fault or ErrorCode.none,
                    partition=each.partition,
                    leader_epoch=epoch,
                    end_offset=end,
                )
            )
        topics.append(epochs.OffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(answers)))
    return epochs.OffsetForLeaderEpochResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


VERSIONS = {ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4)}
NEWEST = {ApiKey.OFFSET_FOR_LEADER_EPOCH: 4}
HANDLERS: dict[ApiKey, Any] = {ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch}
