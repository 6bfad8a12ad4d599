"""Broker keys of the controller: how leadership is spread, and how a broker takes its leave."""

from __future__ import annotations

from ottla.common.config.declaration import Config, Importance, Key, Update
from ottla.common.config.types import BOOLEAN, INT, LONG, at_least

HIGH = Importance.HIGH


class ControllerKeys(Config):
    """Leadership."""

    auto_leader_rebalance_enable = Key(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        "Whether leadership returns to the preferred leaders after a failover.",
        importance=HIGH,
    )
    leader_imbalance_check_interval_seconds = Key(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        "How often the controller checks the balance of leadership.",
        check=at_least(1),
        importance=HIGH,
    )
    leader_imbalance_per_broker_percentage = Key(
        "leader.imbalance.per.broker.percentage",
        INT,
        10,
        "The percentage of a broker's preferred partitions that others may lead before it is rebalanced.",
        check=at_least(0),
        importance=HIGH,
    )
    ottla_broker_maintenance = Key(
        "ottla.broker.maintenance",
        BOOLEAN,
        False,
        "Whether the broker is in maintenance: it leads nothing that others can lead, and gets no new "
        "replicas. Set it with `ottla cluster maintenance start`.",
        update=Update.PER_BROKER,
    )
    ottla_auto_balance_enable = Key(
        "ottla.auto.balance.enable",
        BOOLEAN,
        False,
        "Whether the controller moves replicas by itself until each topic is spread evenly over brokers and "
        "racks: a few at a time, and only while all brokers are alive and all replicas in sync.",
        update=Update.CLUSTER_WIDE,
    )
    ottla_auto_balance_moves = Key(
        "ottla.auto.balance.moves",
        INT,
        5,
        "How many partitions the controller moves at a time with `ottla.auto.balance.enable`.",
        check=at_least(1),
        update=Update.CLUSTER_WIDE,
    )
    controlled_shutdown_enable = Key(
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        "Whether a stopping broker first moves leadership of its partitions to other brokers.",
    )
