"""The metrics that only Ottla has: event loop, queues and limits, transactions, disk."""

from __future__ import annotations

from ottla.metrics.metric import Kind, Metric, Reporter, counter, gauge

BUILD_INFO = gauge(
    "ottla_build_info", "1, with the version of Ottla as a label.", "version", "node_id", "cluster_id"
)
READY = gauge("ottla_ready", "1 if /readyz returns 200.")

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
REFUSED_FRAMES = counter("ottla_refused_frames_total", "Connections closed because a request was too large.")
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
DISK_FREE = gauge("ottla_disk_free_bytes", "Free bytes on the file system of the data directory.")
DISK_SIZE = gauge("ottla_disk_size_bytes", "Size of the file system of the data directory.")
REPLICA_LAG = gauge(
    "ottla_replica_lag_records", "Records that the slowest follower of a partition led here is behind."
)
ISR_PENDING = gauge("ottla_isr_changes_pending", "ISR changes that the controller has not answered.")

TRANSACTIONS = gauge("ottla_transactions", "Transactional ids by the state of their transaction.", "state")
PREPARED = gauge(
    "ottla_transactions_prepared", "Prepared two-phase transactions that wait for commit or abort."
)
OLDEST_TRANSACTION = gauge("ottla_transaction_oldest_seconds", "Age of the oldest open transaction.")
LOADING = gauge(
    "ottla_coordinator_partitions_loading", "Partitions that a coordinator still has to load.", "coordinator"
)
UNKNOWN_LAG = gauge(
    "ottla_consumergroup_lag_unknown_partitions",
    "Partitions of groups whose lag is unknown: they have no replica on the group coordinator, "
    "and their leader has not answered yet, or they have no leader.",
    reporter=Reporter.COORDINATOR,
)

LEFT_OUT = gauge(
    "ottla_metrics_left_out",
    "Topics, partitions and groups without metrics of their own, because of the limits ottla.metrics.max.*",
    "what",
)
SCRAPE_SECONDS = gauge("ottla_scrape_seconds", "Duration of the last scrape of /metrics.")
