"""Kafka's own metrics, under the names that the JMX exporter gives them and that dashboards ask for.

Only what Ottla can tell truly is here: there are no request handler threads to be idle, and no JVM.
"""

from __future__ import annotations

from ottla.metrics.metric import Kind, Metric, Reporter, counter, gauge

TOPIC_COUNTERS = {
    "records_in": counter(
        "kafka_server_brokertopicmetrics_messagesin_total",
        "Records appended by producers; without a topic, of all of them.",
        "topic",
    ),
    "bytes_in": counter(
        "kafka_server_brokertopicmetrics_bytesin_total", "Bytes of records appended by producers.", "topic"
    ),
    "bytes_out": counter(
        "kafka_server_brokertopicmetrics_bytesout_total", "Bytes of records sent to consumers.", "topic"
    ),
    "bytes_rejected": counter(
        "kafka_server_brokertopicmetrics_bytesrejected_total", "Bytes of batches that were refused.", "topic"
    ),
    "produce_requests": counter(
        "kafka_server_brokertopicmetrics_totalproducerequests_total",
        "Batches that producers sent; as in Kafka, counted by partition.",
        "topic",
    ),
    "fetch_requests": counter(
        "kafka_server_brokertopicmetrics_totalfetchrequests_total",
        "Fetches of consumers that were answered; as in Kafka, counted by partition.",
        "topic",
    ),
    "failed_appends": counter(
        "kafka_server_brokertopicmetrics_failedproducerequests_total",
        "Batches that were answered with an error.",
        "topic",
    ),
    "failed_fetches": counter(
        "kafka_server_brokertopicmetrics_failedfetchrequests_total",
        "Fetches of partitions that were answered with an error.",
        "topic",
    ),
}
"""By the attribute of TopicTraffic (or what is derived from it)."""

REPLICATION_BYTES_IN = counter(
    "kafka_server_brokertopicmetrics_replicationbytesin_total", "Bytes copied from the leaders of partitions."
)
REPLICATION_BYTES_OUT = counter(
    "kafka_server_brokertopicmetrics_replicationbytesout_total", "Bytes copied by followers from this leader."
)

_MANAGER = "kafka_server_replicamanager_"
PARTITION_COUNT = gauge(f"{_MANAGER}partitioncount", "Partitions with a replica on this broker.")
LEADER_COUNT = gauge(f"{_MANAGER}leadercount", "Partitions that this broker leads.")
PRODUCER_ID_COUNT = gauge(
    f"{_MANAGER}produceridcount", "Idempotent producers remembered, counted once per partition."
)
UNDER_REPLICATED = gauge(
    f"{_MANAGER}underreplicatedpartitions", "Partitions led here of which some replica is not in sync."
)
UNDER_MIN_ISR = gauge(
    f"{_MANAGER}underminisrpartitioncount", "Partitions led here with fewer in sync than min.insync.replicas."
)
AT_MIN_ISR = gauge(
    f"{_MANAGER}atminisrpartitioncount", "Partitions led here with exactly min.insync.replicas in sync."
)
OFFLINE_REPLICAS = gauge(f"{_MANAGER}offlinereplicacount", "Replicas of this broker that cannot be opened.")
REASSIGNING = gauge(f"{_MANAGER}reassigningpartitions", "Partitions led here whose replicas are being moved.")
ISR_SHRINKS = counter(f"{_MANAGER}isrshrinks_total", "Times an in-sync replica of a partition led here left.")
ISR_EXPANDS = counter(f"{_MANAGER}isrexpands_total", "Times a replica of a partition led here got in sync.")

