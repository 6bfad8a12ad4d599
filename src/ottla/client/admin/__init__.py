"""The admin clients: describe and change topics, configs, groups, brokers and transactions.

Reading order:

    async_admin, sync_admin, options   the public classes
    topic_admin, config_admin          topics, partitions and records; configs
    groups, group_types, lag           groups and their offsets; their lag in records and seconds
    cluster_admin                      brokers, log directories, reassignments
    moves, reassignment_planner        moves replicas; plans where to
    transactions                       open transactions and producers
"""

from __future__ import annotations

from ottla.client.admin.async_admin import AdminOptions, AsyncAdmin
from ottla.client.admin.cluster_admin import (
    BrokerInfo,
    ClusterInfo,
    LogDirectory,
    MoveInfo,
    PartitionDescription,
    ReplicaSize,
)
from ottla.client.admin.config_admin import ConfigEntry, ConfigSource
from ottla.client.admin.group_types import CommittedOffset, GroupDescription, GroupMember, ListedGroup
from ottla.client.admin.lag import Measured
from ottla.client.admin.sync_admin import Admin
from ottla.client.admin.topic_admin import CreatedTopic, NewTopic
from ottla.client.admin.transactions import (
    ListedTransaction,
    OpenTransaction,
    PartitionProducer,
    TransactionDescription,
)

__all__ = [
    "Admin",
    "AdminOptions",
    "AsyncAdmin",
    "BrokerInfo",
    "ClusterInfo",
    "CommittedOffset",
    "ConfigEntry",
    "ConfigSource",
    "CreatedTopic",
    "GroupDescription",
    "GroupMember",
    "ListedGroup",
    "ListedTransaction",
    "LogDirectory",
    "Measured",
    "MoveInfo",
    "NewTopic",
    "OpenTransaction",
    "PartitionDescription",
    "PartitionProducer",
    "ReplicaSize",
    "TransactionDescription",
]
