import re

from ottla.metrics.catalogue import FAMILIES, METRICS, served_names
from ottla.metrics.metric import Kind

NAME = re.compile(r"[a-z][a-z0-9_]*")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def test_a_name_is_declared_once():
    names = [each.name for family in FAMILIES.values() for each in family]
    assert len(names) == len(set(names)) == len(METRICS)


def test_names_and_labels_are_what_prometheus_takes():
    for each in METRICS.values():
        assert NAME.fullmatch(each.name), each.name
        assert all(LABEL.fullmatch(label) for label in each.labels), each
        assert (each.kind is Kind.COUNTER) == each.name.endswith("_total")


def test_every_metric_says_what_it_means():
    for each in METRICS.values():
        assert each.help.endswith((".", ")", "max.*")), each.name
        assert "|" not in each.help


def test_the_names_of_both_families_that_dashboards_use_are_there():
    assert {
        "kafka_server_brokertopicmetrics_messagesin_total",
        "kafka_server_replicamanager_underreplicatedpartitions",
        "kafka_controller_kafkacontroller_activecontrollercount",
        "kafka_network_requestmetrics_totaltimems_count",
        "kafka_log_log_size",
        "kafka_topic_partition_current_offset",
        "kafka_consumergroup_lag",
        "kafka_consumergroup_lag_seconds",
        "process_cpu_seconds_total",
    } <= served_names()
