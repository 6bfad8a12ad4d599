"""The configuration of a topic: its own settings over the broker's defaults.

Every topic key stands for a broker key that is its default (`segment.bytes` for `log.segment.bytes`),
and takes type, check and meaning from it. Four have several broker keys, of which the first that is set
wins: `retention.ms` <- `log.retention.ms`, `log.retention.minutes`, `log.retention.hours`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import Config, ConfigEntry, ConfigError, ConfigSource, Key, Synonym
from ottla.common.config.replication_keys import THROTTLED_REPLICAS
from ottla.common.config.schema_keys import STRATEGIES, TOPIC_NAME
from ottla.common.config.types import BOOLEAN, LIST, LONG, STRING, Check, at_least, one_of, only
from ottla.common.config.unimplemented import UNIMPLEMENTED_TOPIC_KEYS
from ottla.common.units import HOUR_MS, MINUTE_MS

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class TopicKey(Key[T]):
    """A topic key and the broker keys that are its defaults, the strongest first."""

    broker_keys: tuple[tuple[Key[Any], Callable[[Any], T]], ...] = ()

    def default_from(self, broker: BrokerConfig) -> T:
        """Return the value of topics that do not set this key."""
        for key, convert in self.broker_keys:
            if (value := getattr(broker, key.attribute)) is not None:
                return convert(value)
        return self.default


def _same_as(broker_key: Key[T]) -> TopicKey[T]:
    """Return the topic key whose default is `broker_key`."""
    assert broker_key.topic is not None
    return TopicKey(
        broker_key.topic,
        broker_key.kind,
        broker_key.default,
        broker_key.doc,
        check=broker_key.check,
        broker_keys=((broker_key, lambda value: value),),
    )


def _first_of(check: Check, strongest: Key[int | None], *others: tuple[Key[Any], int]) -> TopicKey[int]:
    """Return the topic key, in milliseconds, whose default is the first of several that is set.

    Each of the others comes with its unit; the last of them has a default.
    """

    def in_ms(unit_ms: int) -> Callable[[int], int]:
        # A negative time means "no limit", whatever the unit.
        return lambda value: value * unit_ms if value >= 0 else -1

    assert strongest.topic is not None
    last, last_unit_ms = others[-1]
    return TopicKey(
        strongest.topic,
        LONG,
        last.default * last_unit_ms,
        strongest.doc,
        check=check,
        broker_keys=tuple((key, in_ms(unit_ms)) for key, unit_ms in ((strongest, 1), *others)),
    )


def _never(name: str, doc: str) -> TopicKey[bool]:
    """Return a topic key of remote storage, which there is not: it can only be false."""
    return TopicKey(name, BOOLEAN, False, doc, check=only(False, "there is no remote storage"))


def _validates(field: str) -> TopicKey[bool]:
    """Return the topic key that has the schema ids of all keys or values checked."""
    return TopicKey(
        f"confluent.{field}.schema.validation",
        BOOLEAN,
        False,
        f"Whether the {field} of each record must name a schema that is registered for its subject. A "
        f"missing {field} is accepted. Needs `confluent.schema.registry.url`.",
    )


def _strategy(field: str) -> TopicKey[str]:
    """Return the topic key that says which subject the schema must belong to."""
    return TopicKey(
        f"confluent.{field}.subject.name.strategy",
        STRING,
        TOPIC_NAME,
        f"The subject that the schema of a {field} must be registered under: the same as its serializer's.",
        check=one_of(*STRATEGIES),
    )


def _decodes(field: str) -> TopicKey[bool]:
    """Return the topic key that has all keys or values decoded."""
    return TopicKey(
        f"ottla.{field}.schema.decoding",
        BOOLEAN,
        False,
        f"Whether the {field} of each record must also decode with its schema, which Ottla's registry "
        f"tries. Counts if `confluent.{field}.schema.validation` is true.",
    )


class TopicConfig(Config):
    """All of a topic's values. Raises ConfigError for keys and values that will not do."""

    LEVEL = "topic"
    UNIMPLEMENTED = UNIMPLEMENTED_TOPIC_KEYS
    UNKNOWN = "Unknown topic config name"

    cleanup_policy = _same_as(BrokerConfig.log_cleanup_policy)
    compression_gzip_level = _same_as(BrokerConfig.compression_gzip_level)
    compression_lz4_level = _same_as(BrokerConfig.compression_lz4_level)
    compression_type = _same_as(BrokerConfig.compression_type)
    compression_zstd_level = _same_as(BrokerConfig.compression_zstd_level)
    confluent_key_schema_validation = _validates("key")
    confluent_key_subject_name_strategy = _strategy("key")
    confluent_value_schema_validation = _validates("value")
    confluent_value_subject_name_strategy = _strategy("value")
    delete_retention_ms = _same_as(BrokerConfig.log_cleaner_delete_retention_ms)
    file_delete_delay_ms = _same_as(BrokerConfig.log_segment_delete_delay_ms)
    flush_messages = _same_as(BrokerConfig.log_flush_interval_messages)
    flush_ms = _first_of(
        at_least(0),
        BrokerConfig.log_flush_interval_ms,
        (BrokerConfig.log_flush_scheduler_interval_ms, 1),
    )
    follower_replication_throttled_replicas = TopicKey(
        "follower.replication.throttled.replicas",
        LIST,
        (),
        "Replicas that `follower.replication.throttled.rate` slows down: `PARTITION:BROKER`, several with "
        "commas, or `*` for all.",
        check=THROTTLED_REPLICAS,
    )
    index_interval_bytes = _same_as(BrokerConfig.log_index_interval_bytes)
    leader_replication_throttled_replicas = TopicKey(
        "leader.replication.throttled.replicas",
        LIST,
        (),
        "Replicas that `leader.replication.throttled.rate` slows down: `PARTITION:BROKER`, several with "
        "commas, or `*` for all.",
        check=THROTTLED_REPLICAS,
    )
    local_retention_bytes = _same_as(BrokerConfig.log_local_retention_bytes)
    local_retention_ms = _same_as(BrokerConfig.log_local_retention_ms)
    max_compaction_lag_ms = _same_as(BrokerConfig.log_cleaner_max_compaction_lag_ms)
    max_message_bytes = _same_as(BrokerConfig.message_max_bytes)
    message_timestamp_after_max_ms = _same_as(BrokerConfig.log_message_timestamp_after_max_ms)
    message_timestamp_before_max_ms = _same_as(BrokerConfig.log_message_timestamp_before_max_ms)
    message_timestamp_type = _same_as(BrokerConfig.log_message_timestamp_type)
    min_cleanable_dirty_ratio = _same_as(BrokerConfig.log_cleaner_min_cleanable_ratio)
    min_compaction_lag_ms = _same_as(BrokerConfig.log_cleaner_min_compaction_lag_ms)
    min_insync_replicas = _same_as(BrokerConfig.min_insync_replicas)
    ottla_key_schema_decoding = _decodes("key")
    ottla_value_schema_decoding = _decodes("value")
    preallocate = _same_as(BrokerConfig.log_preallocate)
    remote_log_copy_disable = _never("remote.log.copy.disable", "Whether segments are not copied there.")
    remote_log_delete_on_disable = _never(
        "remote.log.delete.on.disable", "Whether they are deleted there when remote storage is switched off."
    )
    remote_storage_enable = _never("remote.storage.enable", "Whether segments go to remote storage.")
    retention_bytes = _same_as(BrokerConfig.log_retention_bytes)
    retention_ms = _first_of(
        at_least(-1),
        BrokerConfig.log_retention_ms,
        (BrokerConfig.log_retention_minutes, MINUTE_MS),
        (BrokerConfig.log_retention_hours, HOUR_MS),
    )
    segment_bytes = _same_as(BrokerConfig.log_segment_bytes)
    segment_index_bytes = _same_as(BrokerConfig.log_index_size_max_bytes)
    segment_jitter_ms = _first_of(
        at_least(0),
        BrokerConfig.log_roll_jitter_ms,
        (BrokerConfig.log_roll_jitter_hours, HOUR_MS),
    )
    segment_ms = _first_of(
        at_least(1),
        BrokerConfig.log_roll_ms,
        (BrokerConfig.log_roll_hours, HOUR_MS),
    )
    unclean_leader_election_enable = _same_as(BrokerConfig.unclean_leader_election_enable)

    overrides: Mapping[str, str]
    """What this topic sets itself."""
    broker: BrokerConfig

    def __init__(self, overrides: Mapping[str, str], broker: BrokerConfig) -> None:
        parsed = self.parse(overrides)
        vars(self).update(_topic_defaults(broker), overrides=dict(overrides), broker=broker, **parsed)

    @classmethod
    def checked(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> TopicConfig:
        """Return the configuration after checking also what no key can check alone.

        For settings on their way in. A topic that is there already is opened without these checks:
        a later change of the broker's defaults must not make it unreadable.
        """
        config = cls(overrides, broker)
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
            raise ConfigError(
                "min.compaction.lag.ms",
                f"is {config.min_compaction_lag_ms}, more than max.compaction.lag.ms"
                f" ({config.max_compaction_lag_ms})",
            )
        for field in ("key", "value"):
            if not broker.confluent_schema_registry_url and getattr(
                config, f"confluent_{field}_schema_validation"
            ):
                raise ConfigError(
                    f"confluent.{field}.schema.validation",
                    "needs confluent.schema.registry.url, which the brokers do not have",
                )
        return config

    def describe(self) -> list[ConfigEntry]:
        """Return the entries of DescribeConfigs for this topic."""
        return [self._entry(key) for key in self.KEYS.values() if isinstance(key, TopicKey)]

    def _entry(self, key: TopicKey[Any]) -> ConfigEntry:
        text = self.overrides.get(key.name)
        own = () if text is None else (Synonym(key.name, key.shown(text), ConfigSource.DYNAMIC_TOPIC_CONFIG),)
        inherited = self.broker.synonyms(tuple(broker_key for broker_key, _ in key.broker_keys))
        synonyms = (*own, *inherited)
        return ConfigEntry(
            name=key.name,
            value=key.write(getattr(self, key.attribute)),
            source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
            read_only=False,
            sensitive=key.kind.sensitive,
            type_code=key.kind.code,
            documentation=key.doc,
            synonyms=synonyms,
        )

    @classmethod
    def _elsewhere(cls, name: str) -> str | None:
        broker_key = BrokerConfig.KEYS.get(name)
        if broker_key is None:
            return None
        instead = f"; a topic sets {broker_key.topic}" if broker_key.topic else ""
        return f"a broker key, not a topic key{instead}"


@lru_cache(maxsize=4)
def _topic_defaults(broker: BrokerConfig) -> Mapping[str, Any]:
    """Return the values of a topic that sets nothing; computed once for all topics of a broker."""
    keys = (key for key in TopicConfig.KEYS.values() if isinstance(key, TopicKey))
    return {key.attribute: key.default_from(broker) for key in keys}
