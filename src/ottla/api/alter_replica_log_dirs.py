"""AlterReplicaLogDirs: move replicas to another log directory of the same broker.

v2 is flexible. A move runs in the background; DescribeLogDirs shows the copy as a future replica until it
replaces the log. A replica that does not exist yet is created in the directory, when it is assigned to this
broker: the response is REPLICA_NOT_AVAILABLE, which the Java tools expect.
"""

from __future__ import annotations

import os

from kio.schema.alter_replica_log_dirs.v2 import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from kio.schema.alter_replica_log_dirs.v2.response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirTopicResult,
)

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import refusal
from ottla.api.support.context import RequestContext
from ottla.api.support.results import code_of
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import (
    KafkaError,
    NotLeaderOrFollower,
    ReplicaNotAvailable,
    UnknownTopicOrPartition,
)
from ottla.protocol.types import NO_THROTTLE, TopicName
from ottla.security.acls import ResourceType


def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, ctx: RequestContext
) -> AlterReplicaLogDirsResponse:
    """Begin the moves; return for each partition whether its move has begun, or is not needed."""
    refused = refusal(ctx, ResourceType.CLUSTER)
    results: dict[TopicName, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                error = refused or _error(ctx, directory.path, topic.name, index)
                if refused is None:
                    move = f"{topic.name}-{index} to {directory.path}"
                    audit_change(ctx, ResourceType.TOPIC, move, error, "PARTITION")
                results.setdefault(topic.name, []).append(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code_of(error))
                )
    return AlterReplicaLogDirsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(each))
            for name, each in results.items()
        ),
    )


def _error(ctx: RequestContext, path: str, topic: str, index: int) -> KafkaError | None:
    moves, directories = ctx.services.directory_moves, ctx.services.log_directories
    path = os.path.normpath(path) if os.path.isabs(path) else ""
    try:
        moves.directory_at(path)
        moves.move(ctx.services.partitions.get_replica(topic, index), path)
    except NotLeaderOrFollower:
        directories.preferred[TopicPartition(topic, index)] = path
        return ReplicaNotAvailable("it will be created there")  # the error that Kafka returns here
    except UnknownTopicOrPartition as error:
        directories.preferred[TopicPartition(topic, index)] = path
        return error
    except KafkaError as error:
        return error
    return None
