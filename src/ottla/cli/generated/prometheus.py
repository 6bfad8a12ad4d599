"""A Prometheus scrape configuration and alert rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.cli.generated.yaml_text import to_yaml

JOB = "ottla"
ALERTS_FILE = "ottla-alerts.yml"
CONFIG_FILE = "prometheus.yml"

Rule = tuple[str, str, str, str, str]
"""Name, expression, duration, severity, description."""


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


def alert_rules(lag_seconds: int) -> str:
    """Return the alert rules; groups may have a lag of `lag_seconds`."""
    rules = [_rule(*each) for each in rules_for(lag_seconds)]
    return to_yaml(
        {"groups": [{"name": JOB, "rules": rules}]},
        "Alert rules for Ottla. Check them with:  promtool check rules " + ALERTS_FILE,
    )


def rules_for(lag_seconds: int) -> tuple[Rule, ...]:
    """Return every rule."""
    return (
        (
            "OttlaDown",
            f'up{{job="{JOB}"}} == 0',
            "1m",
            "critical",
            "Broker is down: it does not answer scrapes.",
        ),
        ("OttlaNotReady", "ottla_ready == 0", "2m", "warning", "Broker is up but not ready; see /readyz."),
        (
            "OttlaNoController",
            "sum(kafka_controller_kafkacontroller_activecontrollercount) != 1",
            "1m",
            "critical",
            "There is not exactly one controller: topics cannot be changed, leaders cannot be elected.",
        ),
        (
            "OttlaOfflinePartitions",
            "sum(kafka_controller_kafkacontroller_offlinepartitionscount) > 0",
            "1m",
            "critical",
            "Partitions are offline (no leader): they can be neither written nor read.",
        ),
        (
            "OttlaUnderMinIsr",
            "sum(kafka_server_replicamanager_underminisrpartitioncount) > 0",
            "1m",
            "critical",
            "Partitions are below min.insync.replicas: produce with acks=all is rejected.",
        ),
        (
            "OttlaUnderReplicated",
            "sum(kafka_server_replicamanager_underreplicatedpartitions) > 0",
            "5m",
            "warning",
            "Partitions are under-replicated: another failure may take them offline.",
        ),
        (
            "OttlaUncleanElection",
            "increase(kafka_controller_controllerstats_uncleanleaderelections_total[10m]) > 0",
            "0m",
            "critical",
            "Unclean leader election: committed records may be lost.",
        ),
        (
            "OttlaConsumerLag",
            f"max by (consumergroup, topic) (kafka_consumergroup_lag_seconds_max) > {lag_seconds}",
            "5m",
            "warning",
            f"Consumer lag is more than {lag_seconds} s.",
        ),
        (
            "OttlaLogDirectoryOffline",
            "kafka_log_logmanager_offlinelogdirectorycount > 0",
            "0m",
            "critical",
            "A write to disk failed: the broker rejects records until it is restarted.",
        ),
        (
            "OttlaDiskAlmostFull",
            "ottla_disk_free_bytes / ottla_disk_size_bytes < 0.1",
            "10m",
            "warning",
            "Less than 10 % of the disk is free.",
        ),
        (
            "OttlaDiskFullTomorrow",
            "predict_linear(ottla_disk_free_bytes[6h], 86400) < 0",
            "1h",
            "warning",
            "The disk will be full within a day at the current rate.",
        ),
        (
            "OttlaTransactionOpen",
            "ottla_transaction_oldest_seconds > 3600 and ottla_transactions_prepared == 0",
            "5m",
            "warning",
            "A transaction has been open for an hour: it blocks read_committed consumers.",
        ),
        (
            "OttlaLoopBlocked",
            "ottla_event_loop_lag_max_seconds > 1",
            "5m",
            "warning",
            "The broker's event loop is blocked repeatedly: see the slow-request log (ottla.slow).",
        ),
    )


def _rule(name: str, expression: str, lasting: str, severity: str, meaning: str) -> dict[str, Any]:
    return {
        "alert": name,
        "expr": expression,
        "for": lasting,
        "labels": {"severity": severity},
        "annotations": {"summary": meaning, "description": "{{ $labels }} is at {{ $value }}"},
    }
