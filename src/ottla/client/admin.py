"""Topics, partitions and configs: what an operator changes.

Changes are asked for once. If the connection breaks before the answer, the caller is told so,
rather than the change being sent again: the second answer would be about the first attempt.
Only NotController is retried, because the broker that answers it has done nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from kio.schema.create_partitions.v3 import CreatePartitionsRequest, CreatePartitionsResponse
from kio.schema.create_partitions.v3.request import CreatePartitionsTopic
from kio.schema.create_topics.v7 import CreateTopicsRequest, CreateTopicsResponse
from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig
from kio.schema.delete_topics.v5 import DeleteTopicsRequest, DeleteTopicsResponse
from kio.schema.describe_configs.v4 import DescribeConfigsRequest, DescribeConfigsResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1 import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource

from ottla.client.cluster import Cluster, TopicInfo
from ottla.client.connection import milliseconds
from ottla.client.errors import raise_for
from ottla.client.offsets import offset_ranges
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import NotController
from ottla.protocol.types import TopicName, i8, i16, i32

_TIMEOUT = milliseconds(30_000)  # what the controller may take
_PATIENCE_MS = 35_000  # and what we wait for its word
_TOPIC = i8(2)
_SET, _DELETE = i8(0), i8(1)

Result = TypeVar("Result")


class ConfigSource(IntEnum):
    """Where the value of a config comes from."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config of a topic; `value` is None if it is secret."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as the broker made it; counts are -1 where an old broker does not say."""

    name: str
    topic_id: uuid.UUID | None
    partition_count: int
    replication_factor: int


class Admin:
    """Asks the cluster for changes and for descriptions."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def list_topics(self) -> dict[str, TopicInfo]:
        """Return every topic by name, internal ones included."""
        topics = await self.cluster.retrying(lambda: self.cluster.refresh(None))
        return dict(sorted(topics.items()))

    async def describe_topics(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """Return the topics of these names; raise UnknownTopicOrPartition if there is no such topic."""
        topics = await self.cluster.retrying(lambda: self.cluster.refresh(names))
        return {name: topics[name] for name in names}

    async def offset_ranges(self, topic: TopicInfo) -> dict[int, tuple[int, int]]:
        """Return the first and the end offset of each partition of a topic that has a leader."""
        led = [
            TopicPartition(topic.name, each.index) for each in topic.partitions.values() if each.leader >= 0
        ]
        ranges = await offset_ranges(self.cluster, led)
        return {each.partition: found for each, found in ranges.items()}

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create a topic; -1 leaves a count to the broker's configuration."""
        topic = CreatableTopic(
            name=TopicName(name),
            num_partitions=i32(partitions),
            replication_factor=i16(replication_factor),
            assignments=(),
            configs=tuple(
                CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
            ),
        )
        request = CreateTopicsRequest(topics=(topic,), timeout=_TIMEOUT, validate_only=validate_only)

        async def attempt() -> CreatedTopic:
            connection = await self.cluster.controller()
            response = await connection.request(request, CreateTopicsResponse, timeout_ms=_PATIENCE_MS)
            result = response.topics[0]
            raise_for(result.error_code, result.error_message)
            return CreatedTopic(name, result.topic_id, result.num_partitions, result.replication_factor)

        return await self._change(attempt)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and everything in it."""
        request = DeleteTopicsRequest(topic_names=(TopicName(name),), timeout=_TIMEOUT)

        async def attempt() -> None:
            connection = await self.cluster.controller()
            response = await connection.request(request, DeleteTopicsResponse, timeout_ms=_PATIENCE_MS)
            raise_for(response.responses[0].error_code, response.responses[0].error_message)

        await self._change(attempt)
        self.cluster.forget(name)

    async def create_partitions(self, name: str, total: int, *, validate_only: bool = False) -> None:
        """Grow a topic to `total` partitions."""
        topic = CreatePartitionsTopic(name=TopicName(name), count=i32(total), assignments=None)
        request = CreatePartitionsRequest(topics=(topic,), timeout=_TIMEOUT, validate_only=validate_only)

        async def attempt() -> None:
            connection = await self.cluster.controller()
            response = await connection.request(request, CreatePartitionsResponse, timeout_ms=_PATIENCE_MS)
            raise_for(response.results[0].error_code, response.results[0].error_message)

        await self._change(attempt)
        self.cluster.forget(name)

    async def topic_configs(self, name: str, *, documentation: bool = False) -> list[ConfigEntry]:
        """Return every config of a topic, defaults included, sorted by name."""
        resource = DescribeConfigsResource(resource_type=_TOPIC, resource_name=name, configuration_keys=None)
        request = DescribeConfigsRequest(resources=(resource,), include_documentation=documentation)
        connection = await self.cluster.any_broker()
        response = await connection.request(request, DescribeConfigsResponse, timeout_ms=_PATIENCE_MS)
        result = response.results[0]
        raise_for(result.error_code, result.error_message)
        entries = [
            ConfigEntry(
                name=each.name,
                value=each.value,
                source=_source(each.config_source),
                is_read_only=each.read_only,
                is_sensitive=each.is_sensitive,
                documentation=each.documentation,
            )
            for each in result.configs
        ]
        return sorted(entries, key=lambda entry: entry.name)

    async def alter_topic_configs(
        self,
        name: str,
        *,
        set_to: Mapping[str, str] | None = None,
        unset: Sequence[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set some configs of a topic and put others back to their defaults; leave the rest alone."""
        changes = [
            AlterableConfig(name=key, config_operation=_SET, value=value)
            for key, value in (set_to or {}).items()
        ]
        changes += [AlterableConfig(name=key, config_operation=_DELETE, value=None) for key in unset]
        resource = AlterConfigsResource(resource_type=_TOPIC, resource_name=name, configs=tuple(changes))
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)

        async def attempt() -> None:
            connection = await self.cluster.controller()
            response = await connection.request(
                request, IncrementalAlterConfigsResponse, timeout_ms=_PATIENCE_MS
            )
            raise_for(response.responses[0].error_code, response.responses[0].error_message)

        await self._change(attempt)

    async def _change(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        try:
            return await attempt()
        except NotController:
            await self.cluster.refresh([])
            return await attempt()


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in ConfigSource._value2member_map_ else ConfigSource.UNKNOWN
