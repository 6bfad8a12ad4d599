"""The controller's decisions, as pure functions.

Each takes the image and the request and returns a `Decision`: the records to append, and one result or error
for each item, in the order of the request. Nothing here changes anything, so a request that is only validated
is decided in the same way and its records are dropped.

Reading order: requests, topics, configs, election, alter_partition, reassignment, brokers, acls,
delegation_tokens, scram, quotas, restore.
"""

from __future__ import annotations

from ottla.controller.machine.acls import create_acls, delete_acls
from ottla.controller.machine.alter_partition import alter_partitions
from ottla.controller.machine.brokers import (
    allocate_producer_ids,
    become_controller,
    has_leaders_to_move,
    partitions_awaiting_directory,
    resolve_partitions,
    sync_sessions,
    unregister_broker,
    with_elections,
)
from ottla.controller.machine.configs import (
    alter_configs,
    altered_broker_config,
    check_alterations,
    replace_configs,
)
from ottla.controller.machine.delegation_tokens import (
    create_token,
    expire_token,
    remove_expired_tokens,
    renew_token,
)
from ottla.controller.machine.election import ElectionType, balance_leaders, elect_leaders
from ottla.controller.machine.quotas import QuotaAlteration, alter_client_quotas
from ottla.controller.machine.reassignment import Reassignment, balance_replicas, reassign
from ottla.controller.machine.requests import (
    ConfigAlteration,
    ConfigChange,
    ConfigOperation,
    Decision,
    NewPartitions,
    NewTopic,
    TopicSelector,
)
from ottla.controller.machine.restore import Restored, restore_metadata
from ottla.controller.machine.scram import (
    ScramDeletion,
    ScramUpsertion,
    add_missing_scram_users,
    alter_scram_credentials,
)
from ottla.controller.machine.topics import (
    MAX_PARTITIONS_PER_REQUEST,
    check_new_partitions,
    check_new_topics,
    check_selectors,
    create_partitions,
    create_topics,
    delete_topics,
    find_topic,
)
from ottla.metadata.entities import IsrChange

__all__ = [
    "MAX_PARTITIONS_PER_REQUEST",
    "ConfigAlteration",
    "ConfigChange",
    "ConfigOperation",
    "Decision",
    "ElectionType",
    "IsrChange",
    "NewPartitions",
    "NewTopic",
    "QuotaAlteration",
    "Reassignment",
    "Restored",
    "ScramDeletion",
    "ScramUpsertion",
    "TopicSelector",
    "add_missing_scram_users",
    "allocate_producer_ids",
    "alter_client_quotas",
    "alter_configs",
    "alter_partitions",
    "alter_scram_credentials",
    "altered_broker_config",
    "balance_leaders",
    "balance_replicas",
    "become_controller",
    "check_alterations",
    "check_new_partitions",
    "check_new_topics",
    "check_selectors",
    "create_acls",
    "create_partitions",
    "create_token",
    "create_topics",
    "delete_acls",
    "delete_topics",
    "elect_leaders",
    "expire_token",
    "find_topic",
    "has_leaders_to_move",
    "partitions_awaiting_directory",
    "reassign",
    "remove_expired_tokens",
    "renew_token",
    "replace_configs",
    "resolve_partitions",
    "restore_metadata",
    "sync_sessions",
    "unregister_broker",
    "with_elections",
]
