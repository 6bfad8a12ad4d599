"""Configs of topics and brokers.

Changes are repeated like questions: until the controller answers, for `default_api_timeout_ms`. If an answer
was lost, the change may have been made all the same, and the next attempt finds it made: see `_change`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import TypeVar

from kio.schema.describe_configs.v4 import DescribeConfigsRequest, DescribeConfigsResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResourceResult
from kio.schema.incremental_alter_configs.v1 import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource

from ottla.client.cluster import Cluster
from ottla.client.errors import BrokerUnreachable, ConnectionLost, raise_for
from ottla.common.units import HOUR_MS, MINUTE_MS
from ottla.protocol.types import i8
from ottla.wire.connection import Connection

_TOPIC, _BROKER = i8(2), i8(4)
_SET, _DELETE = i8(0), i8(1)
_TOPICS_PER_REQUEST = 500
_SET_BY_HAND = (1, 2)
_UNITS_MS = {"hours": HOUR_MS, "minutes": MINUTE_MS}

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
    """One config; `value` is None if it is secret."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None
    default: str | None = None
    """What it would be without the value that was set for it; asked for together with the documentation."""


class ConfigAdmin:
    """Asks for configs, and for changes to them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def topic_configs(self, name: str, *, documentation: bool = False) -> list[ConfigEntry]:
        """Return every config of a topic, defaults included, sorted by name."""
        return await self._configs(self.cluster.any_broker, _TOPIC, name, documentation)

    async def broker_configs(
        self, node_id: int | None = None, *, documentation: bool = False
    ) -> list[ConfigEntry]:
        """Return every config of a broker, or (None) the dynamic cluster-wide defaults."""
        if node_id is None:
            return await self._configs(self.cluster.any_broker, _BROKER, "", documentation)
        connect = partial(self.cluster.broker, node_id)
        return await self._configs(connect, _BROKER, str(node_id), documentation)

    async def topics_config(self, key: str, topics: Sequence[str]) -> dict[str, str]:
        """Return one config of many topics, without topics that do not exist."""
        found: dict[str, str] = {}
        for first in range(0, len(topics), _TOPICS_PER_REQUEST):
            request = DescribeConfigsRequest(
                resources=tuple(
                    DescribeConfigsResource(
                        resource_type=_TOPIC, resource_name=name, configuration_keys=(key,)
                    )
                    for name in topics[first : first + _TOPICS_PER_REQUEST]
                )
            )
            response = await self._describe(self.cluster.any_broker, request)
            for result in response.results:
                for entry in result.configs:
                    if entry.value is not None:
                        found[result.resource_name] = entry.value
        return found

    async def topics_overrides(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the configs that are set on the topics themselves; without values that are secret."""
        found: dict[str, dict[str, str]] = {}
        for first in range(0, len(topics), _TOPICS_PER_REQUEST):
            request = DescribeConfigsRequest(
                resources=tuple(
                    DescribeConfigsResource(resource_type=_TOPIC, resource_name=name, configuration_keys=None)
                    for name in topics[first : first + _TOPICS_PER_REQUEST]
                )
            )
            response = await self._describe(self.cluster.any_broker, request)
            for result in response.results:
                raise_for(result.error_code, result.error_message)
                found[result.resource_name] = {
                    each.name: each.value
                    for each in sorted(result.configs, key=lambda entry: entry.name)
                    if each.value is not None and _source(each.config_source) is ConfigSource.TOPIC
                }
        return found

    async def alter_topic_configs(
        self,
        name: str,
        *,
        set_to: Mapping[str, str] | None = None,
        unset: Sequence[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set some configs of a topic and reset others to their defaults; leave the rest unchanged."""
        await self._alter_configs(_TOPIC, name, set_to or {}, unset, validate_only)

    async def alter_broker_configs(
        self,
        node_id: int | None = None,
        *,
        set_to: Mapping[str, str] | None = None,
        unset: Sequence[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set dynamic configs of one broker, or (None) of all; reset others to their defaults."""
        name = "" if node_id is None else str(node_id)
        await self._alter_configs(_BROKER, name, set_to or {}, unset, validate_only)

    async def _configs(
        self, connect: Callable[[], Awaitable[Connection]], resource_type: i8, name: str, documentation: bool
    ) -> list[ConfigEntry]:
        resource = DescribeConfigsResource(
            resource_type=resource_type, resource_name=name, configuration_keys=None
        )
        request = DescribeConfigsRequest(
            resources=(resource,), include_documentation=documentation, include_synonyms=documentation
        )
        response = await self._describe(connect, request)
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
                default=_default(each),
            )
            for each in result.configs
        ]
        return sorted(entries, key=lambda entry: entry.name)

    async def _alter_configs(
        self,
        resource_type: i8,
        name: str,
        set_to: Mapping[str, str],
        unset: Sequence[str],
        validate_only: bool,
    ) -> None:
        changes = [
            AlterableConfig(name=key, config_operation=_SET, value=value) for key, value in set_to.items()
        ]
        changes += [AlterableConfig(name=key, config_operation=_DELETE, value=None) for key in unset]
        resource = AlterConfigsResource(
            resource_type=resource_type, resource_name=name, configs=tuple(changes)
        )
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)

        async def attempt(_: bool) -> None:
            connection = await self._one_who_alters(resource_type, name)
            response = await connection.request(request, IncrementalAlterConfigsResponse)
            raise_for(response.responses[0].error_code, response.responses[0].error_message)

        await self._change(attempt, "the configs were not changed")

    async def _one_who_alters(self, resource_type: i8, name: str) -> Connection:
        """Return the connection for a change: a broker checks its own configs, also in Apache Kafka."""
        if resource_type == _BROKER and name and int(name) in self.cluster.brokers:
            with contextlib.suppress(BrokerUnreachable):
                return await self.cluster.broker(int(name))
        return await self.cluster.controller()

    async def _describe(
        self, connect: Callable[[], Awaitable[Connection]], request: DescribeConfigsRequest
    ) -> DescribeConfigsResponse:
        async def attempt() -> DescribeConfigsResponse:
            return await (await connect()).request(request, DescribeConfigsResponse)

        return await self.cluster.retrying(attempt, what="the configs could not be described")

    async def _change(self, attempt: Callable[[bool], Awaitable[Result]], what: str) -> Result:
        """Return what `attempt` returns; repeat it until the controller answers.

        It learns whether the answer to an earlier attempt was lost: then the change may be made already.
        """
        is_lost = False

        async def once() -> Result:
            nonlocal is_lost
            try:
                return await attempt(is_lost)
            except ConnectionLost:
                is_lost = True
                raise

        return await self.cluster.retrying(once, what=what)


def _default(entry: DescribeConfigsResourceResult) -> str | None:
    """Return the value of the strongest place below the one that was set by hand, in the unit of the key."""
    below = [each for each in entry.synonyms if each.source not in _SET_BY_HAND]
    if not below or below[0].value is None:
        return None
    name, value = below[0].name, below[0].value
    unit_ms = _UNITS_MS.get(name.rpartition(".")[2])
    if entry.name.endswith(".ms") and unit_ms is not None and value.isdigit():
        return str(int(value) * unit_ms)
    return value


def _source(number: int) -> ConfigSource:
    return ConfigSource(number) if number in ConfigSource._value2member_map_ else ConfigSource.UNKNOWN
