"""Lags of groups in a cluster where most partitions have no replica on the group's coordinator."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.integration.scraping import Scrape, scrape, scrape_until

from ottla.common.listeners import Address
from ottla.testing.local_cluster import LocalCluster

PARTITIONS = 6
LONG_AGO_MS = 1_700_000_000_000
APART_S = 100_000
"""Between a record and the next: much longer than a test takes, so that ages tell which record was meant."""
SETTINGS = {"ottla.metrics.listen": "127.0.0.1:0"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, settings=SETTINGS, offsets_topic_replication_factor=1) as running:
        yield running


def metrics_of(cluster: LocalCluster, node_id: int) -> Address:
    addresses = cluster.broker(node_id).addresses
    assert addresses is not None
    assert addresses.metrics is not None
    return addresses.metrics


def use(cluster: LocalCluster, topic: str, group: str) -> int:
    """Produce ten records to each partition and commit partition N at N; return who coordinates the group."""
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
    producer = Producer(servers)
    for partition in range(PARTITIONS):
        for number in range(10):
            at_ms = LONG_AGO_MS + 1000 * APART_S * number
            producer.produce(topic, b"x", partition=partition, timestamp=at_ms)
    assert producer.flush(20) == 0
    consumer = Consumer({**servers, "group.id": group})
    committed = [TopicPartition(topic, index, index * 2) for index in range(PARTITIONS)]
    consumer.commit(offsets=committed, asynchronous=False)
    consumer.close()
    return next(each for each in cluster.running if group in groups_of(cluster, each))


def groups_of(cluster: LocalCluster, node_id: int) -> list[str]:
    return [group for _, group in cluster.broker(node_id).groups.listed_now()]


def described(cluster: LocalCluster, group: str) -> list[dict[str, object]]:
    """Return the partitions as `ottla group describe` shows them."""
    command = [sys.executable, "-m", "ottla.cli", "group", "describe", group, "--format", "json"]
    done = subprocess.run(
        [*command, "-b", cluster.bootstrap_servers], capture_output=True, text=True, timeout=60, check=True
    )
    (found,) = json.loads(done.stdout)
    return list(found["partitions"])


def test_the_coordinator_serves_the_lag_of_partitions_that_it_has_no_replica_of(
    cluster: LocalCluster,
) -> None:
    cluster.create_topic("orders", PARTITIONS, replication_factor=1)
    coordinator = use(cluster, "orders", "billing")
    leaders = {cluster.leader_of("orders", each) for each in range(PARTITIONS)}
    assert len(leaders) > 1  # so that some partitions are elsewhere

    found = scrape(metrics_of(cluster, coordinator))  # the very first scrape
    assert found.value("ottla_consumergroup_lag_unknown_partitions") == 0
    said = described(cluster, "billing")
    assert len(said) == PARTITIONS
    for each in said:
        labels = {"consumergroup": "billing", "topic": "orders", "partition": str(each["partition"])}
        assert found.value("kafka_consumergroup_current_offset", **labels) == each["committed_offset"]
        assert found.value("kafka_consumergroup_lag", **labels) == each["lag"] == 10 - 2 * each["partition"]
        seconds = found.value("kafka_consumergroup_lag_seconds", **labels)
        assert seconds == pytest.approx(each["lag_seconds"], abs=APART_S / 2)
    of_topic = {"consumergroup": "billing", "topic": "orders"}
    assert found.value("kafka_consumergroup_lag_sum", **of_topic) == sum(int(str(it["lag"])) for it in said)


def test_each_scrape_has_the_lag_of_its_moment(cluster: LocalCluster) -> None:
    cluster.create_topic("fresh", PARTITIONS, replication_factor=1)
    coordinator = use(cluster, "fresh", "readers")
    labels = {"consumergroup": "readers", "topic": "fresh"}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for _ in range(3):
        before = scrape(metrics_of(cluster, coordinator)).value("kafka_consumergroup_lag_sum", **labels)
        for partition in range(PARTITIONS):
            producer.produce("fresh", b"x", partition=partition)
        assert producer.flush(20) == 0
        after = scrape(metrics_of(cluster, coordinator)).value("kafka_consumergroup_lag_sum", **labels)
        assert after == before + PARTITIONS


def test_a_partition_whose_leader_is_dead_is_counted_as_unknown(cluster: LocalCluster) -> None:
    cluster.create_topic("bills", PARTITIONS, replication_factor=1)
    coordinator = use(cluster, "bills", "audit")
    victim = next(
        leader for each in range(PARTITIONS) if (leader := cluster.leader_of("bills", each)) != coordinator
    )
    labels = {"consumergroup": "audit", "topic": "bills"}

    def known(found: Scrape) -> list[int]:
        return [
            each
            for each in range(PARTITIONS)
            if found.has("kafka_consumergroup_lag", **labels, partition=str(each))
        ]

    at = metrics_of(cluster, coordinator)
    assert len(known(scrape_until(at, lambda found: len(known(found)) == PARTITIONS))) == PARTITIONS
    lost = [each for each in range(PARTITIONS) if cluster.leader_of("bills", each) == victim]
    cluster.kill(victim)
    left = [each for each in range(PARTITIONS) if each not in lost]
    found = scrape_until(at, lambda found: known(found) == left)
    assert known(found) == left
    assert found.value("ottla_consumergroup_lag_unknown_partitions") >= len(lost)
