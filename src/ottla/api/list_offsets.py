"""ListOffsets: the offset at a time, or at either end of a partition.

v2 adds the isolation level, v4 leader epochs, v6 is flexible, v7 asks for the largest timestamp (-3),
v8 for the local log start (-4), v9 for the end of the tiered log (-5), v10 has a timeout, v11 asks for
what is still to be tiered (-6). Nothing is tiered here, so -5 and -6 answer "no such offset".
"""

from __future__ import annotations

from collections import Counter

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

from ottla.api.context import RequestContext
from ottla.protocol.errors import InvalidRequest, KafkaError, UnsupportedVersion
from ottla.protocol.types import NO_THROTTLE, i32, i64
from ottla.replication.partition import Partition

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
READ_COMMITTED = 1
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}


def list_offsets(request: ListOffsetsRequest, ctx: RequestContext) -> ListOffsetsResponse:
    """Look every partition up; one that fails does not fail the others."""
    named = Counter(
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    )
    return ListOffsetsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _answer(topic.name, each, named[topic.name, each.partition_index] > 1, request, ctx)
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _answer(
    topic: str,
    wanted: ListOffsetsPartition,
    repeated: bool,
    request: ListOffsetsRequest,
    ctx: RequestContext,
) -> ListOffsetsPartitionResponse:
    try:
        if repeated:
            raise InvalidRequest(f"{topic}-{wanted.partition_index} is named twice")
        partition = ctx.services.partitions.get(topic, wanted.partition_index)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        found = _look_up(partition, wanted.timestamp, request.isolation_level, ctx.version)
    except KafkaError as error:
        return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error.code)
    timestamp, offset, epoch = found
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        error_code=ErrorCode.none,
        timestamp=i64(timestamp),
        offset=i64(offset),
        leader_epoch=i32(epoch),
    )


def _look_up(
    partition: Partition, timestamp: int, isolation_level: int, version: int
) -> tuple[int, int, int]:
    """Return (timestamp, offset, leader epoch); -1 for each that there is none of."""
    if timestamp < 0 and version < _SINCE.get(timestamp, 1 if timestamp >= EARLIEST else 1 << 16):
        raise UnsupportedVersion(f"timestamp {timestamp} is not served in version {version}")
    end = partition.last_stable_offset if isolation_level == READ_COMMITTED else partition.high_watermark
    match timestamp:
        case -1:
            return -1, end, partition.leader_epoch
        case -2 | -4:
            offset = partition.log_start_offset
            return -1, offset, partition.epoch_at(offset)
        case -5 | -6:
            return -1, -1, -1
        case -3:
            found = partition.log.max_timestamp_offset()
        case _:
            found = partition.log.offset_for_time(timestamp)
    if found is None or found.offset >= end:
        return -1, -1, -1
    return found.timestamp, found.offset, found.leader_epoch
