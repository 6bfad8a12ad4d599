"""Kafka's own tool for quotas: kafka-configs with users, clients and ips."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.interop.conftest import Tool

from ottla.client import Admin
from ottla.testing.local_broker import OttlaBroker

TOOL = "kafka.admin.ConfigCommand"
PERF = "org.apache.kafka.tools.ProducerPerformance"


@pytest.fixture(scope="module")
def own_broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as started:
        yield started


def quotas_of(broker: OttlaBroker) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    with Admin(broker.bootstrap_servers) as admin:
        return {tuple(each.entity.items()): dict(each.quotas) for each in admin.list_quotas()}


def test_kafka_configs_sets_describes_and_deletes_every_kind_of_entity(
    java: Tool, own_broker: OttlaBroker
) -> None:
    def configs(*arguments: str) -> str:
        return java(TOOL, "--bootstrap-server", own_broker.bootstrap_servers, *arguments).stdout

    user = ("--entity-type", "users", "--entity-name", "alice")
    client = ("--entity-type", "clients", "--entity-name", "app")
    default_client = ("--entity-type", "clients", "--entity-default")
    address = ("--entity-type", "ips", "--entity-name", "127.0.0.9")
    configs("--alter", "--add-config", "producer_byte_rate=1024,consumer_byte_rate=2048", *user)
    configs("--alter", "--add-config", "request_percentage=12.5", *client)
    configs("--alter", "--add-config", "controller_mutation_rate=2", *user, *default_client)
    configs("--alter", "--add-config", "connection_creation_rate=7", *address)
    assert quotas_of(own_broker) == {
        (("user", "alice"),): {"producer_byte_rate": 1024, "consumer_byte_rate": 2048},
        (("client-id", "app"),): {"request_percentage": 12.5},
        (("user", "alice"), ("client-id", None)): {"controller_mutation_rate": 2},
        (("ip", "127.0.0.9"),): {"connection_creation_rate": 7},
    }
    described = configs("--describe", *user)
    assert "producer_byte_rate=1024.0" in described
    assert "user-principal 'alice'" in described
    assert "user-principal 'alice'" in configs("--describe", "--entity-type", "users")
    assert "connection_creation_rate=7.0" in configs("--describe", *address)
    assert "controller_mutation_rate=2.0" in configs("--describe", *user, *default_client)
    configs("--alter", "--delete-config", "producer_byte_rate,consumer_byte_rate", *user)
    configs("--alter", "--delete-config", "connection_creation_rate", *address)
    assert set(quotas_of(own_broker)) == {(("client-id", "app"),), (("user", "alice"), ("client-id", None))}
    refused = java(
        TOOL, "--bootstrap-server", own_broker.bootstrap_servers,
        "--alter", "--add-config", "no_such_quota=1", *user,
        must_succeed=False,
    )  # fmt: skip
    assert refused.returncode != 0


def test_a_throttled_java_producer_sends_everything_and_reports_its_throttle_time(
    java: Tool, own_broker: OttlaBroker
) -> None:
    with Admin(own_broker.bootstrap_servers) as admin:
        admin.create_topic("throttled")
        admin.alter_quotas({"client-id": "perf-producer-client"}, set_to={"producer_byte_rate": 200_000})
    out = java(
        PERF, "--topic", "throttled", "--num-records", "1000", "--record-size", "1000", "--throughput", "-1",
        "--print-metrics", "--producer-props", f"bootstrap.servers={own_broker.bootstrap_servers}",
        "acks=all", "batch.size=50000",
    ).stdout  # fmt: skip
    assert "1000 records sent" in out
    line = next(each for each in out.splitlines() if "produce-throttle-time-max" in each)
    assert float(line.rpartition(":")[2]) > 0
    with Admin(own_broker.bootstrap_servers) as admin:
        (topic,) = admin.describe_topics(["throttled"]).values()
        assert admin.offset_ranges(topic) == {0: (0, 1000)}
