"""Decisions about configs: of topics, groups and client metrics, of one broker, of all brokers (named "").

The errors are Kafka's: a bad config is INVALID_CONFIG, but INVALID_REQUEST for a broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ottla.common.config.broker import BrokerConfig, check_dynamic_broker_config
from ottla.common.config.declaration import Config, ConfigError
from ottla.common.config.group_keys import ClientMetricsConfig, GroupConfig
from ottla.common.config.topic import TopicConfig
from ottla.common.config.types import LIST
from ottla.controller.machine.requests import ConfigAlteration, ConfigChange, ConfigOperation, Decision
from ottla.metadata.image import ClusterImage
from ottla.metadata.records import ConfigChanged, ConfigResource, MetadataRecord
from ottla.protocol.errors import InvalidConfig, InvalidRequest, KafkaError, UnknownTopicOrPartition

T = TypeVar("T")

_KEYS: Mapping[int, type[Config]] = {
    ConfigResource.TOPIC: TopicConfig,
    ConfigResource.BROKER: BrokerConfig,
    ConfigResource.GROUP: GroupConfig,
    ConfigResource.CLIENT_METRICS: ClientMetricsConfig,
}
_NAMED_FREELY = frozenset({ConfigResource.GROUP, ConfigResource.CLIENT_METRICS})
"""Resources that need not exist to have configs."""


def check_topic_configs(configs: Sequence[tuple[str, str | None]], broker: BrokerConfig) -> dict[str, str]:
    """Return the configs of a new topic, or raise InvalidConfig."""
    values = {key: value for key, value in configs if value is not None}
    if len(values) != len(configs):
        counts = Counter(key for key, _ in configs)
        bad = next((key for key, value in configs if value is None or counts[key] > 1), "")
        raise InvalidConfig(f"{bad}: needs a value, and only one")
    try:
        TopicConfig.checked(values, broker)
    except ConfigError as error:
        raise InvalidConfig(str(error)) from error
    return values


def check_alterations(alterations: Sequence[ConfigAlteration]) -> list[KafkaError | None]:
    """Return the errors of a request as a whole, one for each resource: named more than once."""
    times = Counter((each.resource_type, each.resource_name) for each in alterations)
    twice = InvalidRequest("the request names this resource more than once")
    return [twice if times[each.resource_type, each.resource_name] > 1 else None for each in alterations]


def alter_configs(
    image: ClusterImage, alterations: Sequence[ConfigAlteration], config: BrokerConfig
) -> Decision[None]:
    """Change some configs of each resource and keep the others (IncrementalAlterConfigs)."""
    return _decide(image, alterations, config, replacing=False)


def replace_configs(
    image: ClusterImage, alterations: Sequence[ConfigAlteration], config: BrokerConfig
) -> Decision[None]:
    """Set exactly these configs of each resource and reset all others (AlterConfigs)."""
    return _decide(image, alterations, config, replacing=True)


def altered_broker_config(
    image: ClusterImage, alteration: ConfigAlteration, config: BrokerConfig, *, replacing: bool
) -> BrokerConfig:
    """Return what the configuration of the broker with `config` would be, or raise the error."""
    resource = _Resource(image, alteration, config)
    after = resource.after(alteration.changes, replacing=replacing)
    resource.check(after)
    return config.with_dynamic(after, image.broker_overrides())


def _decide(
    image: ClusterImage, alterations: Sequence[ConfigAlteration], config: BrokerConfig, *, replacing: bool
) -> Decision[None]:
    records: list[MetadataRecord] = []
    results: list[KafkaError | None] = []
    for each in alterations:
        try:
            resource = _Resource(image, each, config)
            before = resource.overrides
            after = resource.after(each.changes, replacing=replacing)
            resource.check(after)
        except KafkaError as error:
            results.append(error)
        else:
            records.extend(_differences(each.resource_type, resource.name, before, after))
            results.append(None)
    return Decision(tuple(records), tuple(results))


def _differences(
    resource_type: int, name: str, before: Mapping[str, str], after: Mapping[str, str]
) -> list[ConfigChanged]:
    keys = sorted(before.keys() | after.keys())
    changed = [key for key in keys if before.get(key) != after.get(key)]
    return [ConfigChanged(resource_type, name, key, after.get(key)) for key in changed]


class _Resource:
    """One resource whose configs are to change."""

    def __init__(self, image: ClusterImage, alteration: ConfigAlteration, config: BrokerConfig) -> None:
        self._image = image
        self._config = config
        self._type = alteration.resource_type
        self._is_topic = alteration.resource_type == ConfigResource.TOPIC
        self.name = alteration.resource_name
        if self._is_topic:
            if self.name not in image.topics:
                raise UnknownTopicOrPartition(f"there is no topic {self.name!r}")
            self.overrides = image.topic_overrides(self.name)
        elif alteration.resource_type == ConfigResource.BROKER:
            self.name = self._broker_name()
            self.overrides = image.broker_overrides(self.name)
        elif alteration.resource_type in _NAMED_FREELY:
            if not self.name:
                raise InvalidRequest("the name must not be empty")
            self.overrides = image.configs.get((ConfigResource(self._type), self.name), {})
        elif alteration.resource_type == ConfigResource.BROKER_LOGGER:
            raise InvalidRequest("Ottla's log levels cannot be changed over the protocol")
        else:
            raise InvalidRequest(f"resources of type {alteration.resource_type} have no configs here")

    def _broker_name(self) -> str:
        if not self.name:
            return ""
        if not (self.name.isascii() and self.name.isdecimal()) or int(self.name) not in self._image.brokers:
            known = ", ".join(map(str, sorted(self._image.brokers)))
            raise InvalidRequest(f"there is no broker {self.name!r}; the brokers are {known}")
        return str(int(self.name))

    def after(self, changes: Sequence[ConfigChange], *, replacing: bool) -> dict[str, str]:
        """Return the overrides after the changes."""
        counts = Counter(change.key for change in changes)
        if twice := [key for key, count in counts.items() if count > 1]:
            raise InvalidRequest(f"{twice[0]}: the request names this key more than once")
        values = {} if replacing else dict(self.overrides)
        for change in changes:
            self._apply(change, values)
        return values

    def _apply(self, change: ConfigChange, values: dict[str, str]) -> None:
        if change.operation == ConfigOperation.DELETE:
            # Also of keys that are unknown or not set: Kafka's tools reset throttles that Ottla has not.
            values.pop(change.key, None)
            return
        if change.value is None:
            raise InvalidRequest(f"{change.key}: needs a value; to reset it, delete it")
        if change.operation == ConfigOperation.SET:
            values[change.key] = change.value
        elif change.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            values[change.key] = self._edited_list(change, change.value, values)
        else:
            raise InvalidRequest(f"{change.key}: there is no config operation {change.operation}")

    def _edited_list(self, change: ConfigChange, value: str, values: Mapping[str, str]) -> str:
        key = self._translate_errors(lambda: self._keys.key(change.key))
        if key.kind is not LIST:
            verb = "append to" if change.operation == ConfigOperation.APPEND else "subtract from"
            raise InvalidConfig(f"{key.name}: is a {key.kind.name}; one can only {verb} a list")
        text = values.get(key.name)
        if text is None:
            effective = self._effective({})
            current = tuple(getattr(effective, key.attribute) or ())
        else:
            current = LIST.parse(text)
        edited = LIST.parse(value)
        if change.operation == ConfigOperation.SUBTRACT:
            return LIST.write(tuple(item for item in current if item not in edited))
        return LIST.write((*current, *(item for item in dict.fromkeys(edited) if item not in current)))

    def check(self, values: Mapping[str, str]) -> None:
        """Raise the error for invalid overrides."""
        self._translate_errors(lambda: self._check(values))

    def _check(self, values: Mapping[str, str]) -> None:
        if self._type == ConfigResource.GROUP:
            GroupConfig.checked(values, self._config)
            return
        if self._type == ConfigResource.CLIENT_METRICS:
            ClientMetricsConfig(values)
            return
        if self._is_topic:
            TopicConfig.checked(values, self._config)
            return
        check_dynamic_broker_config(values, per_broker=bool(self.name))
        own = self._image.broker_overrides(self._config.node_id)
        if not self.name:
            self._config.with_dynamic(own, values)
        elif self.name == str(self._config.node_id):
            self._config.with_dynamic(values, self._image.broker_overrides())

    @property
    def _keys(self) -> type[Config]:
        return _KEYS[self._type]

    def _effective(self, values: Mapping[str, str]) -> Config:
        match self._type:
            case ConfigResource.TOPIC:
                return TopicConfig(values, self._config)
            case ConfigResource.GROUP:
                return GroupConfig(values, self._config)
            case ConfigResource.CLIENT_METRICS:
                return ClientMetricsConfig(values)
        return self._config

    def _translate_errors(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except ConfigError as error:
            is_request = self._type == ConfigResource.BROKER or (
                self._type == ConfigResource.CLIENT_METRICS and error.key != "match"
            )
            raise (InvalidRequest if is_request else InvalidConfig)(str(error)) from error
