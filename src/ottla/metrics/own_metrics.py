"""The metrics that only Ottla has: its loop, its queues and budgets, transactions, the disk."""

from __future__ import annotations

from ottla.metrics.metric import Kind, Metric, Reporter, counter, gauge

BUILD_INFO = gauge("ottla_build_info", "1, with the version of Ottla.", "version", "node_id", "cluster_id")
READY = gauge("ottla_ready", "1 when /readyz says yes.")

REQUEST_SECONDS = Metric(
    "ottla_request_seconds",
    Kind.HISTOGRAM,
    "From reading a request to its answer. Fetch, JoinGroup and SyncGroup wait as long as clients want.",
    ("request",),
)
REQUEST_LOCAL = counter(
    "ottla_request_local_seconds_total", "Time that requests spent on the loop at once.", "request"
)
SLOW_REQUESTS = counter("ottla_slow_requests_total", "Requests above ottla.slow.request.ms; see the log.")

CONNECTIONS = gauge("ottla_connections", "Connections of clients and other brokers that are open.")
ACCEPTED = counter("ottla_connections_accepted_total", "Connections that were let in.")
REJECTED = counter(
    "ottla_connections_rejected_total", "Connections turned away by max.connections and the like."
)
REFUSED_FRAMES = counter("ottla_refused_frames_total", "Connections closed for the size of a request.")
NETWORK_BYTES = counter("ottla_network_bytes_total", "Bytes read from and written to sockets.", "direction")
READ_PAUSES = counter(
    "ottla_read_pauses_total", "Times a socket was left unread because something had to happen first."
)
IN_FLIGHT = gauge("ottla_requests_in_flight", "Produce requests that are not answered yet.")
IN_FLIGHT_LIMIT = gauge("ottla_requests_in_flight_limit", "How many there may be: queued.max.requests.")
MEMORY = gauge("ottla_request_memory_bytes", "Memory that large requests hold.")
MEMORY_LIMIT = gauge("ottla_request_memory_limit_bytes", "How much it may be: queued.max.request.bytes.")
FETCH_SESSIONS = gauge("ottla_fetch_sessions", "Fetch sessions that are remembered.")

LOOP_LAG = gauge(
    "ottla_event_loop_lag_seconds", "How late the event loop was the last time it was looked at."
)
LOOP_LAG_MAX = gauge(
    "ottla_event_loop_lag_max_seconds", "The largest of these in the last one to two minutes."
)

FLUSHES = counter("ottla_log_flushes_total", "Times a log was flushed to the disk.")
LOG_BYTES = gauge("ottla_log_bytes", "Bytes of all logs of this broker.")
DISK_FREE = gauge("ottla_disk_free_bytes", "Bytes that are free where the data directory is.")
DISK_SIZE = gauge("ottla_disk_size_bytes", "Bytes of the file system where the data directory is.")
REPLICA_LAG = gauge(
    "ottla_replica_lag_records", "How many records the slowest follower of a partition led here is behind."
)
ISR_PENDING = gauge(
    "ottla_isr_changes_pending", "Changes of in-sync replicas that the controller has not answered."
)

TRANSACTIONS = gauge("ottla_transactions", "Transactional ids by the state of their transaction.", "state")
PREPARED = gauge("ottla_transactions_prepared", "Two-phase transactions that wait for their decision.")
OLDEST_TRANSACTION = gauge(
    "ottla_transaction_oldest_seconds", "The age of the oldest transaction that is open."
)
LOADING = gauge(
    "ottla_coordinator_partitions_loading", "Partitions that a coordinator still has to read.", "coordinator"
)
UNKNOWN_LAG = gauge(
    "ottla_consumergroup_lag_unknown_partitions",
    "Partitions of groups whose lag is not known: they have no replica where the group is coordinated, "
    "and their leader has not said yet how long they are, or they have no leader.",
    teller=Reporter.COORDINATOR,
)

LEFT_OUT = gauge(
    "ottla_metrics_left_out",
    "How many have no metrics of their own, for the limits ottla.metrics.max.*",
    "what",
)
SCRAPE_SECONDS = gauge("ottla_scrape_seconds", "How long the last answer to /metrics took.")
