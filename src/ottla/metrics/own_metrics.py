"""The metrics that only Ottla has: event loop, queues and limits, transactions, disk."""

from __future__ import annotations

from ottla.metrics.metric import Kind, Metric, Reporter, counter, gauge

BUILD_INFO = gauge(
    "ottla_build_info", "1, with the version of Ottla as a label.", "version", "node_id", "cluster_id"
)
READY = gauge("ottla_ready", "1 if /readyz returns 200.")
FINDINGS = gauge(
    "ottla_health_findings",
    "Number of findings of the broker about itself, by code; `ottla cluster health` shows them.",
    "code",
)
METADATA_AGE = gauge(
    "ottla_metadata_age_seconds", "For how long the metadata may have been outdated; 0 if it is the newest."
)
STORE_CONNECTED = gauge(
    "ottla_metadata_store_connected", "1 while ZooKeeper, or the embedded store, answers the broker."
)
ROLLED_BACK = gauge(
    "ottla_metadata_rolled_back",
    "1 while the metadata store has an older state than the broker has applied: it leads nothing then.",
)
SESSION = gauge(
    "ottla_session", "1 while the broker is registered in the cluster; otherwise it leads nothing."
)
STALLED = gauge(
    "ottla_partitions_write_stalled",
    "Partitions led here whose writes with acks=all wait for a replica that does not fetch.",
)
AWAITING_DIRECTORY = gauge(
    "ottla_partitions_awaiting_directory",
    "Offline partitions whose records are on a lost disk; 0 on all but the active controller.",
)
LOST_RECORDS = counter(
    "ottla_lost_records_total", "Committed records that were truncated: they are lost on this replica."
)
TRUNCATIONS = counter(
    "ottla_truncations_below_high_watermark_total", "Truncations of a log below its high watermark."
)
STUCK_GROUPS = gauge(
    "ottla_stuck_groups",
    "Groups with members and unread records that have committed nothing for 5 minutes.",
    reporter=Reporter.COORDINATOR,
)
HANGING = gauge(
    "ottla_transactions_hanging",
    "Transactions that should have ended: read_committed consumers wait for them.",
)

REQUEST_SECONDS = Metric(
    "ottla_request_seconds",
    Kind.HISTOGRAM,
    "Seconds from reading a request to its response, including waits of Fetch and JoinGroup.",
    ("request",),
)
REQUEST_LOCAL = counter(
    "ottla_request_local_seconds_total", "Seconds that requests spent on the event loop.", "request"
)
SLOW_REQUESTS = counter(
    "ottla_slow_requests_total", "Requests slower than ottla.slow.request.ms; see the log."
)

CONNECTIONS = gauge("ottla_connections", "Open connections of clients and other brokers.")
ACCEPTED = counter("ottla_connections_accepted_total", "Connections accepted.")
REJECTED = counter(
    "ottla_connections_rejected_total", "Connections rejected by max.connections and related limits."
)
THROTTLED_CONNECTIONS = counter(
    "ottla_connections_throttled_total",
    "Connections refused by the connection_creation_rate of their address.",
)
THROTTLED_REQUESTS = counter(
    "ottla_throttled_requests_total",
    "Requests answered with a throttle time, by the key of the quota.",
    "quota",
)
THROTTLE_SECONDS = counter(
    "ottla_throttle_seconds_total", "Throttle time of these requests, by the key of the quota.", "quota"
)
REFUSED_FRAMES = counter("ottla_refused_frames_total", "Connections closed because a request was too large.")
HANDSHAKES = counter("ottla_tls_handshakes_total", "TLS handshakes: ok or failed.", "result")
LOGINS = counter(
    "ottla_logins_total",
    "Authentications by SASL: ok or failed.",
    "mechanism",
    "result",
)
DENIALS = counter("ottla_denials_total", "Operations that ACLs denied, by operation.", "operation")
NETWORK_BYTES = counter("ottla_network_bytes_total", "Bytes read from and written to sockets.", "direction")
READ_PAUSES = counter("ottla_read_pauses_total", "Times reading from a socket was paused.")
IN_FLIGHT = gauge("ottla_requests_in_flight", "Produce requests in flight.")
IN_FLIGHT_LIMIT = gauge(
    "ottla_requests_in_flight_limit", "Limit of Produce requests in flight: queued.max.requests."
)
MEMORY = gauge("ottla_request_memory_bytes", "Memory used by large requests.")
MEMORY_LIMIT = gauge("ottla_request_memory_limit_bytes", "Limit of that memory: queued.max.request.bytes.")
FETCH_SESSIONS = gauge("ottla_fetch_sessions", "Fetch sessions in the cache.")

LOOP_LAG = gauge("ottla_event_loop_lag_seconds", "Event loop lag at the last measurement.")
LOOP_LAG_MAX = gauge(
    "ottla_event_loop_lag_max_seconds", "The largest event loop lag in the last one to two minutes."
)

FLUSHES = counter("ottla_log_flushes_total", "Times a log was flushed to disk.")
LOG_BYTES = gauge("ottla_log_bytes", "Bytes of all logs of this broker.")
DISK_FULL = gauge("ottla_disk_full", "1 while the disk of a log directory is full.", "directory")
DISK_FREE = gauge("ottla_disk_free_bytes", "Free bytes on the file system of a log directory.", "directory")
DISK_SIZE = gauge("ottla_disk_size_bytes", "Size of the file system of a log directory.", "directory")
REPLICA_LAG = gauge(
    "ottla_replica_lag_records", "Records that the slowest follower of a partition led here is behind."
)
ISR_PENDING = gauge("ottla_isr_changes_pending", "ISR changes that the controller has not answered.")

TRANSACTIONS = gauge("ottla_transactions", "Transactional ids by the state of their transaction.", "state")
PREPARED = gauge(
    "ottla_transactions_prepared", "Prepared two-phase transactions that wait for commit or abort."
)
OLDEST_TRANSACTION = gauge(
    "ottla_transaction_oldest_seconds", "Age of the oldest open transaction that is not prepared."
)
OLDEST_PREPARED = gauge(
    "ottla_transaction_prepared_oldest_seconds", "Age of the oldest prepared transaction."
)
TRANSACTION_LIMIT = gauge(
    "ottla_transaction_max_timeout_seconds",
    "The longest that a transaction may be open: transaction.max.timeout.ms.",
)
LOADING = gauge(
    "ottla_coordinator_partitions_loading", "Partitions that a coordinator still has to load.", "coordinator"
)
UNKNOWN_LAG = gauge(
    "ottla_consumergroup_lag_unknown_partitions",
    "Partitions of groups whose lag is unknown: they have no replica on the group coordinator, "
    "and their leader does not answer, or they have no leader.",
    reporter=Reporter.COORDINATOR,
)

LEFT_OUT = gauge(
    "ottla_metrics_left_out",
    "Topics, partitions and groups without metrics of their own, because of the limits ottla.metrics.max.*",
    "what",
)
SCRAPE_SECONDS = gauge("ottla_scrape_seconds", "Duration of the last scrape of /metrics.")
