"""DescribeConfigs: configs of topics, brokers, groups and client metrics, with the source of each value.

v1 adds the source and, on request, the synonyms of each config; v2 announces throttling; v3 adds types and
documentation; v4 is flexible. The broker named "" stands for the cluster-wide defaults of all brokers. A
client may ask for thousands of topics at once, so the response is encoded in parts, between which the event
loop runs. Every part is encoded as a response of its own with some of the elements; the common prefix and
suffix are cut off, and the elements are joined:

    int32 throttle time, array length (int32, or a varint of length + 1 if flexible), elements,
    tagged fields (one byte, if flexible)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from struct import Struct
from typing import Any, cast

from kio.schema.describe_configs.v4 import DescribeConfigsRequest, DescribeConfigsResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsResource
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kio.schema.errors import ErrorCode

from ottla.api.support.authorization import config_refusal
from ottla.api.support.context import RequestContext
from ottla.api.table import Reply
from ottla.common.config.declaration import ConfigEntry
from ottla.common.config.group_keys import ClientMetricsConfig, GroupConfig
from ottla.common.config.topic import TopicConfig
from ottla.controller.machine.topics import check_topic_name
from ottla.metadata.records import ConfigResource
from ottla.protocol.errors import (
    InvalidRequest,
    KafkaError,
    UnknownTopicOrPartition,
)
from ottla.protocol.frames import encode_frame, encode_response_header
from ottla.protocol.primitives import encode_uvarint
from ottla.protocol.schema.messages import request_decoder, response_class, response_encoder
from ottla.protocol.types import NO_THROTTLE, i8

_INT32 = Struct(">i")
_THROTTLE_BYTES = 4


async def encode_in_parts(
    ctx: RequestContext, as_version: int, parts: AsyncIterator[tuple[int, Any]]
) -> bytes:
    """Return the frame of one response; a part is the number of its elements and a response."""
    encode = response_encoder(ctx.api_key, ctx.version, as_version)
    flexible: bool = response_class(ctx.api_key, ctx.version).__flexible__
    elements: list[bytes] = []
    total = 0
    async for count, response in parts:
        body = encode(response)
        length = _array_length(count, flexible)
        end = len(body) - 1 if flexible else len(body)
        elements.append(body[_THROTTLE_BYTES + len(length) : end])
        total += count
    header = encode_response_header(ctx.api_key, ctx.version, ctx.correlation_id)
    body = b"".join((bytes(_THROTTLE_BYTES), _array_length(total, flexible), *elements, b"\0" * flexible))
    return encode_frame(header, body)


def _array_length(count: int, flexible: bool) -> bytes:
    return encode_uvarint(count + 1) if flexible else _INT32.pack(count)


NEWEST = 4
RESOURCES_PER_PART = 50


async def describe_configs(frame: memoryview, position: int, ctx: RequestContext) -> Reply:
    """Describe the configs of each requested resource."""
    request: DescribeConfigsRequest = request_decoder(ctx.api_key, ctx.version, NEWEST)(frame, position)
    answer = await encode_in_parts(ctx, NEWEST, _parts(request, ctx))
    quotas = ctx.services.quotas
    return answer if quotas is None else cast(bytes, quotas.throttled(ctx, answer))


async def _parts(
    request: DescribeConfigsRequest, ctx: RequestContext
) -> AsyncIterator[tuple[int, DescribeConfigsResponse]]:
    description = _Description(request, ctx)
    # A resource that is named twice is answered once: repetition must not inflate the response.
    resources = list(dict.fromkeys(request.resources))
    for start in range(0, len(resources), RESOURCES_PER_PART):
        results = tuple(description.of(each) for each in resources[start : start + RESOURCES_PER_PART])
        yield len(results), DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=results)
        await asyncio.sleep(0)


class _Description:
    """The description of one request's resources."""

    def __init__(self, request: DescribeConfigsRequest, ctx: RequestContext) -> None:
        self._ctx = ctx
        self._with_synonyms = request.include_synonyms
        self._with_documentation = request.include_documentation
        self._node_id = ctx.services.node_id
        self._config = ctx.services.config
        self._image = ctx.services.cluster.image
        self._defaults: list[ConfigEntry] | None = None  # of a topic without overrides: most topics

    def of(self, resource: DescribeConfigsResource) -> DescribeConfigsResult:
        """Describe one resource, or return its error."""
        code, message = ErrorCode.none, None
        configs: tuple[DescribeConfigsResourceResult, ...] = ()
        try:
            if (
                refused := config_refusal(self._ctx, resource.resource_type, resource.resource_name)
            ) is not None:
                raise refused
            entries = self._entries(resource.resource_type, resource.resource_name)
            configs = self._wanted(entries, resource.configuration_keys)
        except KafkaError as error:
            code, message = error.code, error.message
        return DescribeConfigsResult(
            error_code=code,
            error_message=message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=configs,
        )

    def _entries(self, resource_type: int, name: str) -> list[ConfigEntry]:
        match resource_type:
            case ConfigResource.TOPIC:
                return self._topic_entries(name)
            case ConfigResource.BROKER if not name:
                # Without this broker's own settings, which would hide the cluster-wide ones.
                cluster = self._config.with_dynamic({}, self._image.broker_overrides())
                return cluster.describe_cluster_defaults()
            case ConfigResource.BROKER if name == str(self._node_id):
                return self._config.describe()
            case ConfigResource.BROKER:
                raise InvalidRequest(f"this is broker {self._node_id}: send the request to broker {name!r}")
            case ConfigResource.GROUP | ConfigResource.CLIENT_METRICS if not name:
                raise InvalidRequest("the resource name must not be empty")
            case ConfigResource.GROUP:
                return GroupConfig(self._image.group_overrides(name), self._config).describe()
            case ConfigResource.CLIENT_METRICS:
                return ClientMetricsConfig(self._image.client_metrics_overrides(name)).describe()
            case ConfigResource.BROKER_LOGGER:
                raise InvalidRequest("log levels cannot be read over the protocol")
        raise InvalidRequest(f"resources of type {resource_type} have no configs")

    def _topic_entries(self, name: str) -> list[ConfigEntry]:
        if name not in self._image.topics:
            check_topic_name(name)
            raise UnknownTopicOrPartition(f"unknown topic {name!r}")
        if overrides := self._image.topic_overrides(name):
            return TopicConfig(overrides, self._config).describe()
        if self._defaults is None:
            self._defaults = TopicConfig({}, self._config).describe()
        return self._defaults

    def _wanted(
        self, entries: Sequence[ConfigEntry], keys: tuple[str, ...] | None
    ) -> tuple[DescribeConfigsResourceResult, ...]:
        wanted = frozenset(keys or ())
        return tuple(self._result(each) for each in entries if not wanted or each.name in wanted)

    def _result(self, entry: ConfigEntry) -> DescribeConfigsResourceResult:
        synonyms: tuple[DescribeConfigsSynonym, ...] = ()
        if self._with_synonyms:
            synonyms = tuple(
                DescribeConfigsSynonym(name=each.name, value=each.value, source=i8(each.source))
                for each in entry.synonyms
            )
        return DescribeConfigsResourceResult(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=i8(entry.source),
            is_sensitive=entry.sensitive,
            synonyms=synonyms,
            config_type=i8(entry.type_code),
            documentation=entry.documentation if self._with_documentation else None,
        )
