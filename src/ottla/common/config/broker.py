"""The configuration of a broker: its keys, and where each value comes from.

A value comes from the first of these that has it: a dynamic setting of this broker, a dynamic setting
of the whole cluster, the broker's own file and command line (`raw`), the default.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ottla.common.config.authorization_keys import AuthorizationKeys
from ottla.common.config.controller_keys import ControllerKeys
from ottla.common.config.coordinator_keys import (
    ClassicGroupKeys,
    ConsumerGroupKeys,
    OffsetKeys,
    check_group_limits,
)
from ottla.common.config.declaration import (
    Config,
    ConfigEntry,
    ConfigError,
    ConfigSource,
    Importance,
    Key,
    Synonym,
    Update,
)
from ottla.common.config.listener_keys import PREFIX as LISTENER_PREFIX
from ottla.common.config.listener_keys import ListenerConfig, listener_key, listener_of
from ottla.common.config.log_keys import AppendKeys, CleanerKeys, SegmentKeys
from ottla.common.config.metrics_keys import MetricsKeys, check_metrics
from ottla.common.config.network_keys import NetworkKeys
from ottla.common.config.quota_keys import QuotaKeys
from ottla.common.config.replication_keys import ReplicationKeys, check_replication
from ottla.common.config.schema_keys import SchemaKeys
from ottla.common.config.security_check import check_security
from ottla.common.config.security_keys import OAuthKeys, SaslKeys, TlsKeys
from ottla.common.config.transaction_keys import TransactionKeys
from ottla.common.config.types import BOOLEAN, INT, STRING, at_least
from ottla.common.config.unimplemented import (
    KAFKA_DEFAULTS,
    UNIMPLEMENTED_BROKER_KEYS,
    UNIMPLEMENTED_PREFIXES,
)
from ottla.common.config.zookeeper_keys import ZooKeeperKeys
from ottla.common.listeners import Listener, parse_listeners
from ottla.common.units import MIB

_NOTHING: Mapping[str, str] = MappingProxyType({})


class ServerKeys(Config):
    """Who the broker is, and how topics are made."""

    node_id = Key(
        "node.id",
        INT,
        1,
        "The id of this broker, unique in its cluster.",
        check=at_least(0),
        importance=Importance.HIGH,
        kafka_default="-1",
    )
    broker_id = Key(
        "broker.id",
        INT,
        1,
        "The older name of `node.id`; if both are set they must agree.",
        check=at_least(0),
        importance=Importance.HIGH,
        kafka_default="-1",
    )
    broker_rack: Key[str | None] = Key(
        "broker.rack",
        STRING,
        None,
        "The rack or zone of this broker; replicas are spread over racks.",
    )
    auto_create_topics_enable = Key(
        "auto.create.topics.enable",
        BOOLEAN,
        True,
        "Whether a Metadata request for a topic that does not exist creates it.",
        importance=Importance.HIGH,
    )
    delete_topic_enable = Key(
        "delete.topic.enable",
        BOOLEAN,
        True,
        "Whether topics can be deleted.",
        importance=Importance.HIGH,
    )
    num_partitions = Key(
        "num.partitions",
        INT,
        1,
        "The number of partitions of a new topic whose request does not set it.",
        check=at_least(1),
    )
    default_replication_factor = Key(
        "default.replication.factor",
        INT,
        1,
        "The replication factor of a new topic whose request does not set it.",
        check=at_least(1),
    )
    min_insync_replicas = Key(
        "min.insync.replicas",
        INT,
        1,
        "How many replicas must have a record before a producer with acks=all is answered; with fewer "
        "in sync, its records are refused. A topic that is created with 3 or more replicas gets 2 as its own "
        "setting, unless it sets another, or this key is set on the brokers.",
        check=at_least(1),
        update=Update.CLUSTER_WIDE,
        importance=Importance.HIGH,
        topic="min.insync.replicas",
    )
    unclean_leader_election_enable = Key(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Whether a replica that is not in sync may become leader when no other is left. It loses records.",
        update=Update.CLUSTER_WIDE,
        importance=Importance.HIGH,
        topic="unclean.leader.election.enable",
    )


class BrokerConfig(
    ServerKeys,
    NetworkKeys,
    QuotaKeys,
    ReplicationKeys,
    SegmentKeys,
    AppendKeys,
    CleanerKeys,
    OffsetKeys,
    ClassicGroupKeys,
    ConsumerGroupKeys,
    TransactionKeys,
    ControllerKeys,
    AuthorizationKeys,
    ZooKeeperKeys,
    MetricsKeys,
    SchemaKeys,
    TlsKeys,
    SaslKeys,
    OAuthKeys,
):
    """All of a broker's values. Raises ConfigError for keys and values that will not do."""

    LEVEL = "broker"
    UNIMPLEMENTED = UNIMPLEMENTED_BROKER_KEYS
    UNIMPLEMENTED_PREFIXES = UNIMPLEMENTED_PREFIXES
    KAFKA_DEFAULTS = KAFKA_DEFAULTS

    layers: tuple[tuple[ConfigSource, Mapping[str, str]], ...]
    """Everything that was set, by source, the strongest first."""
    listener_list: tuple[Listener, ...]
    """`listeners` and `advertised.listeners`, parsed."""
    overrides: Mapping[str, Any]
    """The values of single listeners, by their whole names (listener_keys.py)."""

    def __init__(
        self,
        raw: Mapping[str, str],
        dynamic: Mapping[str, str] = _NOTHING,
        dynamic_default: Mapping[str, str] = _NOTHING,
    ) -> None:
        check_dynamic_broker_config(dynamic, per_broker=True)
        check_dynamic_broker_config(dynamic_default, per_broker=False)
        static = _with_both_ids(raw)
        layers = (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, dict(dynamic)),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, dict(dynamic_default)),
            (ConfigSource.STATIC_BROKER_CONFIG, static),
        )
        values = {key.attribute: key.default for key in self.KEYS.values()}
        for _, texts in reversed(layers):
            values |= self.parse(texts)
        overrides = {
            name: values[self.key(name).attribute]
            for _, texts in layers
            for name in texts
            if name.startswith(LISTENER_PREFIX)
        }
        vars(self).update(values, layers=layers, overrides=overrides)
        vars(self).update(listener_list=self._parse_listeners())
        self._check_together()

    def with_dynamic(self, dynamic: Mapping[str, str], dynamic_default: Mapping[str, str]) -> BrokerConfig:
        """Return the same static configuration under other dynamic settings."""
        return BrokerConfig(self.layers[-1][1], dynamic, dynamic_default)

    @classmethod
    def key(cls, name: str) -> Key[Any]:
        """Return the key called `name`, also one of a listener."""
        return listener_key(name, cls.KEYS) or super().key(name)

    def for_listener(self, name: str) -> ListenerConfig:
        """Return the configuration of one listener."""
        return ListenerConfig(self, self.overrides, name)

    @property
    def inter_broker_listener(self) -> Listener:
        """The listener on which brokers reach each other."""
        name, protocol = self.inter_broker_listener_name, self.security_inter_broker_protocol
        if name is not None:
            return next(each for each in self.listener_list if each.name == name.upper())
        if protocol is not None:
            return next(each for each in self.listener_list if each.security_protocol == protocol)
        return self.listener_list[0]

    @property
    def data_directory(self) -> str:
        """The first data directory: of `log.dirs`, else of `log.dir`. A single broker's metadata is in it."""
        return self.data_directories[0]

    @property
    def data_directories(self) -> tuple[str, ...]:
        """All data directories: those of `log.dirs`, else that of `log.dir`."""
        return self.log_dirs or tuple(each.strip() for each in self.log_dir.split(",") if each.strip())

    def describe(self) -> list[ConfigEntry]:
        """Return the entries of DescribeConfigs for this broker."""
        of_listeners = [self.key(name) for name in self.overrides]
        return [
            self._entry(key, tuple(self.synonyms(self._family(key))))
            for key in (*self.KEYS.values(), *of_listeners)
        ]

    def describe_cluster_defaults(self) -> list[ConfigEntry]:
        """Return the entries of DescribeConfigs for the whole cluster: its dynamic settings, if any."""
        source, texts = self.layers[1]
        return [
            self._entry(key, (Synonym(name, key.shown(text), source),))
            for name, text in texts.items()
            if (key := self.KEYS.get(name)) is not None  # keys of listeners are set broker by broker
        ]

    def synonyms(self, keys: tuple[Key[Any], ...]) -> Iterator[Synonym]:
        """Return all that is set for any of `keys`, the strongest first, then their defaults."""
        for source, texts in self.layers:
            for key in keys:
                if key.name in texts:
                    yield Synonym(key.name, key.shown(texts[key.name]), source)
        for key in keys:
            if key.default is not None:
                yield Synonym(key.name, key.write(key.default), ConfigSource.DEFAULT_CONFIG)

    def _family(self, key: Key[Any]) -> tuple[Key[Any], ...]:
        """Return `key` and the keys that say the same thing with less weight (hours after minutes)."""
        if key.topic is None:
            return (key,)
        family = [other for other in self.KEYS.values() if other.topic == key.topic]
        return tuple(family[family.index(key) :])

    def _entry(self, key: Key[Any], synonyms: tuple[Synonym, ...]) -> ConfigEntry:
        own = (synonym.source for synonym in synonyms if synonym.name == key.name)
        return ConfigEntry(
            name=key.name,
            value=key.write(getattr(self, key.attribute)),
            source=next(own, ConfigSource.DEFAULT_CONFIG),
            read_only=key.update is Update.READ_ONLY,
            sensitive=key.kind.sensitive,
            type_code=key.kind.code,
            documentation=key.doc,
            synonyms=synonyms,
        )

    def _parse_listeners(self) -> tuple[Listener, ...]:
        return parse_listeners(self.listeners, self.advertised_listeners, self.listener_security_protocol_map)

    def _check_together(self) -> None:
        """Check what no key can check alone."""
        if self.log_dirs == () or not self.data_directories:
            raise ConfigError("log.dirs", "names no directory")
        paths = [os.path.abspath(each) for each in self.data_directories]
        if len(set(paths)) != len(paths):
            raise ConfigError("log.dirs", "names a directory twice")
        if self.log_cleaner_dedupe_buffer_size // max(1, self.log_cleaner_threads) <= MIB:
            raise ConfigError("log.cleaner.dedupe.buffer.size", "must be more than 1 MiB per cleaner thread")
        if self.log_cleaner_min_compaction_lag_ms > self.log_cleaner_max_compaction_lag_ms:
            raise ConfigError(
                "log.cleaner.min.compaction.lag.ms", "must not exceed log.cleaner.max.compaction.lag.ms"
            )
        check_group_limits(self)
        check_replication(self)
        check_metrics(self, self.listener_list)
        for name in self.overrides:
            if listener_of(name) not in (known := [each.name for each in self.listener_list]):
                raise ConfigError(
                    name, f"no listener is called {listener_of(name)}; there is {', '.join(known)}"
                )
        check_security(self)

    @classmethod
    def _elsewhere(cls, name: str) -> str | None:
        for key in cls.KEYS.values():
            if key.topic == name:
                return f"a topic key, not a broker key; a broker sets its default with {key.name}"
        return None


