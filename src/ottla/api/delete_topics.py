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

from ottla.api.support.context import RequestContext
from ottla.api.support.results import code_of, message_of, milliseconds
from ottla.controller.machine import TopicSelector
from ottla.metadata.image import TopicImage
from ottla.protocol.errors import InvalidRequest, KafkaError, TopicDeletionDisabled
from ottla.protocol.types import NO_THROTTLE, TopicName

FIRST_WITH_DELETION_DISABLED = 3
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
    results = await ctx.services.controller.active_controller.delete_topics(selectors, timeout_ms=timeout_ms)
    if ctx.version < FIRST_WITH_DELETION_DISABLED:
        return [
            InvalidRequest(str(each)) if isinstance(each, TopicDeletionDisabled) else each for each in results
        ]
    return results


def _answer(selector: TopicSelector, result: Result) -> DeletableTopicResult:
    topic = selector if isinstance(result, KafkaError) else result
    return DeletableTopicResult(
        name=None if topic.name is None else TopicName(topic.name),
        topic_id=topic.topic_id,
        error_code=code_of(result),
        error_message=message_of(result),
    )
