"""The admin clients: topics, configs, groups, brokers, transactions; to look at, and to change.

    async_admin.py     `AsyncAdmin`, the core
    sync_admin.py      `Admin`, its twin without asyncio

What they ask is next door, by subject: topic_admin, config_admin, records_admin, groups, group_members,
cluster_admin, log_directories, transactions, partition_producers.
"""

from __future__ import annotations

from ottla.client.admin.async_admin import AsyncAdmin
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
from ottla.client.admin.options import AdminOptions
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
