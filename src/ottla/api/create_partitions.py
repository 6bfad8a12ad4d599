"""CreatePartitions: add partitions to topics, or validate the request only.

v2 is flexible; v3 announces throttling. Existing records are not moved, so records of one key may be in two
partitions afterwards. Every topic of the request is answered; one named twice is rejected.
"""

from __future__ import annotations

from kio.schema.create_partitions.v3 import CreatePartitionsRequest, CreatePartitionsResponse
from kio.schema.create_partitions.v3.request import CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import CreatePartitionsTopicResult

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import split_allowed
from ottla.api.support.client_quotas import within_mutation_quota
from ottla.api.support.context import RequestContext
from ottla.api.support.results import code_of, message_of, milliseconds
from ottla.controller.machine import NewPartitions
from ottla.protocol.types import NO_THROTTLE
from ottla.security.acls import ResourceType

FIRST_WITH_STRICT_QUOTA = 3


async def create_partitions(
    request: CreatePartitionsRequest, ctx: RequestContext
) -> CreatePartitionsResponse:
    """Add the partitions; return one result per topic."""
    topics, refused = split_allowed(ctx, ResourceType.TOPIC, ((each.name, each) for each in request.topics))
    timeout_ms = milliseconds(request.timeout)
    results = await within_mutation_quota(
        ctx,
        [_wanted(each) for each in topics],
        lambda wanted: _partitions_to_create(wanted, ctx),
        lambda allowed: ctx.services.controller.active_controller.create_partitions(
            allowed, validate_only=request.validate_only, timeout_ms=timeout_ms
        ),
        FIRST_WITH_STRICT_QUOTA,
    )
    if not request.validate_only:
        for topic, result in zip(topics, results, strict=True):
            audit_change(ctx, ResourceType.TOPIC, topic.name, result)
    by_name = {topic.name: result for topic, result in zip(topics, results, strict=True)} | refused
    answers = {
        topic.name: CreatePartitionsTopicResult(
            name=topic.name,
            error_code=code_of(by_name[topic.name]),
            error_message=message_of(by_name[topic.name]),
        )
        for topic in request.topics
    }
    return CreatePartitionsResponse(throttle_time=NO_THROTTLE, results=tuple(answers.values()))


def _partitions_to_create(wanted: NewPartitions, ctx: RequestContext) -> int:
    topic = ctx.services.cluster.image.topics.get(wanted.name)
    return 0 if topic is None else max(0, wanted.count - len(topic.partitions))


def _wanted(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = topic.assignments
    if assignments is None:
        return NewPartitions(topic.name, topic.count)
    return NewPartitions(topic.name, topic.count, tuple(tuple(each.broker_ids) for each in assignments))
