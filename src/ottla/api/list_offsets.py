"""ListOffsets: the offset of a timestamp, or of either end of a partition.

v2 adds the isolation level, v4 leader epochs, v6 is flexible, v7 asks for the largest timestamp (-3), v8 for
the local log start offset (-4), v9 for the end of the tiered log (-5), v10 has a timeout, v11 asks for the
earliest offset that is not tiered yet (-6). Nothing is tiered here, so -5 and -6 return no offset.

With read_committed the end is the last stable offset.

After a failover: a new leader has every committed record, but learns the high watermark from its followers.
Until then its high watermark may be lower than the end offset that its predecessor returned, and an end
offset must never decrease (KIP-207). It answers OFFSET_NOT_AVAILABLE until the high watermark has reached the
start of its leader epoch; clients before v5 get LEADER_NOT_AVAILABLE.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable
from typing import NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.schema.types import TopicName

from ottla.api.support.authorization import refusal
from ottla.api.support.context import RequestContext
from ottla.log.lookup import Find
from ottla.protocol.errors import (
    InvalidRequest,
    KafkaError,
    LeaderNotAvailable,
    OffsetNotAvailable,
    UnsupportedVersion,
)
from ottla.protocol.types import NO_THROTTLE, i32, i64
from ottla.replication.partition import Partition
from ottla.security.acls import ResourceType

OFFSET_NOT_AVAILABLE_FROM = 5


def end_not_known(partition: Partition, version: int) -> KafkaError | None:
    """Return the error if the end offset is not known yet after a failover; None if it is."""
    if partition.is_high_watermark_valid:
        return None
    error = OffsetNotAvailable if version >= OFFSET_NOT_AVAILABLE_FROM else LeaderNotAvailable
    return error(f"{partition.topic_partition}: the high watermark is not known yet after a leader change")


LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}


def list_offsets(
    request: ListOffsetsRequest, ctx: RequestContext
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Look up every partition; one that fails does not fail the others.

    A search by timestamp may take long, and runs in a thread; everything else is answered at once.
    """
    named = Counter(
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    )
    refused = {topic.name: refusal(ctx, ResourceType.TOPIC, topic.name) for topic in request.topics}
    lookups = [
        (
            topic.name,
            [
                _refused(each, error)
                if (error := refused[topic.name]) is not None
                else _begin(topic.name, each, named[topic.name, each.partition_index] > 1, request, ctx)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    if any(isinstance(each, _Lookup) for _, partitions in lookups for each in partitions):
        return asyncio.to_thread(_finish, lookups)
    return _finish(lookups)


def _refused(wanted: ListOffsetsPartition, error: KafkaError) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error.code)


class _Lookup(NamedTuple):
    """A partition whose offset has to be searched for."""

    partition_index: i32
    find: Find
    end_offset: int
    if_none: KafkaError | None
    """The response if no record has the timestamp: an error if the end is not known yet, since one may
    exist.
    """

    def answer(self) -> ListOffsetsPartitionResponse:
        """Search by timestamp. Thread-safe."""
        try:
            found = self.find()
        except KafkaError as error:
            return ListOffsetsPartitionResponse(partition_index=self.partition_index, error_code=error.code)
        if found is None or found.offset >= self.end_offset:
            if self.if_none is not None:
                return ListOffsetsPartitionResponse(
                    partition_index=self.partition_index, error_code=self.if_none.code
                )
            return _found(self.partition_index)
        return _found(self.partition_index, found.timestamp, found.offset, found.leader_epoch)


_Begun = list[tuple[TopicName, list[ListOffsetsPartitionResponse | _Lookup]]]


def _finish(lookups: _Begun) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            ListOffsetsTopicResponse(
                name=name,
                partitions=tuple(each.answer() if isinstance(each, _Lookup) else each for each in partitions),
            )
            for name, partitions in lookups
        ),
    )


def _begin(
    topic: str,
    wanted: ListOffsetsPartition,
    repeated: bool,
    request: ListOffsetsRequest,
    ctx: RequestContext,
) -> ListOffsetsPartitionResponse | _Lookup:
    try:
        if repeated:
            raise InvalidRequest(f"{topic}-{wanted.partition_index} is named twice")
        if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
            raise InvalidRequest(f"unknown isolation level {request.isolation_level}")
        partition = ctx.services.partitions.get(topic, wanted.partition_index)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        return _look_up(partition, wanted, request.isolation_level, ctx.version)
    except KafkaError as error:
        return _refused(wanted, error)


def _look_up(
    partition: Partition, wanted: ListOffsetsPartition, isolation_level: int, version: int
) -> ListOffsetsPartitionResponse | _Lookup:
    index, timestamp = wanted.partition_index, wanted.timestamp
    if timestamp < 0 and version < _SINCE.get(timestamp, 1 if timestamp >= EARLIEST else 1 << 16):
        raise UnsupportedVersion(f"timestamp {timestamp} is not served in version {version}")
    end = partition.last_stable_offset if isolation_level == READ_COMMITTED else partition.high_watermark
    not_known = end_not_known(partition, version)
    match timestamp:
        case -1:
            if not_known is not None:
                raise not_known
            return _found(index, -1, end, partition.leader_epoch)
        case -2 | -4:
            offset = partition.log_start_offset
            return _found(index, -1, offset, partition.epoch_for_offset(offset))
        case -5 | -6:
            return _found(index)
        case -3:
            return _Lookup(index, partition.log.max_timestamp_lookup(), end, not_known)
        case _:
            return _Lookup(index, partition.log.timestamp_lookup(timestamp), end, not_known)


def _found(
    index: i32, timestamp: int = -1, offset: int = -1, leader_epoch: int = -1
) -> ListOffsetsPartitionResponse:
    """Return a response; -1 stands for a missing value."""
    return ListOffsetsPartitionResponse(
        partition_index=index,
        error_code=ErrorCode.none,
        timestamp=i64(timestamp),
        offset=i64(offset),
        leader_epoch=i32(leader_epoch),
    )
