"""What becomes of a request to change the cluster, as pure functions.

Each takes the image and the request and returns a `Decision`: the records to append, and one result or
one error for each thing asked for, in the order of the request. Nothing here changes anything, so a
request that is only to be validated is decided in the same way and its records are dropped.
"""

from __future__ import annotations

from ottla.controller.machine.alter_partition import alter_partitions
from ottla.controller.machine.brokers import (
    allocate_producer_ids,
    become_controller,
    follow_sessions,
    has_leaders_to_move,
    partitions_awaiting_directory,
    resolve_partitions,
    unregister_broker,
    with_elections,
)
from ottla.controller.machine.configs import alter_configs, check_alterations, replace_configs
from ottla.controller.machine.election import ElectionType, balance_leaders, elect_leaders
from ottla.controller.machine.reassignment import Reassignment, reassign
from ottla.controller.machine.requests import (
    ConfigAlteration,
    ConfigChange,
    ConfigOperation,
    Decision,
    NewPartitions,
    NewTopic,
    TopicSelector,
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
    "Reassignment",
    "TopicSelector",
    "allocate_producer_ids",
    "alter_configs",
    "alter_partitions",
    "balance_leaders",
    "become_controller",
    "check_alterations",
    "check_new_partitions",
    "check_new_topics",
    "check_selectors",
    "create_partitions",
    "create_topics",
    "delete_topics",
    "elect_leaders",
    "find_topic",
    "follow_sessions",
    "has_leaders_to_move",
    "partitions_awaiting_directory",
    "reassign",
    "replace_configs",
    "resolve_partitions",
    "unregister_broker",
    "with_elections",
]
