"""The admin clients: describe and change topics, configs, groups, brokers and transactions.

Reading order:

    async_admin, sync_admin            the public classes
    topic_admin, config_admin          topics, partitions and records; configs
    groups, group_types, share_groups, lag   groups and their offsets; their lag in records and seconds
    cluster_admin                      brokers, log directories, reassignments
    cluster_spec                       a cluster as declared in a file: read, compared, changed
    moves                              moves replicas, and watches them
    health, cluster_health             what brokers say of themselves; the verdict on a cluster
    transactions                       open transactions and producers
    quotas                             quotas of users, client ids and addresses
    acls, scram_users, delegation_tokens   who may do what; users and passwords; credentials for workers
    metadata_backup                    the metadata of a cluster, saved and restored
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.common.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ottla.client.admin.acls import Acl as Acl
    from ottla.client.admin.acls import AclQuery as AclQuery
    from ottla.client.admin.async_admin import AdminOptions as AdminOptions
    from ottla.client.admin.async_admin import AsyncAdmin as AsyncAdmin
    from ottla.client.admin.cluster_admin import BrokerInfo as BrokerInfo
    from ottla.client.admin.cluster_admin import ClusterInfo as ClusterInfo
    from ottla.client.admin.cluster_admin import LogDirectory as LogDirectory
    from ottla.client.admin.cluster_admin import MoveInfo as MoveInfo
    from ottla.client.admin.cluster_admin import PartitionDescription as PartitionDescription
    from ottla.client.admin.cluster_admin import ReplicaSize as ReplicaSize
    from ottla.client.admin.config_admin import ConfigEntry as ConfigEntry
    from ottla.client.admin.config_admin import ConfigSource as ConfigSource
    from ottla.client.admin.delegation_tokens import DelegationTokenInfo as DelegationTokenInfo
    from ottla.client.admin.group_types import CommittedOffset as CommittedOffset
    from ottla.client.admin.group_types import GroupDescription as GroupDescription
    from ottla.client.admin.group_types import GroupMember as GroupMember
    from ottla.client.admin.group_types import ListedGroup as ListedGroup
    from ottla.client.admin.lag import Measured as Measured
    from ottla.client.admin.quotas import EntityQuotas as EntityQuotas
    from ottla.client.admin.sync_admin import Admin as Admin
    from ottla.client.admin.topic_admin import CreatedTopic as CreatedTopic
    from ottla.client.admin.topic_admin import NewTopic as NewTopic
    from ottla.client.admin.transactions import ListedTransaction as ListedTransaction
    from ottla.client.admin.transactions import OpenTransaction as OpenTransaction
    from ottla.client.admin.transactions import PartitionProducer as PartitionProducer
    from ottla.client.admin.transactions import TransactionDescription as TransactionDescription

_HOMES = {
    "Acl": "ottla.client.admin.acls",
    "AclQuery": "ottla.client.admin.acls",
    "Admin": "ottla.client.admin.sync_admin",
    "AdminOptions": "ottla.client.admin.async_admin",
    "AsyncAdmin": "ottla.client.admin.async_admin",
    "BrokerInfo": "ottla.client.admin.cluster_admin",
    "ClusterInfo": "ottla.client.admin.cluster_admin",
    "CommittedOffset": "ottla.client.admin.group_types",
    "ConfigEntry": "ottla.client.admin.config_admin",
    "ConfigSource": "ottla.client.admin.config_admin",
    "CreatedTopic": "ottla.client.admin.topic_admin",
    "DelegationTokenInfo": "ottla.client.admin.delegation_tokens",
    "EntityQuotas": "ottla.client.admin.quotas",
    "GroupDescription": "ottla.client.admin.group_types",
    "GroupMember": "ottla.client.admin.group_types",
    "ListedGroup": "ottla.client.admin.group_types",
    "ListedTransaction": "ottla.client.admin.transactions",
    "LogDirectory": "ottla.client.admin.cluster_admin",
    "Measured": "ottla.client.admin.lag",
    "MoveInfo": "ottla.client.admin.cluster_admin",
    "NewTopic": "ottla.client.admin.topic_admin",
    "OpenTransaction": "ottla.client.admin.transactions",
    "PartitionDescription": "ottla.client.admin.cluster_admin",
    "PartitionProducer": "ottla.client.admin.transactions",
    "ReplicaSize": "ottla.client.admin.cluster_admin",
    "TransactionDescription": "ottla.client.admin.transactions",
}
"""The module of each name; loaded on first use, so that the options can be imported alone."""

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