_CONTROLLER = "kafka_controller_kafkacontroller_"
ACTIVE_CONTROLLER = gauge(f"{_CONTROLLER}activecontrollercount", "1 on the controller, 0 on the others.")
OFFLINE_PARTITIONS = gauge(
    f"{_CONTROLLER}offlinepartitionscount", "Partitions without a leader; 0 on all but the controller."
)
GLOBAL_TOPICS = gauge(f"{_CONTROLLER}globaltopiccount", "Topics; 0 on all but the controller.")
GLOBAL_PARTITIONS = gauge(f"{_CONTROLLER}globalpartitioncount", "Partitions; 0 on all but the controller.")
IMBALANCE = gauge(
    f"{_CONTROLLER}preferredreplicaimbalancecount",
    "Partitions not led by their first replica; 0 on all but the controller.",
)
ACTIVE_BROKERS = gauge(f"{_CONTROLLER}activebrokercount", "Brokers alive; 0 on all but the controller.")
FENCED_BROKERS = gauge(f"{_CONTROLLER}fencedbrokercount", "Brokers lost; 0 on all but the controller.")
ELECTIONS = Metric(
    "kafka_controller_controllerstats_leaderelectionrateandtimems",
    Kind.SUMMARY,
    "Leaders that were elected while this broker was the controller; only the count is served.",
)
UNCLEAN_ELECTIONS = counter(
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "Leaders that were elected without having been in sync, while this broker was the controller.",
)

REQUESTS = counter(
    "kafka_network_requestmetrics_requests_total", "Requests that were answered.", "request", "version"
)
TOTAL_TIME = Metric(
    "kafka_network_requestmetrics_totaltimems",
    Kind.SUMMARY,
    "Milliseconds from reading a request to its answer; quantiles are of the last one to two minutes.",
    ("request", "quantile"),
)
REQUEST_QUEUE = gauge(
    "kafka_network_requestchannel_requestqueuesize", "Connections that wait for the budgets of the broker."
)
MEMORY_AVAILABLE = gauge(
    "kafka_network_socketserver_memorypoolavailable", "Bytes that large requests may still take."
)
MEMORY_USED = gauge("kafka_network_socketserver_memorypoolused", "Bytes that large requests hold.")
PURGATORY = gauge(
    "kafka_server_delayedoperationpurgatory_purgatorysize",
    "Requests that wait: Fetch for records, Produce for replicas and the disk, Rebalance for members.",
    "delayedOperation",
)
BROKER_STATE = gauge(
    "kafka_server_kafkaserver_brokerstate", "1 while the broker starts, 3 when it is ready, 6 when it stops."
)

LOG_SIZE = gauge("kafka_log_log_size", "Bytes of a log.", "topic", "partition", teller=Reporter.REPLICA)
LOG_START = gauge(
    "kafka_log_log_logstartoffset", "The first offset.", "topic", "partition", teller=Reporter.REPLICA
)
LOG_END = gauge(
    "kafka_log_log_logendoffset", "The next offset.", "topic", "partition", teller=Reporter.REPLICA
)
LOG_SEGMENTS = gauge(
    "kafka_log_log_numlogsegments", "Segments of a log.", "topic", "partition", teller=Reporter.REPLICA
)
OFFLINE_DIRECTORIES = gauge(
    "kafka_log_logmanager_offlinelogdirectorycount", "1 after a failed write, until the broker is restarted."
)

_CLUSTER = "kafka_cluster_partition_"
PARTITION_UNDER_REPLICATED = gauge(
    f"{_CLUSTER}underreplicated", "1 if a replica is missing.", "topic", "partition", teller=Reporter.LEADER
)
PARTITION_ISR = gauge(
    f"{_CLUSTER}insyncreplicascount", "Replicas in sync.", "topic", "partition", teller=Reporter.LEADER
)
PARTITION_REPLICAS = gauge(
    f"{_CLUSTER}replicascount", "Replicas.", "topic", "partition", teller=Reporter.LEADER
)

_GROUPS = "kafka_coordinator_group_groupmetadatamanager_"
GROUP_COUNT = gauge(f"{_GROUPS}numgroups", "Groups that this broker coordinates.")
GROUP_OFFSETS = gauge(f"{_GROUPS}numoffsets", "Committed offsets of these groups.")
GROUP_STATES = {
    "Stable": gauge(f"{_GROUPS}numgroupsstable", "Groups in which every member has its partitions."),
    "Empty": gauge(f"{_GROUPS}numgroupsempty", "Groups without members."),
    "PreparingRebalance": gauge(f"{_GROUPS}numgroupspreparingrebalance", "Groups that wait for members."),
    "CompletingRebalance": gauge(
        f"{_GROUPS}numgroupscompletingrebalance", "Groups that wait for an assignment."
    ),
}