def check_dynamic_broker_config(changes: Mapping[str, str], *, per_broker: bool) -> None:
    """Raise ConfigError if a key may not be changed at run time this way, or its value will not do.

    `per_broker` is whether it is a setting of one broker, not of the whole cluster.
    """
    for name, text in changes.items():
        if BrokerConfig.is_kafka_default(name, text):
            continue
        key = BrokerConfig.key(name)
        if key.update is Update.READ_ONLY:
            raise ConfigError(name, "cannot be changed while the broker runs; set it where it is started")
        if key.update is Update.PER_BROKER and not per_broker:
            raise ConfigError(name, "can only be changed broker by broker, not for the whole cluster")
        key.parse(text)


def _with_both_ids(raw: Mapping[str, str]) -> dict[str, str]:
    """Return `raw` with broker.id and node.id set alike if one of them is."""
    node_id, broker_id = raw.get("node.id"), raw.get("broker.id")
    if node_id is None and broker_id is None:
        return dict(raw)
    if node_id is not None and broker_id is not None and node_id.strip() != broker_id.strip():
        raise ConfigError("node.id", f"is {node_id}, but broker.id is {broker_id}; set one, or both alike")
    return {**raw, "node.id": node_id or broker_id or "", "broker.id": broker_id or node_id or ""}
