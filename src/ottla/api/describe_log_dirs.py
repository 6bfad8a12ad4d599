"""DescribeLogDirs: the disk usage of each partition on this broker.

v2 is flexible; v3 adds a top-level error; v4 the size and the free space of the volume; v5 whether the
directory is cordoned, which ours never is. An offline directory is listed with KAFKA_STORAGE_ERROR and
without partitions.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence

from kio.schema.describe_log_dirs.v5 import DescribeLogDirsRequest, DescribeLogDirsResponse
from kio.schema.describe_log_dirs.v5.request import DescribableLogDirTopic
from kio.schema.describe_log_dirs.v5.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import refusal
from ottla.api.support.context import RequestContext
from ottla.log.directories.log_copy import LogCopy
from ottla.log.storage import Storage
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE, TopicName, i32, i64
from ottla.replication.partition import Partition
from ottla.replication.registry import PartitionRegistry
from ottla.security.acls import ResourceType

UNKNOWN_BYTES = -1
PARTITIONS_PER_SLICE = 2_000


async def describe_log_dirs(request: DescribeLogDirsRequest, ctx: RequestContext) -> DescribeLogDirsResponse:
    """Describe the log directories, with the requested partitions."""
    if (refused := refusal(ctx, ResourceType.CLUSTER)) is not None:
        return DescribeLogDirsResponse(throttle_time=NO_THROTTLE, error_code=refused.code, results=())
    directories = ctx.services.log_directories
    wanted = list(_wanted(ctx.services.partitions, request.topics))
    moves = ctx.services.directory_moves
    results = [
        await _describe(each.storage, wanted, moves.copies_in(each)) for each in directories.directories
    ]
    results += [_offline(path) for path in directories.unusable]
    return DescribeLogDirsResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, results=tuple(results)
    )


async def _describe(
    storage: Storage, partitions: list[Partition], copies: Sequence[LogCopy]
) -> DescribeLogDirsResult:
    if storage.offline_reason is not None:
        return _offline(storage.path)
    total_bytes, usable_bytes = _volume(storage)
    places = {each.topic_partition for each in partitions} if copies else set()
    return DescribeLogDirsResult(
        error_code=ErrorCode.none,
        log_dir=os.path.abspath(storage.path),
        topics=await _topics(
            (each for each in partitions if each.log.storage is storage),
            [each for each in copies if each.log.topic_partition in places],
        ),
        total_bytes=i64(total_bytes),
        usable_bytes=i64(usable_bytes),
    )


def _offline(path: str) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(
        error_code=ErrorCode.kafka_storage_error,
        log_dir=os.path.abspath(path),
        topics=(),
        total_bytes=i64(UNKNOWN_BYTES),
        usable_bytes=i64(UNKNOWN_BYTES),
    )


def _volume(storage: Storage) -> tuple[int, int]:
    try:
        return storage.disk.volume_bytes(storage.path)
    except OSError:
        return UNKNOWN_BYTES, UNKNOWN_BYTES


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


async def _topics(
    partitions: Iterable[Partition], copies: Iterable[LogCopy]
) -> tuple[DescribeLogDirsTopic, ...]:
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
    for copy in copies:
        topic, index = copy.log.topic_partition
        topics.setdefault(topic, []).append(
            DescribeLogDirsPartition(
                partition_index=i32(index),
                partition_size=i64(copy.copied_bytes),
                offset_lag=i64(copy.log.log_end_offset - copy.copied_offset),
                is_future_key=True,
            )
        )
    return tuple(
        DescribeLogDirsTopic(name=TopicName(name), partitions=tuple(found)) for name, found in topics.items()
    )
