"""AlterReplicaLogDirs: move replicas to another log directory of the same broker.

v2 is flexible. A broker has one log directory, which holds every replica; any other path is not found.
"""

from __future__ import annotations

import os

from kio.schema.alter_replica_log_dirs.v2 import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from kio.schema.alter_replica_log_dirs.v2.response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirTopicResult,
)
from kio.schema.errors import ErrorCode

from ottla.api.support.context import RequestContext
from ottla.protocol.errors import (
    KafkaError,
    KafkaStorageError,
    LogDirNotFound,
    NotLeaderOrFollower,
    ReplicaNotAvailable,
)
from ottla.protocol.types import NO_THROTTLE, TopicName


def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, ctx: RequestContext
) -> AlterReplicaLogDirsResponse:
    """Return for each partition whether the directory already holds it."""
    results: dict[TopicName, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                code = _code(ctx, directory.path, topic.name, index)
                results.setdefault(topic.name, []).append(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                )
    return AlterReplicaLogDirsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(each))
            for name, each in results.items()
        ),
    )


def _code(ctx: RequestContext, path: str, topic: str, index: int) -> ErrorCode:
    storage = ctx.services.log_directory.storage
    if not os.path.isabs(path) or os.path.normpath(path) != os.path.abspath(storage.path):
        return LogDirNotFound.code
    if storage.offline_reason is not None:
        return KafkaStorageError.code
    try:
        ctx.services.partitions.get_replica(topic, index)
    except NotLeaderOrFollower:
        return ReplicaNotAvailable.code  # the error code that Kafka returns here
    except KafkaError as error:
        return error.code
    return ErrorCode.none
