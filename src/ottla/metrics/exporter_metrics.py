"""The metrics of kafka_exporter, served by the brokers themselves.

kafka_exporter runs once per cluster, so dashboards sum its series. Therefore exactly one broker serves each
series.
"""

from __future__ import annotations

from ottla.metrics.metric import Reporter, gauge

BROKERS = gauge("kafka_brokers", "Number of live brokers in the cluster.", reporter=Reporter.CONTROLLER)
BROKER_INFO = gauge("kafka_broker_info", "1 for a live broker.", "id", "address")

TOPIC_PARTITIONS = gauge(
    "kafka_topic_partitions", "Number of partitions of a topic.", "topic", reporter=Reporter.CONTROLLER
)

_PARTITION = "kafka_topic_partition_"
_LABELS = ("topic", "partition")
CURRENT_OFFSET = gauge(
    f"{_PARTITION}current_offset",
    "High watermark: the end of what consumers can read.",
    *_LABELS,
    reporter=Reporter.LEADER,
)
OLDEST_OFFSET = gauge(f"{_PARTITION}oldest_offset", "The first offset.", *_LABELS, reporter=Reporter.LEADER)
IN_SYNC = gauge(f"{_PARTITION}in_sync_replica", "Replicas in sync.", *_LABELS, reporter=Reporter.LEADER)
LEADER = gauge(f"{_PARTITION}leader", "Node id of the leader.", *_LABELS, reporter=Reporter.LEADER)
IS_PREFERRED = gauge(
    f"{_PARTITION}leader_is_preferred",
    "1 if the preferred replica is the leader.",
    *_LABELS,
    reporter=Reporter.LEADER,
)
REPLICAS = gauge(f"{_PARTITION}replicas", "Replicas.", *_LABELS, reporter=Reporter.LEADER)
UNDER_REPLICATED = gauge(
    f"{_PARTITION}under_replicated_partition",
    "1 if a replica is out of sync.",
    *_LABELS,
    reporter=Reporter.LEADER,
)

_GROUP = "kafka_consumergroup_"
_OF_GROUP = ("consumergroup", "topic", "partition")
GROUP_OFFSET = gauge(
    f"{_GROUP}current_offset",
    "Committed offset of a group in a partition.",
    *_OF_GROUP,
    reporter=Reporter.COORDINATOR,
)
GROUP_OFFSET_SUM = gauge(
    f"{_GROUP}current_offset_sum",
    "Sum of a group's committed offsets in a topic.",
    "consumergroup",
    "topic",
    reporter=Reporter.COORDINATOR,
)
GROUP_LAG = gauge(
    f"{_GROUP}lag",
    "Consumer lag: records between the committed offset and the high watermark.",
    *_OF_GROUP,
    reporter=Reporter.COORDINATOR,
)
GROUP_LAG_SUM = gauge(
    f"{_GROUP}lag_sum",
    "Consumer lag summed over a topic.",
    "consumergroup",
    "topic",
    reporter=Reporter.COORDINATOR,
)
GROUP_MEMBERS = gauge(
    f"{_GROUP}members", "Members of a group.", "consumergroup", reporter=Reporter.COORDINATOR
)
GROUP_LAG_SECONDS = gauge(
    f"{_GROUP}lag_seconds",
    "Consumer lag in seconds: the age of the first record that the group has not read; 0 without lag. "
    "(Not in kafka_exporter: only a broker can know it.)",
    *_OF_GROUP,
    reporter=Reporter.COORDINATOR,
)
GROUP_LAG_SECONDS_MAX = gauge(
    f"{_GROUP}lag_seconds_max",
    "The largest lag_seconds of a topic's partitions.",
    "consumergroup",
    "topic",
    reporter=Reporter.COORDINATOR,
)
