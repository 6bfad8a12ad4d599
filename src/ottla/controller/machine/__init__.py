"""What becomes of a request to change the cluster, as pure functions.

Each takes the image and the request and returns a `Decision`: the records to append, and one result or
one error for each thing asked for, in the order of the request. Nothing here changes anything, so a
request that is only to be validated is decided in the same way and its records are dropped.
"""

from __future__ import annotations

from ottla.controller.machine.cluster import (
    allocate_producer_ids,
    create_cluster,
    elect_controller,
    register_broker,
)
from ottla.controller.machine.configs import alter_configs, refuse_alterations, replace_configs
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
    create_partitions,
    create_topics,
    delete_topics,
    find_topic,
    refuse_new_partitions,
    refuse_new_topics,
    refuse_selectors,
)

__all__ = [
    "MAX_PARTITIONS_PER_REQUEST",
    "ConfigAlteration",
    "ConfigChange",
    "ConfigOperation",
    "Decision",
    "NewPartitions",
    "NewTopic",
    "TopicSelector",
    "allocate_producer_ids",
    "alter_configs",
    "create_cluster",
    "create_partitions",
    "create_topics",
    "delete_topics",
    "elect_controller",
    "find_topic",
    "refuse_alterations",
    "refuse_new_partitions",
    "refuse_new_topics",
    "refuse_selectors",
    "register_broker",
    "replace_configs",
]
