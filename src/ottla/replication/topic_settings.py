"""What replication takes from a topic's configuration."""

from __future__ import annotations

from ottla.common.config.topic import TopicConfig
from ottla.replication.partition import Partition
from ottla.replication.throttle import names_replica


def configure(partition: Partition, config: TopicConfig, node_id: int) -> None:
    """Let a partition go by its topic's configuration from now on."""
    index = partition.topic_partition.partition
    throttled = config.leader_replication_throttled_replicas, config.follower_replication_throttled_replicas
    partition.throttled_as_leader = names_replica(throttled[0], index, node_id)
    partition.throttled_as_follower = names_replica(throttled[1], index, node_id)
    if config.min_insync_replicas != partition.min_insync_replicas:
        partition.min_insync_replicas = config.min_insync_replicas
        if partition.replication is not None:
            partition.replication.review()
