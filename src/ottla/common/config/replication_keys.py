"""Broker keys of replication: fetching by followers, lag limits, reading from followers."""

from __future__ import annotations

from ottla.common.config.declaration import Config, ConfigError, Importance, Key, Update
from ottla.common.config.types import INT, LONG, STRING, Check, at_least
from ottla.common.units import MAX_LONG, MIB, SECOND_MS

HIGH, LOW = Importance.HIGH, Importance.LOW

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
_SELECTORS = Check(
    "RackAwareReplicaSelector or LeaderSelector, with or without Kafka's package name",
    lambda value: value is None or is_selector(value),
)


def is_selector(name: str) -> bool:
    """Return whether there is a replica selector of this name."""
    return name.rsplit(".", 1)[-1] in ("RackAwareReplicaSelector", "LeaderSelector")


def _are_replicas(items: tuple[str, ...]) -> bool:
    return items == ("*",) or all(
        len(parts := item.split(":")) == 2 and parts[0].strip().isdigit() and parts[1].strip().isdigit()
        for item in items
    )


THROTTLED_REPLICAS = Check("`*`, or PARTITION:BROKER pairs with commas between them", _are_replicas)


class ReplicationKeys(Config):
    """Followers and leaders."""

    inter_broker_listener_name: Key[str | None] = Key(
        "inter.broker.listener.name",
        STRING,
        None,
        "The listener on which other brokers reach this one; if unset, the first of `listeners`.",
    )
    replica_lag_time_max_ms = Key(
        "replica.lag.time.max.ms",
        LONG,
        30 * SECOND_MS,
        "A follower that has not had everything that its leader has for this long is no longer in sync.",
        check=at_least(1),
        importance=HIGH,
    )
    replica_fetch_wait_max_ms = Key(
        "replica.fetch.wait.max.ms",
        INT,
        500,
        "How long a leader may keep a follower's fetch waiting; must be less than `replica.lag.time.max.ms`.",
        check=at_least(1),
        importance=HIGH,
    )
    replica_fetch_min_bytes = Key(
        "replica.fetch.min.bytes",
        INT,
        1,
        "How many bytes a follower's fetch waits for.",
        check=at_least(0),
        importance=HIGH,
    )
    replica_fetch_max_bytes = Key(
        "replica.fetch.max.bytes",
        INT,
        MIB,
        "The most bytes of one partition in an answer to a follower; a larger batch is sent all the same.",
        check=at_least(0),
    )
    replica_fetch_response_max_bytes = Key(
        "replica.fetch.response.max.bytes",
        INT,
        10 * MIB,
        "The most bytes in one answer to a follower.",
        check=at_least(0),
    )
    replica_fetch_backoff_ms = Key(
        "replica.fetch.backoff.ms",
        INT,
        1 * SECOND_MS,
        "How long a follower waits before it fetches a partition again that could not be fetched.",
        check=at_least(0),
    )
    replica_socket_timeout_ms = Key(
        "replica.socket.timeout.ms",
        INT,
        30 * SECOND_MS,
        "How long a follower waits for an answer of its leader; at least `replica.fetch.wait.max.ms`.",
        check=at_least(1),
        importance=HIGH,
    )
    replica_high_watermark_checkpoint_interval_ms = Key(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5 * SECOND_MS,
        "How often high watermarks are written to the disk.",
        check=at_least(1),
        importance=HIGH,
    )
    replica_selector_class: Key[str | None] = Key(
        "replica.selector.class",
        STRING,
        None,
        f"The replica that consumers read from: `{RACK_AWARE_SELECTOR}` for one in their own rack "
        f"(`client.rack`), `{LEADER_SELECTOR}` or nothing for the leader.",
        check=_SELECTORS,
    )
    leader_replication_throttled_rate = Key(
        "leader.replication.throttled.rate",
        LONG,
        MAX_LONG,
        "Bytes a second that this broker sends to followers of the partitions that "
        "`leader.replication.throttled.replicas` names, as long as they are not in sync.",
        check=at_least(0),
        update=Update.PER_BROKER,
    )
    follower_replication_throttled_rate = Key(
        "follower.replication.throttled.rate",
        LONG,
        MAX_LONG,
        "Bytes a second that this broker fetches of the partitions that "
        "`follower.replication.throttled.replicas` names, as long as they are not in sync.",
        check=at_least(0),
        update=Update.PER_BROKER,
    )
    replica_alter_log_dirs_io_max_bytes_per_second = Key(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        MAX_LONG,
        "Bytes a second that this broker copies when replicas are moved between its log directories.",
        check=at_least(1),
        update=Update.PER_BROKER,
    )


def check_replication(config: ReplicationKeys) -> None:
    """Check what no key can check alone."""
    if config.replica_fetch_wait_max_ms > config.replica_socket_timeout_ms:
        raise ConfigError("replica.socket.timeout.ms", "must not be less than replica.fetch.wait.max.ms")
    if config.replica_fetch_wait_max_ms > config.replica_lag_time_max_ms:
        raise ConfigError("replica.fetch.wait.max.ms", "must not exceed replica.lag.time.max.ms")
