"""Broker keys of the group coordinator: its topic, committed offsets, and both group protocols."""

from __future__ import annotations

from itertools import pairwise

from ottla.common.config.declaration import Config, ConfigError, Importance, Key
from ottla.common.config.types import INT, LIST, LONG, SHORT, STRING, at_least, between, list_of, one_of
from ottla.common.units import DAY_MS, MIB, MINUTE_MS, SECOND_MS

HIGH = Importance.HIGH


class OffsetKeys(Config):
    """Committed offsets, and the topic that keeps them."""

    offsets_topic_num_partitions = Key(
        "offsets.topic.num.partitions",
        INT,
        50,
        "How many partitions `__consumer_offsets` gets when it is created; groups are spread over them.",
        check=at_least(1),
        importance=HIGH,
    )
    offsets_topic_replication_factor = Key(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        "How many replicas `__consumer_offsets` gets when it is created; fewer if there are fewer brokers.",
        check=at_least(1),
        importance=HIGH,
    )
    offsets_topic_segment_bytes = Key(
        "offsets.topic.segment.bytes",
        INT,
        100 * MIB,
        "The segment size that `__consumer_offsets` gets when it is created. Small segments are compacted "
        "earlier, which makes loading faster.",
        check=at_least(1),
        importance=HIGH,
    )
    offsets_topic_compression_codec = Key(
        "offsets.topic.compression.codec",
        INT,
        0,
        "How records of `__consumer_offsets` are compressed: 0 not, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        check=between(0, 4),
        importance=HIGH,
    )
    offsets_retention_minutes = Key(
        "offsets.retention.minutes",
        INT,
        7 * DAY_MS // MINUTE_MS,
        "How long the offsets of a group are kept after it lost its last member, and those of a group "
        "without members, or of topics that it is no longer subscribed to, after their commit.",
        check=at_least(1),
        importance=HIGH,
    )
    offsets_retention_check_interval_ms = Key(
        "offsets.retention.check.interval.ms",
        LONG,
        10 * MINUTE_MS,
        "How often the coordinator deletes expired offsets.",
        check=at_least(1),
        importance=HIGH,
    )
    offsets_commit_timeout_ms = Key(
        "offsets.commit.timeout.ms",
        INT,
        5 * SECOND_MS,
        "How long an answer of the coordinator waits until its records are on all replicas in sync.",
        check=at_least(1),
        importance=HIGH,
    )
    offset_metadata_max_bytes = Key(
        "offset.metadata.max.bytes",
        INT,
        4096,
        "The longest text that may be committed with an offset.",
        importance=HIGH,
    )


class ClassicGroupKeys(Config):
    """Groups whose members assign the partitions among themselves."""

    group_min_session_timeout_ms = Key(
        "group.min.session.timeout.ms",
        INT,
        6 * SECOND_MS,
        "The shortest session timeout that a member may ask for.",
    )
    group_max_session_timeout_ms = Key(
        "group.max.session.timeout.ms",
        INT,
        30 * MINUTE_MS,
        "The longest session timeout that a member may ask for.",
    )
    group_initial_rebalance_delay_ms = Key(
        "group.initial.rebalance.delay.ms",
        INT,
        3 * SECOND_MS,
        "How long a group that was empty waits for more members before its first rebalance.",
        check=at_least(0),
    )
    group_max_size = Key(
        "group.max.size",
        INT,
        1000,
        "How many members a group of the classic protocol may have.",
        check=at_least(1),
        kafka_default="2147483647",
    )


class ConsumerGroupKeys(Config):
    """Groups whose partitions the broker assigns (KIP-848)."""

    group_coordinator_rebalance_protocols = Key(
        "group.coordinator.rebalance.protocols",
        LIST,
        ("classic", "consumer"),
        "Which group protocols are served.",
        check=list_of("classic", "consumer"),
        kafka_default="classic,consumer,streams",
    )
    group_consumer_session_timeout_ms = Key(
        "group.consumer.session.timeout.ms",
        INT,
        45 * SECOND_MS,
        "How long a member may be silent before it is removed.",
        check=at_least(1),
    )
    group_consumer_min_session_timeout_ms = Key(
        "group.consumer.min.session.timeout.ms",
        INT,
        45 * SECOND_MS,
        "The shortest session timeout that may be set.",
        check=at_least(1),
    )
    group_consumer_max_session_timeout_ms = Key(
        "group.consumer.max.session.timeout.ms",
        INT,
        MINUTE_MS,
        "The longest session timeout that may be set.",
        check=at_least(1),
    )
    group_consumer_heartbeat_interval_ms = Key(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5 * SECOND_MS,
        "The interval at which members send heartbeats.",
        check=at_least(1),
    )
    group_consumer_min_heartbeat_interval_ms = Key(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5 * SECOND_MS,
        "The shortest heartbeat interval that may be set.",
        check=at_least(1),
    )
    group_consumer_max_heartbeat_interval_ms = Key(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15 * SECOND_MS,
        "The longest heartbeat interval that may be set.",
        check=at_least(1),
    )
    group_consumer_max_size = Key(
        "group.consumer.max.size",
        INT,
        1000,
        "How many members a group of the consumer protocol may have.",
        check=at_least(1),
        kafka_default="2147483647",
    )
    group_consumer_assignors = Key(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        "The assignors that members may choose from; the first is used by those that do not choose.",
        check=list_of("uniform", "range"),
    )
    group_consumer_migration_policy = Key(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "Whether a group may change its protocol while it has members: `upgrade` to the consumer protocol, "
        "`downgrade` to the classic one, `bidirectional` or `disabled`.",
        check=one_of("upgrade", "downgrade", "bidirectional", "disabled"),
    )


_IN_ORDER = (
    (ClassicGroupKeys.group_min_session_timeout_ms, ClassicGroupKeys.group_max_session_timeout_ms),
    (
        ConsumerGroupKeys.group_consumer_min_session_timeout_ms,
        ConsumerGroupKeys.group_consumer_session_timeout_ms,
        ConsumerGroupKeys.group_consumer_max_session_timeout_ms,
    ),
    (
        ConsumerGroupKeys.group_consumer_min_heartbeat_interval_ms,
        ConsumerGroupKeys.group_consumer_heartbeat_interval_ms,
        ConsumerGroupKeys.group_consumer_max_heartbeat_interval_ms,
    ),
)


def check_group_limits(config: Config) -> None:
    """Raise ConfigError if a shortest time is longer than the one it bounds."""
    for keys in _IN_ORDER:
        for shorter, longer in pairwise(keys):
            if getattr(config, shorter.attribute) > getattr(config, longer.attribute):
                raise ConfigError(shorter.name, f"must not exceed {longer.name}")
