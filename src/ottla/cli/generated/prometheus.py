"""A Prometheus scrape configuration and alert rules.

Every alert links to its runbook in docs/operations.md, and names the broker (`instance`) that reports it,
except for the one that counts the controllers of the whole cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.cli.generated.yaml_text import to_yaml

JOB = "ottla"
ALERTS_FILE = "ottla-alerts.yml"
CONFIG_FILE = "prometheus.yml"
RUNBOOKS = "https://github.com/ottla/ottla/blob/main/docs/operations.md"
CRITICAL, WARNING = "critical", "warning"


class Rule(NamedTuple):
    """An alert: `runbook` is the heading of docs/operations.md, as an anchor."""

    name: str
    expression: str
    lasting: str
    severity: str
    meaning: str
    runbook: str


def scrape_config(targets: Sequence[str]) -> str:
    """Return a prometheus.yml that scrapes `targets` (HOST:PORT) and loads the alert rules."""
    return to_yaml(
        {
            "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
            "rule_files": [ALERTS_FILE],
            "scrape_configs": [
                {"job_name": JOB, "static_configs": [{"targets": list(targets)}]},
            ],
        },
        f"Prometheus for Ottla. Run it with:  prometheus --config.file={CONFIG_FILE}\n"
        f"The rules in {ALERTS_FILE} come from:  ottla generate prometheus --alerts",
    )


def alert_rules(lag_seconds: int, runbooks: str = RUNBOOKS) -> str:
    """Return the alert rules; groups may have a lag of `lag_seconds`. `runbooks` is the page of runbooks."""
    rules = [_rule(each, runbooks) for each in rules_for(lag_seconds)]
    return to_yaml(
        {"groups": [{"name": JOB, "rules": rules}]},
        "Alert rules for Ottla. Check them with:  promtool check rules " + ALERTS_FILE,
    )


def rules_for(lag_seconds: int) -> tuple[Rule, ...]:
    """Return every rule."""
    return (*BROKER_RULES, *WRITE_RULES, *LOSS_RULES, *DISK_RULES, *_client_rules(lag_seconds))


BROKER_RULES = (
    Rule(
        "OttlaDown",
        f'up{{job="{JOB}"}} == 0',
        "1m",
        CRITICAL,
        "Broker is down: it does not answer scrapes.",
        "a-broker-is-down",
    ),
    Rule(
        "OttlaNotReady",
        "ottla_ready == 0",
        "2m",
        WARNING,
        "Broker is up but not ready; /readyz has the reasons.",
        "a-broker-is-not-ready",
    ),
    Rule(
        "OttlaNoController",
        "sum(kafka_controller_kafkacontroller_activecontrollercount) != 1",
        "1m",
        CRITICAL,
        "There is not exactly one controller that can act: leaders cannot be elected.",
        "zookeeper-has-no-quorum",
    ),
    Rule(
        "OttlaNoMetadataStore",
        "ottla_metadata_store_connected == 0",
        "30s",
        CRITICAL,
        "The metadata store (ZooKeeper) does not answer the broker.",
        "zookeeper-has-no-quorum",
    ),
    Rule(
        "OttlaMetadataRolledBack",
        "ottla_metadata_rolled_back == 1",
        "0s",
        CRITICAL,
        "The metadata store (ZooKeeper) has an older state than the broker: it leads nothing.",
        "zookeeper-was-restored-from-an-older-snapshot",
    ),
    Rule(
        "OttlaStaleMetadata",
        "ottla_metadata_age_seconds > 30",
        "1m",
        WARNING,
        "The broker's metadata is old.",
        "zookeeper-has-no-quorum",
    ),
    Rule(
        "OttlaLoopBlocked",
        "ottla_event_loop_lag_max_seconds > 1",
        "5m",
        WARNING,
        "The broker's event loop is blocked repeatedly: see the slow-request log (ottla.slow).",
        "a-broker-is-slow",
    ),
)
WRITE_RULES = (
    Rule(
        "OttlaOfflinePartitions",
        "kafka_controller_kafkacontroller_offlinepartitionscount > 0",
        "1m",
        CRITICAL,
        "Partitions are offline (no leader): they can be neither written nor read.",
        "partitions-are-offline",
    ),
    Rule(
        "OttlaUnderMinIsr",
        "kafka_server_replicamanager_underminisrpartitioncount > 0",
        "1m",
        CRITICAL,
        "Partitions are below min.insync.replicas: produce with acks=all is rejected.",
        "writes-are-refused-or-wait",
    ),
    Rule(
        "OttlaWritesStalled",
        "ottla_partitions_write_stalled > 0",
        "30s",
        CRITICAL,
        "Writes with acks=all wait for an in-sync replica that does not fetch.",
        "writes-are-refused-or-wait",
    ),
    Rule(
        "OttlaUnderReplicated",
        "kafka_server_replicamanager_underreplicatedpartitions > 0",
        "5m",
        WARNING,
        "Partitions are under-replicated: another failure may take them offline.",
        "a-broker-is-down",
    ),
)
LOSS_RULES = (
    Rule(
        "OttlaUncleanElection",
        "increase(kafka_controller_controllerstats_uncleanleaderelections_total[10m]) > 0",
        "0m",
        CRITICAL,
        "Unclean leader election: committed records may be lost.",
        "records-were-lost",
    ),
    Rule(
        "OttlaLostRecords",
        "increase(ottla_truncations_below_high_watermark_total[10m]) > 0",
        "0m",
        CRITICAL,
        "A log was truncated below its high watermark: committed records are lost on this replica.",
        "records-were-lost",
    ),
    Rule(
        "OttlaLostDisk",
        "ottla_partitions_awaiting_directory > 0",
        "0m",
        CRITICAL,
        "Partitions are offline because the disk with their records is gone.",
        "a-disk-is-lost",
    ),
)
DISK_RULES = (
    Rule(
        "OttlaLogDirectoryOffline",
        "kafka_log_logmanager_offlinelogdirectorycount > 0",
        "0m",
        CRITICAL,
        "A log directory failed: its replicas are offline until the broker is restarted.",
        "a-disk-fails",
    ),
    Rule(
        "OttlaDiskFull",
        "ottla_disk_full > 0",
        "0m",
        CRITICAL,
        "The disk of {{ $labels.directory }} is full: writes to it are refused, other brokers lead.",
        "a-disk-is-full",
    ),
    Rule(
        "OttlaDiskAlmostFull",
        "ottla_disk_free_bytes / ottla_disk_size_bytes < 0.1",
        "10m",
        WARNING,
        "Less than 10 % of the disk of {{ $labels.directory }} is free.",
        "a-disk-is-full",
    ),
    Rule(
        "OttlaDiskFullTomorrow",
        "ottla_disk_free_bytes / ottla_disk_size_bytes < 0.5"
        " and predict_linear(ottla_disk_free_bytes[6h], 86400) < 0",
        "1h",
        WARNING,
        "The disk of {{ $labels.directory }} will be full within a day at the current rate.",
        "a-disk-is-full",
    ),
)


def _client_rules(lag_seconds: int) -> tuple[Rule, ...]:
    return (
        Rule(
            "OttlaConsumerLag",
            f"kafka_consumergroup_lag_seconds_max > {lag_seconds}",
            "5m",
            WARNING,
            f"Consumer lag is more than {lag_seconds} s.",
            "a-group-is-stuck-or-behind",
        ),
        Rule(
            "OttlaStuckGroup",
            "ottla_stuck_groups > 0",
            "5m",
            WARNING,
            "Groups have members and unread records, but commit nothing.",
            "a-group-is-stuck-or-behind",
        ),
        Rule(
            "OttlaTransactionOpen",
            "ottla_transaction_oldest_seconds > 0.5 * ottla_transaction_max_timeout_seconds",
            "1m",
            WARNING,
            "A transaction has been open for more than half of transaction.max.timeout.ms: it blocks "
            "read_committed consumers.",
            "a-transaction-hangs",
        ),
        Rule(
            "OttlaTransactionHanging",
            "ottla_transactions_hanging > 0",
            "1m",
            WARNING,
            "Transactions should have ended: read_committed consumers wait for them.",
            "a-transaction-hangs",
        ),
    )


def _rule(rule: Rule, runbooks: str) -> dict[str, Any]:
    is_of_cluster = "sum(" in rule.expression
    where = "" if is_of_cluster else "{{ $labels.instance }}: "
    return {
        "alert": rule.name,
        "expr": rule.expression,
        "for": rule.lasting,
        "labels": {"severity": rule.severity},
        "annotations": {
            "summary": f"{where}{rule.meaning}",
            "description": "{{ $labels }} is at {{ $value }}",
            "runbook_url": f"{runbooks}#{rule.runbook}",
        },
    }
