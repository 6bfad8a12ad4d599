"""CreatePartitions: add partitions to topics, or validate the request only.

v2 is flexible; v3 announces throttling. Existing records are not moved, so records of one key may be in two
partitions afterwards. Every topic of the request is answered; one named twice is rejected.
"""

from __future__ import annotations

from kio.schema.create_partitions.v3 import CreatePartitionsRequest, CreatePartitionsResponse
from kio.schema.create_partitions.v3.request import CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import CreatePartitionsTopicResult

from ottla.api.support.context import RequestContext
from ottla.api.support.results import code_of, message_of, milliseconds
from ottla.controller.machine import NewPartitions
from ottla.protocol.types import NO_THROTTLE


async def create_partitions(
    request: CreatePartitionsRequest, ctx: RequestContext
) -> CreatePartitionsResponse:
    """Add the partitions; return one result per topic."""
    results = await ctx.services.controller.active_controller.create_partitions(
        [_wanted(each) for each in request.topics],
        validate_only=request.validate_only,
        timeout_ms=milliseconds(request.timeout),
    )
    answers = {
        topic.name: CreatePartitionsTopicResult(
            name=topic.name, error_code=code_of(result), error_message=message_of(result)
        )
        for topic, result in zip(request.topics, results, strict=True)
    }
    return CreatePartitionsResponse(throttle_time=NO_THROTTLE, results=tuple(answers.values()))


def _wanted(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = topic.assignments
    if assignments is None:
        return NewPartitions(topic.name, topic.count)
    return NewPartitions(topic.name, topic.count, tuple(tuple(each.broker_ids) for each in assignments))
