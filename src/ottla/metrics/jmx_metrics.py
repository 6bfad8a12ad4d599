"""Kafka's own metrics, under the names that the JMX exporter gives them and that dashboards query.

Metrics without a counterpart are left out: there are no request handler threads, and no JVM.
"""

from __future__ import annotations

from ottla.metrics.metric import Kind, Metric, Reporter, counter, gauge

TOPIC_COUNTERS = {
    "records_in": counter(
        "kafka_server_brokertopicmetrics_messagesin_total",
        "Records appended by producers; without a topic label: of all topics.",
        "topic",
    ),
    "bytes_in": counter(
        "kafka_server_brokertopicmetrics_bytesin_total", "Bytes of records appended by producers.", "topic"
    ),
    "bytes_out": counter(
        "kafka_server_brokertopicmetrics_bytesout_total", "Bytes of records sent to consumers.", "topic"
    ),
    "bytes_rejected": counter(
        "kafka_server_brokertopicmetrics_bytesrejected_total", "Bytes of rejected batches.", "topic"
    ),
    "produce_requests": counter(
        "kafka_server_brokertopicmetrics_totalproducerequests_total",
        "Batches sent by producers; counted by partition, as in Kafka.",
        "topic",
    ),
    "fetch_requests": counter(
        "kafka_server_brokertopicmetrics_totalfetchrequests_total",
        "Consumer fetches answered; counted by partition, as in Kafka.",
        "topic",
    ),
    "failed_appends": counter(
        "kafka_server_brokertopicmetrics_failedproducerequests_total",
        "Batches answered with an error.",
        "topic",
    ),
    "failed_fetches": counter(
        "kafka_server_brokertopicmetrics_failedfetchrequests_total",
        "Partition fetches answered with an error.",
        "topic",
    ),
}
"""By the attribute of TopicTraffic (or what is derived from it)."""

REPLICATION_BYTES_IN = counter(
    "kafka_server_brokertopicmetrics_replicationbytesin_total",
    "Bytes replicated from leaders to this broker.",
)
REPLICATION_BYTES_OUT = counter(
    "kafka_server_brokertopicmetrics_replicationbytesout_total",
    "Bytes replicated from this broker to followers.",
)

_MANAGER = "kafka_server_replicamanager_"
PARTITION_COUNT = gauge(f"{_MANAGER}partitioncount", "Partitions with a replica on this broker.")
LEADER_COUNT = gauge(f"{_MANAGER}leadercount", "Partitions led by this broker.")
PRODUCER_ID_COUNT = gauge(
    f"{_MANAGER}produceridcount", "Producer states of idempotent producers, counted once per partition."
)
UNDER_REPLICATED = gauge(
    f"{_MANAGER}underreplicatedpartitions", "Partitions led here with a replica out of sync."
)
UNDER_MIN_ISR = gauge(
    f"{_MANAGER}underminisrpartitioncount",
    "Partitions led here with fewer in-sync replicas than min.insync.replicas.",
)
AT_MIN_ISR = gauge(
    f"{_MANAGER}atminisrpartitioncount",
    "Partitions led here with exactly min.insync.replicas in-sync replicas.",
)
OFFLINE_REPLICAS = gauge(
    f"{_MANAGER}offlinereplicacount",
    "Replicas of this broker that cannot be opened, or whose log directory is offline.",
)
REASSIGNING = gauge(f"{_MANAGER}reassigningpartitions", "Partitions led here that are being reassigned.")
ISR_SHRINKS = counter(f"{_MANAGER}isrshrinks_total", "Times a replica of a partition led here left the ISR.")
ISR_EXPANDS = counter(
    f"{_MANAGER}isrexpands_total", "Times a replica of a partition led here joined the ISR."
)

