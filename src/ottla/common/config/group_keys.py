"""The configuration of a group, and of a subscription to client metrics.

A group's keys have a broker key as their default and its limits (`consumer.session.timeout.ms` <-
`group.consumer.session.timeout.ms`). Subscriptions to client metrics are kept for Kafka's tools; no broker
collects such metrics.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import Config, ConfigEntry, ConfigError, ConfigSource, Key, Synonym
from ottla.common.config.types import INT, LIST, Check, between
from ottla.common.units import HOUR_MS, MINUTE_MS

_SESSION = BrokerConfig.group_consumer_session_timeout_ms
_HEARTBEAT = BrokerConfig.group_consumer_heartbeat_interval_ms
_MATCHES = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


class _Overrides(Config):
    """Settings of one resource over defaults."""

    overrides: Mapping[str, str]
    SOURCE: ConfigSource

    def describe(self) -> list[ConfigEntry]:
        """Return the entries of DescribeConfigs for the resource."""
        return [self._entry(key) for key in self.KEYS.values()]

    @abstractmethod
    def _defaults(self, key: Key[Any]) -> tuple[Synonym, ...]:
        """Return what a key falls back to."""

    def _entry(self, key: Key[Any]) -> ConfigEntry:
        text = self.overrides.get(key.name)
        own = () if text is None else (Synonym(key.name, text, self.SOURCE),)
        synonyms = (*own, *self._defaults(key))
        return ConfigEntry(
            name=key.name,
            value=key.write(getattr(self, key.attribute)),
            source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
            read_only=False,
            sensitive=False,
            type_code=key.kind.code,
            documentation=key.doc,
            synonyms=synonyms,
        )


class GroupConfig(_Overrides):
    """All of a group's values."""

    LEVEL = "group"
    UNKNOWN = "Unknown group config name"
    SOURCE = ConfigSource.DYNAMIC_GROUP_CONFIG

    consumer_session_timeout_ms = Key(
        "consumer.session.timeout.ms", INT, _SESSION.default, _SESSION.doc, check=_SESSION.check
    )
    consumer_heartbeat_interval_ms = Key(
        "consumer.heartbeat.interval.ms", INT, _HEARTBEAT.default, _HEARTBEAT.doc, check=_HEARTBEAT.check
    )

    broker: BrokerConfig

    def __init__(self, overrides: Mapping[str, str], broker: BrokerConfig) -> None:
        defaults = {
            "consumer_session_timeout_ms": broker.group_consumer_session_timeout_ms,
            "consumer_heartbeat_interval_ms": broker.group_consumer_heartbeat_interval_ms,
        }
        known = {name: text for name, text in overrides.items() if name in self.KEYS}
        vars(self).update(defaults, overrides=known, broker=broker, **self.parse(known))

    @classmethod
    def of(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> GroupConfig:
        """Return the configuration of a group; most have no settings of their own, and share one."""
        return cls(overrides, broker) if overrides else _plain(broker)

    @classmethod
    def checked(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> GroupConfig:
        """Return the configuration; raise ConfigError for keys and values that will not do."""
        for name in overrides:
            cls.key(name)
        config = cls(overrides, broker)
        limits = {
            "consumer.session.timeout.ms": (
                broker.group_consumer_min_session_timeout_ms,
                broker.group_consumer_max_session_timeout_ms,
            ),
            "consumer.heartbeat.interval.ms": (
                broker.group_consumer_min_heartbeat_interval_ms,
                broker.group_consumer_max_heartbeat_interval_ms,
            ),
        }
        for name, (smallest, largest) in limits.items():
            value = getattr(config, cls.KEYS[name].attribute)
            if name in overrides and not smallest <= value <= largest:
                raise ConfigError(name, f"must be between {smallest} and {largest}, the broker's limits")
        if config.consumer_heartbeat_interval_ms >= config.consumer_session_timeout_ms:
            raise ConfigError(
                "consumer.heartbeat.interval.ms", "must be less than consumer.session.timeout.ms"
            )
        return config

    def _defaults(self, key: Key[Any]) -> tuple[Synonym, ...]:
        is_session = key.name == "consumer.session.timeout.ms"
        return tuple(self.broker.synonyms((_SESSION if is_session else _HEARTBEAT,)))


@lru_cache(maxsize=4)
def _plain(broker: BrokerConfig) -> GroupConfig:
    return GroupConfig({}, broker)


class ClientMetricsConfig(_Overrides):
    """A subscription to the metrics of clients."""

    LEVEL = "client metrics"
    UNKNOWN = "Unknown client metrics configuration"
    SOURCE = ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG

    interval_ms = Key(
        "interval.ms",
        INT,
        5 * MINUTE_MS,
        "How often clients push their metrics.",
        check=between(100, HOUR_MS),
    )
    match = Key(
        "match",
        LIST,
        (),
        "Which clients are meant: `SELECTOR=PATTERN`, several with commas.",
        check=Check(
            f"pairs of one of {', '.join(_MATCHES)} and a pattern, with = between",
            lambda pairs: all("=" in each and each.partition("=")[0] in _MATCHES for each in pairs),
        ),
    )
    metrics = Key("metrics", LIST, (), "The metrics, by prefixes of their names; `*` stands for all.")

    def __init__(self, overrides: Mapping[str, str]) -> None:
        defaults = {key.attribute: key.default for key in self.KEYS.values()}
        vars(self).update(defaults, overrides=dict(overrides), **self.parse(overrides))

    def _defaults(self, key: Key[Any]) -> tuple[Synonym, ...]:
        return ()  # as in Kafka: a subscription has no level above it
