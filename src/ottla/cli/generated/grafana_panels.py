"""The panels of the Grafana dashboard and their Prometheus queries, as tables."""

from __future__ import annotations

from typing import NamedTuple

BROKER = 'instance=~"$instance"'
TOPIC = f'{BROKER},topic=~"$topic"'
GROUP = 'consumergroup=~"$group",topic=~"$topic"'
RATE = "[$__rate_interval]"

_WAITING = "kafka_server_delayedoperationpurgatory_purgatorysize"
_READ = "kafka_consumergroup_current_offset"
_TOPICS = "kafka_server_brokertopicmetrics"
_MANAGER = "kafka_server_replicamanager"
_CONTROLLER = "kafka_controller_kafkacontroller"
_REQUESTS = "kafka_network_requestmetrics"


class Panel(NamedTuple):
    """One panel: its title, its queries (expression and legend), and its unit."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    bad_from: float | None = None
    """The threshold from which a number is red; below it is green."""


STATS = (
    Panel("Brokers", (("max(kafka_brokers)", ""),)),
    Panel("Controllers (must be 1)", ((f"sum({_CONTROLLER}_activecontrollercount)", ""),), bad_from=2),
    Panel("Offline partitions", ((f"sum({_CONTROLLER}_offlinepartitionscount)", ""),), bad_from=1),
    Panel("Under-replicated", ((f"sum({_MANAGER}_underreplicatedpartitions)", ""),), bad_from=1),
    Panel("Longest lag", (("max(kafka_consumergroup_lag_seconds_max)", ""),), "s", bad_from=60),
    Panel("Records in", ((f'sum(rate({_TOPICS}_messagesin_total{{topic=""}}{RATE}))', ""),), "rps"),
)

ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Traffic",
        (
            Panel(
                "Records in by topic",
                ((f"sum by (topic) (rate({_TOPICS}_messagesin_total{{{TOPIC}}}{RATE}))", "{{topic}}"),),
                "rps",
            ),
            Panel(
                "Bytes in by topic",
                ((f"sum by (topic) (rate({_TOPICS}_bytesin_total{{{TOPIC}}}{RATE}))", "{{topic}}"),),
                "Bps",
            ),
            Panel(
                "Bytes out by topic",
                ((f"sum by (topic) (rate({_TOPICS}_bytesout_total{{{TOPIC}}}{RATE}))", "{{topic}}"),),
                "Bps",
            ),
            Panel(
                "Refused",
                (
                    (f"sum(rate({_TOPICS}_failedproducerequests_total{{{TOPIC}}}{RATE}))", "produce"),
                    (f"sum(rate({_TOPICS}_failedfetchrequests_total{{{TOPIC}}}{RATE}))", "fetch"),
                ),
                "reqps",
            ),
        ),
    ),
    (
        "Consumer groups (Spark queries commit to groups of their own)",
        (
            Panel(
                "Lag in seconds",
                (
                    (
                        f"max by (consumergroup, topic) (kafka_consumergroup_lag_seconds{{{GROUP}}})",
                        "{{consumergroup}} {{topic}}",
                    ),
                ),
                "s",
            ),
            Panel(
                "Lag in records",
                (
                    (
                        f"sum by (consumergroup, topic) (kafka_consumergroup_lag{{{GROUP}}})",
                        "{{consumergroup}} {{topic}}",
                    ),
                ),
            ),
            Panel(
                "Records read",
                (
                    (
                        f"sum by (consumergroup, topic) (rate({_READ}{{{GROUP}}}{RATE}))",
                        "{{consumergroup}} {{topic}}",
                    ),
                ),
                "rps",
            ),
            Panel(
                "Members",
                (
                    (
                        'sum by (consumergroup) (kafka_consumergroup_members{consumergroup=~"$group"})',
                        "{{consumergroup}}",
                    ),
                ),
            ),
        ),
    ),
    (
        "Requests",
        (
            Panel(
                "Requests by API",
                ((f"sum by (request) (rate({_REQUESTS}_requests_total{{{BROKER}}}{RATE}))", "{{request}}"),),
                "reqps",
            ),
            Panel(
                "99th percentile by API",
                (
                    (
                        "histogram_quantile(0.99, sum by (le, request) "
                        f"(rate(ottla_request_seconds_bucket{{{BROKER}}}{RATE})))",
                        "{{request}}",
                    ),
                ),
                "s",
            ),
            Panel(
                "Time on the event loop by API",
                (
                    (
                        f"sum by (request) (rate(ottla_request_local_seconds_total{{{BROKER}}}{RATE}))",
                        "{{request}}",
                    ),
                ),
                "percentunit",
            ),
            Panel(
                "Produce, 99th percentile by broker",
                (
                    (
                        f'{_REQUESTS}_totaltimems{{{BROKER},request="Produce",quantile="0.99"}}',
                        "{{instance}}",
                    ),
                ),
                "ms",
            ),
        ),
    ),
    (
        "Replication",
        (
            Panel(
                "ISR changes",
                (
                    (
                        f"sum by (instance) (rate({_MANAGER}_isrshrinks_total{{{BROKER}}}{RATE}))",
                        "{{instance}} shrinks",
                    ),
                    (
                        f"sum by (instance) (rate({_MANAGER}_isrexpands_total{{{BROKER}}}{RATE}))",
                        "{{instance}} expands",
                    ),
                ),
            ),
            Panel(
                "Under-replicated partitions",
                ((f"{_MANAGER}_underreplicatedpartitions{{{BROKER}}}", "{{instance}}"),),
            ),
            Panel(
                "Replica lag of the slowest follower, records",
                ((f"ottla_replica_lag_records{{{BROKER}}}", "{{instance}}"),),
            ),
            Panel("Leaders", ((f"{_MANAGER}_leadercount{{{BROKER}}}", "{{instance}}"),)),
            Panel(
                "Replication traffic",
                (
                    (f"rate({_TOPICS}_replicationbytesin_total{{{BROKER}}}{RATE})", "{{instance}} in"),
                    (f"rate({_TOPICS}_replicationbytesout_total{{{BROKER}}}{RATE})", "{{instance}} out"),
                ),
                "Bps",
            ),
            Panel(
                "Elections",
                (
                    (
                        "sum(increase(kafka_controller_controllerstats_leaderelectionrateandtimems_count[5m]))",
                        "all",
                    ),
                    (
                        "sum(increase(kafka_controller_controllerstats_uncleanleaderelections_total[5m]))",
                        "unclean",
                    ),
                ),
            ),
        ),
    ),
    (
        "The broker itself",
        (
            Panel(
                "Event loop lag, maximum of the last minute",
                ((f"ottla_event_loop_lag_max_seconds{{{BROKER}}}", "{{instance}}"),),
                "s",
            ),
            Panel(
                "Processor",
                ((f"rate(process_cpu_seconds_total{{{BROKER}}}{RATE})", "{{instance}}"),),
                "percentunit",
            ),
            Panel("Memory", ((f"process_resident_memory_bytes{{{BROKER}}}", "{{instance}}"),), "bytes"),
            Panel("Connections", ((f"ottla_connections{{{BROKER}}}", "{{instance}}"),)),
            Panel(
                "Requests that wait",
                (
                    (
                        f"sum by (delayedOperation) ({_WAITING}{{{BROKER}}})",
                        "{{delayedOperation}}",
                    ),
                    (
                        f"sum(kafka_network_requestchannel_requestqueuesize{{{BROKER}}})",
                        "for the broker's request limits",
                    ),
                ),
            ),
            Panel(
                "Memory of requests", ((f"ottla_request_memory_bytes{{{BROKER}}}", "{{instance}}"),), "bytes"
            ),
            Panel("Logs", ((f"ottla_log_bytes{{{BROKER}}}", "{{instance}}"),), "bytes"),
            Panel(
                "Free disk", ((f"ottla_disk_free_bytes{{{BROKER}}}", "{{instance}} {{directory}}"),), "bytes"
            ),
            Panel(
                "Transactions",
                (
                    (f'sum by (state) (ottla_transactions{{{BROKER},state!="Dead"}})', "{{state}}"),
                    (f"sum(ottla_transactions_prepared{{{BROKER}}})", "prepared"),
                ),
            ),
            Panel(
                "Largest logs",
                ((f"topk(10, sum by (topic) (kafka_log_log_size{{{TOPIC}}}))", "{{topic}}"),),
                "bytes",
            ),
        ),
    ),
)

SERVICE_ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Security and quotas",
        (
            Panel(
                "Connections that are refused",
                (
                    (f"rate(ottla_connections_rejected_total{{{BROKER}}}{RATE})", "{{instance}} by limits"),
                    (f"rate(ottla_connections_throttled_total{{{BROKER}}}{RATE})", "{{instance}} by rate"),
                ),
            ),
            Panel(
                "Failed logins, failed TLS handshakes and denials",
                (
                    (
                        f'sum by (mechanism) (rate(ottla_logins_total{{{BROKER},result="failed"}}{RATE}))',
                        "{{mechanism}}",
                    ),
                    (f'sum(rate(ottla_tls_handshakes_total{{{BROKER},result="failed"}}{RATE}))', "TLS"),
                    (f"sum(rate(ottla_denials_total{{{BROKER}}}{RATE}))", "denied by ACLs"),
                ),
            ),
            Panel(
                "Throttled requests by quota",
                ((f"sum by (quota) (rate(ottla_throttled_requests_total{{{BROKER}}}{RATE}))", "{{quota}}"),),
                "reqps",
            ),
            Panel(
                "Throttle time by quota",
                ((f"sum by (quota) (rate(ottla_throttle_seconds_total{{{BROKER}}}{RATE}))", "{{quota}}"),),
                "percentunit",
            ),
            Panel(
                "Requests that are refused for their size",
                ((f"rate(ottla_refused_frames_total{{{BROKER}}}{RATE})", "{{instance}}"),),
            ),
        ),
    ),
    (
        "Schema registry",
        (
            Panel(
                "Requests by status",
                ((f"sum by (status) (rate(ottla_registry_requests_total{RATE}))", "{{status}}"),),
                "reqps",
            ),
            Panel(
                "Time of a request, on average",
                (
                    (
                        f"sum(rate(ottla_registry_request_seconds_total{RATE})) "
                        f"/ sum(rate(ottla_registry_requests_total{RATE}))",
                        "all",
                    ),
                ),
                "s",
            ),
            Panel(
                "Subjects and schemas",
                (
                    ("max(ottla_registry_subjects)", "subjects"),
                    ("max by (deleted) (ottla_registry_schemas)", "schemas, deleted: {{deleted}}"),
                ),
            ),
            Panel(
                "Records of the topic that are not read yet",
                (("ottla_registry_lag_records", "{{instance}}"),),
            ),
        ),
    ),
    (
        "Connect",
        (
            Panel(
                "Tasks by state",
                (("sum by (status) (kafka_connect_connector_task_status)", "{{status}}"),),
            ),
            Panel(
                "Records of sources",
                (
                    (
                        "sum by (connector) "
                        f"(rate(kafka_connect_source_task_source_record_write_total{RATE}))",
                        "{{connector}}",
                    ),
                ),
                "rps",
            ),
            Panel(
                "Records of sinks",
                (
                    (
                        f"sum by (connector) (rate(kafka_connect_sink_task_sink_record_send_total{RATE}))",
                        "{{connector}}",
                    ),
                ),
                "rps",
            ),
            Panel(
                "Failures and alarms",
                (
                    (
                        "sum by (connector) (kafka_connect_task_error_total_task_failures)",
                        "{{connector}} failures",
                    ),
                    ("sum by (connector) (ottla_connect_alarms)", "{{connector}} alarms"),
                ),
            ),
        ),
    ),
    (
        "Console",
        (
            Panel(
                "Requests by status",
                ((f"sum by (status) (rate(ottla_console_requests_total{RATE}))", "{{status}}"),),
                "reqps",
            ),
            Panel(
                "Sessions, open streams, unreachable clusters",
                (
                    ("sum(ottla_console_sessions)", "sessions"),
                    ("sum(ottla_console_streams)", "streams"),
                    ('sum(ottla_console_clusters{reachable="false"})', "unreachable clusters"),
                ),
            ),
        ),
    ),
    (
        "Spark",
        (
            Panel(
                "Rows by query",
                ((f"sum by (query) (rate(ottla_spark_query_rows_total{RATE}))", "{{query}}"),),
                "rps",
            ),
            Panel(
                "Lag by query",
                (("max by (query) (ottla_spark_source_seconds_behind)", "{{query}}"),),
                "s",
            ),
            Panel(
                "Duration of a batch",
                (("max by (query) (ottla_spark_query_batch_seconds)", "{{query}}"),),
                "s",
            ),
            Panel(
                "Failed queries, rows of state",
                (
                    ("sum by (query) (ottla_spark_query_failed)", "{{query}} failed"),
                    ("max by (query) (ottla_spark_query_state_rows)", "{{query}} state"),
                ),
            ),
        ),
    ),
)
"""What the broker's limits do, and the services beside it."""

VARIABLES = {
    "instance": "label_values(ottla_build_info, instance)",
    "topic": "label_values(kafka_topic_partition_current_offset, topic)",
    "group": "label_values(kafka_consumergroup_members, consumergroup)",
}