_CONTROLLER = "kafka_controller_kafkacontroller_"
ACTIVE_CONTROLLER = gauge(
    f"{_CONTROLLER}activecontrollercount",
    "1 on the active controller, 0 on the others, and while the metadata store does not answer it.",
)
OFFLINE_PARTITIONS = gauge(
    f"{_CONTROLLER}offlinepartitionscount", "Partitions without a leader; 0 on all but the active controller."
)
GLOBAL_TOPICS = gauge(
    f"{_CONTROLLER}globaltopiccount", "Number of topics; 0 on all but the active controller."
)
GLOBAL_PARTITIONS = gauge(
    f"{_CONTROLLER}globalpartitioncount", "Number of partitions; 0 on all but the active controller."
)
IMBALANCE = gauge(
    f"{_CONTROLLER}preferredreplicaimbalancecount",
    "Partitions not led by their preferred replica; 0 on all but the active controller.",
)
ACTIVE_BROKERS = gauge(f"{_CONTROLLER}activebrokercount", "Live brokers; 0 on all but the active controller.")
FENCED_BROKERS = gauge(
    f"{_CONTROLLER}fencedbrokercount", "Fenced brokers; 0 on all but the active controller."
)
ELECTIONS = Metric(
    "kafka_controller_controllerstats_leaderelectionrateandtimems",
    Kind.SUMMARY,
    "Leader elections while this broker was the active controller; only the count is served.",
)
UNCLEAN_ELECTIONS = counter(
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "Unclean leader elections while this broker was the active controller.",
)

REQUESTS = counter("kafka_network_requestmetrics_requests_total", "Requests answered.", "request", "version")
TOTAL_TIME = Metric(
    "kafka_network_requestmetrics_totaltimems",
    Kind.SUMMARY,
    "Milliseconds from reading a request to its response; quantiles are of the last one to two minutes.",
    ("request", "quantile"),
)
REQUEST_QUEUE = gauge(
    "kafka_network_requestchannel_requestqueuesize",
    "Connections that wait for the request limits of the broker.",
)
MEMORY_AVAILABLE = gauge(
    "kafka_network_socketserver_memorypoolavailable", "Bytes still available for large requests."
)
MEMORY_USED = gauge("kafka_network_socketserver_memorypoolused", "Bytes used by large requests.")
PURGATORY = gauge(
    "kafka_server_delayedoperationpurgatory_purgatorysize",
    "Waiting requests: Fetch for records, Produce for replicas and the disk, Rebalance for members.",
    "delayedOperation",
)
BROKER_STATE = gauge(
    "kafka_server_kafkaserver_brokerstate", "1 while the broker starts, 3 while it runs, 6 while it stops."
)

LOG_SIZE = gauge("kafka_log_log_size", "Bytes of a log.", "topic", "partition", reporter=Reporter.REPLICA)
LOG_START = gauge(
    "kafka_log_log_logstartoffset", "The first offset.", "topic", "partition", reporter=Reporter.REPLICA
)
LOG_END = gauge(
    "kafka_log_log_logendoffset", "The next offset.", "topic", "partition", reporter=Reporter.REPLICA
)
LOG_SEGMENTS = gauge(
    "kafka_log_log_numlogsegments", "Segments of a log.", "topic", "partition", reporter=Reporter.REPLICA
)
OFFLINE_DIRECTORIES = gauge(
    "kafka_log_logmanager_offlinelogdirectorycount",
    "Log directories that failed or were missing at the start, until the broker is restarted.",
)

_CLUSTER = "kafka_cluster_partition_"
PARTITION_UNDER_REPLICATED = gauge(
    f"{_CLUSTER}underreplicated",
    "1 if the partition is under-replicated.",
    "topic",
    "partition",
    reporter=Reporter.LEADER,
)
PARTITION_ISR = gauge(
    f"{_CLUSTER}insyncreplicascount", "Replicas in sync.", "topic", "partition", reporter=Reporter.LEADER
)
PARTITION_REPLICAS = gauge(
    f"{_CLUSTER}replicascount", "Replicas.", "topic", "partition", reporter=Reporter.LEADER
)

_GROUPS = "kafka_coordinator_group_groupmetadatamanager_"
GROUP_COUNT = gauge(f"{_GROUPS}numgroups", "Groups that this broker coordinates.")
GROUP_OFFSETS = gauge(f"{_GROUPS}numoffsets", "Committed offsets of these groups.")
GROUP_STATES = {
    "Stable": gauge(f"{_GROUPS}numgroupsstable", "Groups in which every member has its assignment."),
    "Empty": gauge(f"{_GROUPS}numgroupsempty", "Groups without members."),
    "PreparingRebalance": gauge(
        f"{_GROUPS}numgroupspreparingrebalance", "Groups that wait for members to join."
    ),
    "CompletingRebalance": gauge(
        f"{_GROUPS}numgroupscompletingrebalance", "Groups that wait for an assignment."
    ),
}
