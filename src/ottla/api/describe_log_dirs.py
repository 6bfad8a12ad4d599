"""DescribeLogDirs: the disk usage of each partition on this broker.

v2 is flexible; v3 adds a top-level error; v4 the size and the free space of the volume; v5 whether the
directory is cordoned, which ours never is. An offline directory is listed with KAFKA_STORAGE_ERROR and
without partitions.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator

from kio.schema.describe_log_dirs.v5 import DescribeLogDirsRequest, DescribeLogDirsResponse
from kio.schema.describe_log_dirs.v5.request import DescribableLogDirTopic
from kio.schema.describe_log_dirs.v5.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.errors import ErrorCode

from ottla.api.support.context import RequestContext
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE, TopicName, i32, i64
from ottla.replication.partition import Partition
from ottla.replication.registry import PartitionRegistry

UNKNOWN_BYTES = -1
PARTITIONS_PER_SLICE = 2_000


async def describe_log_dirs(request: DescribeLogDirsRequest, ctx: RequestContext) -> DescribeLogDirsResponse:
    """Describe the log directory, with the requested partitions."""
    storage = ctx.services.log_directory.storage
    total_bytes, usable_bytes = _volume(storage.path)
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    code = ErrorCode.kafka_storage_error if storage.offline_reason is not None else ErrorCode.none
    if code is ErrorCode.none:
        topics = await _topics(_wanted(ctx.services.partitions, request.topics))
    result = DescribeLogDirsResult(
        error_code=code,
        log_dir=os.path.abspath(storage.path),
        topics=topics,
        total_bytes=i64(total_bytes),
        usable_bytes=i64(usable_bytes),
    )
    return DescribeLogDirsResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, results=(result,))


def _volume(path: str) -> tuple[int, int]:
    try:
        volume = os.statvfs(path)
    except OSError:
        return UNKNOWN_BYTES, UNKNOWN_BYTES
    return volume.f_frsize * volume.f_blocks, volume.f_frsize * volume.f_bavail


def _wanted(
    registry: PartitionRegistry, topics: tuple[DescribableLogDirTopic, ...] | None
) -> Iterator[Partition]:
    if topics is None:
        yield from registry
        return
    for topic, index in dict.fromkeys((each.topic, index) for each in topics for index in each.partitions):
        try:
            yield registry.get_replica(topic, index)
        except KafkaError:
            continue  # as Kafka does: partitions without a replica here are not listed


async def _topics(partitions: Iterable[Partition]) -> tuple[DescribeLogDirsTopic, ...]:
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for number, partition in enumerate(partitions, 1):
        topic, index = partition.topic_partition
        topics.setdefault(topic, []).append(
            DescribeLogDirsPartition(
                partition_index=i32(index),
                partition_size=i64(partition.log.size_bytes),
                offset_lag=i64(max(0, partition.high_watermark - partition.log.log_end_offset)),
                is_future_key=False,
            )
        )
        if number % PARTITIONS_PER_SLICE == 0:
            await asyncio.sleep(0)
    return tuple(
        DescribeLogDirsTopic(name=TopicName(name), partitions=tuple(found)) for name, found in topics.items()
    )
