"""CreateTopics: create topics, or validate the request only.

v4 lets the client leave the number of partitions and replicas to the broker (-1); v5 is flexible and returns
the partitions, replicas and configs of the new topic; v6 announces throttling; v7 adds the topic id. Every
topic of the request is answered; one that is named twice is rejected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kio.schema.create_topics.v7 import CreateTopicsRequest, CreateTopicsResponse
from kio.schema.create_topics.v7.request import CreatableTopic
from kio.schema.create_topics.v7.response import CreatableTopicConfigs, CreatableTopicResult
from kio.schema.errors import ErrorCode

from ottla.api.support.audit_log import audit_change
from ottla.api.support.authorization import may, split_allowed
from ottla.api.support.client_quotas import within_mutation_quota
from ottla.api.support.context import RequestContext
from ottla.api.support.results import milliseconds
from ottla.common.config.topic import TopicConfig
from ottla.controller.machine import NewTopic
from ottla.controller.machine.topics import default_min_insync
from ottla.metadata.image import TopicImage
from ottla.protocol.errors import KafkaError
from ottla.protocol.types import NO_THROTTLE, TopicName, i8, i16, i32
from ottla.security.acls import Operation, ResourceType

FIRST_WITH_CONFIGS = 5
FIRST_WITH_STRICT_QUOTA = 6
MAX_TOPICS_WITH_CONFIGS = 2_000
"""Larger requests get no configs back: these would be most of a large response."""

TOPICS_PER_SLICE = 50

Configs = tuple[CreatableTopicConfigs, ...]


async def create_topics(request: CreateTopicsRequest, ctx: RequestContext) -> CreateTopicsResponse:
    """Create the topics; return one result per topic."""
    # Topics with the same name share the result of the first: all of them are rejected.
    wanted = [_wanted(each) for each in request.topics]
    refused: dict[str, KafkaError] = {}
    if not may(ctx, ResourceType.CLUSTER):
        wanted, refused = split_allowed(ctx, ResourceType.TOPIC, ((each.name, each) for each in wanted))
    timeout_ms = milliseconds(request.timeout)
    results = await within_mutation_quota(
        ctx,
        wanted,
        lambda topic: _partitions_to_create(topic, ctx),
        lambda allowed: ctx.services.controller.active_controller.create_topics(
            allowed, validate_only=request.validate_only, timeout_ms=timeout_ms
        ),
        FIRST_WITH_STRICT_QUOTA,
    )
    with_configs = ctx.version >= FIRST_WITH_CONFIGS and len(wanted) <= MAX_TOPICS_WITH_CONFIGS
    described = _Described(ctx)
    topics = {name: _failure(name, error) for name, error in refused.items()}
    for number, (topic, result) in enumerate(zip(wanted, results, strict=True), 1):
        if not request.validate_only:
            audit_change(ctx, ResourceType.TOPIC, topic.name, result)
        if isinstance(result, KafkaError):
            topics[topic.name] = _failure(topic.name, result)
        else:
            missing = ErrorCode.none if with_configs else ErrorCode.policy_violation
            if not may(ctx, ResourceType.TOPIC, topic.name, Operation.DESCRIBE_CONFIGS):
                missing = ErrorCode.topic_authorization_failed
            configs = None
            if missing is ErrorCode.none:
                configs = described.configs(topic, result.replication_factor)
            topics[topic.name] = _success(result, configs, missing, is_real=not request.validate_only)
        if number % TOPICS_PER_SLICE == 0:
            await asyncio.sleep(0)
    return CreateTopicsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics.values()))


def _partitions_to_create(topic: NewTopic, ctx: RequestContext) -> int:
    """Return what the topic counts for the quota of changes: nothing if it exists."""
    if topic.name in ctx.services.cluster.image.topics:
        return 0
    count = len(topic.assignments) or topic.partition_count
    return ctx.services.config.num_partitions if count < 0 else count


def _wanted(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((each.partition_index, tuple(each.broker_ids)) for each in topic.assignments),
        tuple((each.name, each.value) for each in topic.configs),
    )


def _failure(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=TopicName(name), topic_id=None, error_code=error.code, error_message=error.message, configs=()
    )


def _success(
    topic: TopicImage, configs: Configs | None, missing: ErrorCode, *, is_real: bool
) -> CreatableTopicResult:
    """Return a created topic; `missing` says why a response has no configs."""
    is_hidden = missing is ErrorCode.topic_authorization_failed
    return CreatableTopicResult(
        name=TopicName(topic.name),
        topic_id=topic.topic_id if is_real else None,
        error_code=ErrorCode.none,
        error_message=None,
        topic_config_error_code=i16(missing.value),
        num_partitions=i32(-1 if is_hidden else len(topic.partitions)),
        replication_factor=i16(-1 if is_hidden else topic.replication_factor),
        configs=configs,
    )


class _Described:
    """The configs of new topics; topics with the same overrides share one response."""

    def __init__(self, ctx: RequestContext) -> None:
        self._config = ctx.services.config
        self._known: dict[tuple[tuple[tuple[str, str | None], ...], int], Configs] = {}

    def configs(self, topic: NewTopic, replication_factor: int) -> Configs:
        """Return all configs that are in force for a topic that was accepted."""
        known = self._known.get((topic.configs, replication_factor))
        if known is None:
            overrides = {key: value for key, value in topic.configs if value is not None}
            overrides |= default_min_insync(overrides, replication_factor, self._config)
            known = self._known[topic.configs, replication_factor] = self._describe(overrides)
        return known

    def _describe(self, overrides: Mapping[str, str]) -> Configs:
        return tuple(
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=i8(entry.source),
                is_sensitive=entry.sensitive,
            )
            for entry in TopicConfig(overrides, self._config).describe()
        )
