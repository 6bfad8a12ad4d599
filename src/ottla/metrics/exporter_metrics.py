"""The metrics of kafka_exporter, which asks a cluster from outside; here the brokers tell them themselves.

kafka_exporter runs once for a whole cluster, so dashboards sum what it says. Of these every series is
therefore served by exactly one broker.
"""

from __future__ import annotations

from ottla.metrics.metric import Reporter, gauge

BROKERS = gauge("kafka_brokers", "Brokers alive in the cluster.", teller=Reporter.CONTROLLER)
BROKER_INFO = gauge("kafka_broker_info", "1 for a broker that runs.", "id", "address")

TOPIC_PARTITIONS = gauge(
    "kafka_topic_partitions", "Partitions of a topic.", "topic", teller=Reporter.CONTROLLER
)

_PARTITION = "kafka_topic_partition_"
_LABELS = ("topic", "partition")
CURRENT_OFFSET = gauge(
    f"{_PARTITION}current_offset", "The end of what consumers can read.", *_LABELS, teller=Reporter.LEADER
)
OLDEST_OFFSET = gauge(f"{_PARTITION}oldest_offset", "The first offset.", *_LABELS, teller=Reporter.LEADER)
IN_SYNC = gauge(f"{_PARTITION}in_sync_replica", "Replicas in sync.", *_LABELS, teller=Reporter.LEADER)
LEADER = gauge(f"{_PARTITION}leader", "The number of the leader.", *_LABELS, teller=Reporter.LEADER)
IS_PREFERRED = gauge(
    f"{_PARTITION}leader_is_preferred", "1 if the first replica leads.", *_LABELS, teller=Reporter.LEADER
)
REPLICAS = gauge(f"{_PARTITION}replicas", "Replicas.", *_LABELS, teller=Reporter.LEADER)
UNDER_REPLICATED = gauge(
    f"{_PARTITION}under_replicated_partition",
    "1 if a replica is not in sync.",
    *_LABELS,
    teller=Reporter.LEADER,
)

_GROUP = "kafka_consumergroup_"
_OF_GROUP = ("consumergroup", "topic", "partition")
GROUP_OFFSET = gauge(
    f"{_GROUP}current_offset", "The committed offset.", *_OF_GROUP, teller=Reporter.COORDINATOR
)
GROUP_OFFSET_SUM = gauge(
    f"{_GROUP}current_offset_sum",
    "The committed offsets of a topic, added up.",
    "consumergroup",
    "topic",
    teller=Reporter.COORDINATOR,
)
GROUP_LAG = gauge(
    f"{_GROUP}lag",
    "Records between the committed offset and the end.",
    *_OF_GROUP,
    teller=Reporter.COORDINATOR,
)
GROUP_LAG_SUM = gauge(
    f"{_GROUP}lag_sum", "The same for a topic.", "consumergroup", "topic", teller=Reporter.COORDINATOR
)
GROUP_MEMBERS = gauge(f"{_GROUP}members", "Members of a group.", "consumergroup", teller=Reporter.COORDINATOR)
GROUP_LAG_SECONDS = gauge(
    f"{_GROUP}lag_seconds",
    "The age of the first record that the group has not read; 0 when it has read all. "
    "(kafka_exporter has no such: only a broker can know it.)",
    *_OF_GROUP,
    teller=Reporter.COORDINATOR,
)
GROUP_LAG_SECONDS_MAX = gauge(
    f"{_GROUP}lag_seconds_max",
    "The largest lag_seconds of a topic's partitions.",
    "consumergroup",
    "topic",
    teller=Reporter.COORDINATOR,
)
