"""DeleteTopics: delete topics with their records.

v3 announces TOPIC_DELETION_DISABLED, which older clients get as INVALID_REQUEST; v4 is flexible; v5 adds
error messages; v6 names topics by id as well, and answers with names and ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.delete_topics.v5 import DeleteTopicsRequest as DeleteByNameRequest
from kio.schema.delete_topics.v5 import DeleteTopicsResponse as DeleteByNameResponse
from kio.schema.delete_topics.v5.response import DeletableTopicResult as DeletedByName
from kio.schema.delete_topics.v6 import DeleteTopicsRequest, DeleteTopicsResponse
from kio.schema.delete_topics.v6.response import DeletableTopicResult

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import deny, may
from ottla.api.support.client_quotas import within_mutation_quota
from ottla.api.support.context import RequestContext
from ottla.api.support.results import code_of, message_of, milliseconds
from ottla.controller.machine import TopicSelector, find_topic
from ottla.metadata.image import TopicImage
from ottla.protocol.errors import InvalidRequest, KafkaError, TopicDeletionDisabled
from ottla.protocol.types import NO_THROTTLE, TopicName
from ottla.security.acls import Operation, ResourceType

FIRST_WITH_DELETION_DISABLED = 3
FIRST_WITH_STRICT_QUOTA = 5
Result = TopicImage | KafkaError


async def delete_topics_by_name(request: DeleteByNameRequest, ctx: RequestContext) -> DeleteByNameResponse:
    """Delete the topics; return one result per topic."""
    selectors = [TopicSelector(name=name) for name in request.topic_names]
    results = await _delete(selectors, milliseconds(request.timeout), ctx)
    answers = {
        name: DeletedByName(name=name, error_code=code_of(result), error_message=message_of(result))
        for name, result in zip(request.topic_names, results, strict=True)
    }
    return DeleteByNameResponse(throttle_time=NO_THROTTLE, responses=tuple(answers.values()))


async def delete_topics(request: DeleteTopicsRequest, ctx: RequestContext) -> DeleteTopicsResponse:
    """Delete the topics; return one result per topic."""
    selectors = [TopicSelector(each.name, each.topic_id) for each in request.topics]
    results = await _delete(selectors, milliseconds(request.timeout), ctx)
    answers = {
        selector: _answer(selector, result) for selector, result in zip(selectors, results, strict=True)
    }
    return DeleteTopicsResponse(throttle_time=NO_THROTTLE, responses=tuple(answers.values()))


async def _delete(selectors: Sequence[TopicSelector], timeout_ms: int, ctx: RequestContext) -> list[Result]:
    image = ctx.services.cluster.image

    def partitions_to_delete(selector: TopicSelector) -> int:
        topic = find_topic(image, selector)
        return 0 if topic is None else len(topic.partitions)

    refused = [_refusal(each, ctx) for each in selectors]
    allowed = [each for each, error in zip(selectors, refused, strict=True) if error is None]
    active_controller = ctx.services.controller.active_controller
    outcomes = await within_mutation_quota(
        ctx,
        allowed,
        partitions_to_delete,
        lambda these: active_controller.delete_topics(these, timeout_ms=timeout_ms),
        FIRST_WITH_STRICT_QUOTA,
    )
    for each, outcome in zip(allowed, outcomes, strict=True):
        topic = each if isinstance(outcome, KafkaError) else outcome
        audit_change(ctx, ResourceType.TOPIC, topic.name or str(topic.topic_id), outcome)
    deleted = iter(outcomes)
    results = [next(deleted) if error is None else error for error in refused]
    if ctx.version < FIRST_WITH_DELETION_DISABLED:
        return [
            InvalidRequest(str(each)) if isinstance(each, TopicDeletionDisabled) else each for each in results
        ]
    return results


def _refusal(selector: TopicSelector, ctx: RequestContext) -> KafkaError | None:
    """Return the error of a topic that the client may not delete; an unknown id has no name to check."""
    name = selector.name
    if selector.topic_id is not None:
        name = ctx.services.cluster.image.names_by_id.get(selector.topic_id)
    if name is None:
        return None
    may_describe = may(ctx, ResourceType.TOPIC, name, Operation.DESCRIBE)
    if may_describe and may(ctx, ResourceType.TOPIC, name):
        return None
    return deny(ctx, ResourceType.TOPIC, name, is_named=selector.name is not None or may_describe)


def _answer(selector: TopicSelector, result: Result) -> DeletableTopicResult:
    topic = selector if isinstance(result, KafkaError) else result
    return DeletableTopicResult(
        name=None if topic.name is None else TopicName(topic.name),
        topic_id=topic.topic_id,
        error_code=code_of(result),
        error_message=message_of(result),
    )
