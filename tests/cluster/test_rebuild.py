"""ZooKeeper's data are lost, or older than they were: nothing that was acknowledged is lost with them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.waiting import wait_until

from ottla.testing.broker_process import BrokerFailed
from ottla.testing.cluster_process import ClusterProcess

pytestmark = pytest.mark.slow
WITHIN_S = 60.0
TOPIC = "orders"
PARTITIONS = 3


def ottla(*words: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli", *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, f"ottla {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def produce(cluster: ClusterProcess, first: int, count: int) -> set[str]:
    """Return the records that were acknowledged by all in-sync replicas."""
    acked: set[str] = set()
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True})
    for number in range(first, first + count):
        value = str(number)
        producer.produce(
            TOPIC,
            value,
            partition=number % PARTITIONS,
            on_delivery=lambda error, _, value=value: acked.add(value) if error is None else None,
        )
    assert producer.flush(WITHIN_S) == 0
    return acked


def consume(cluster: ClusterProcess) -> list[str]:
    """Read every partition to its end."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(TOPIC, each, 0) for each in range(PARTITIONS)])
    read, ended, deadline = [], set(), time.monotonic() + WITHIN_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline, f"{len(read)} records read, the ends of {ended}"
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is not None:
            ended.add(message.partition())
        else:
            read.append(message.value().decode())
    consumer.close()
    return read


def is_without(cluster: ClusterProcess, number: int) -> bool:
    """Return whether a broker is in sync nowhere."""
    return all(number not in each.in_sync for each in cluster.view(1).partitions.values())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ClusterProcess(tmp_path, brokers=3, settings={"min.insync.replicas": "1"}) as made:
        admin = AdminClient({"bootstrap.servers": made.bootstrap})
        created = admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, config={"retention.ms": "86400000"})])
        created[TOPIC].result(WITHIN_S)
        made.wait_until_in_sync()
        yield made


def topic_id(cluster: ClusterProcess) -> str:
    (described,) = json.loads(ottla("topic", "describe", TOPIC, "--format", "json", "-b", cluster.bootstrap))
    return str(described["topic_id"])


def test_a_cluster_is_rebuilt_from_its_brokers_after_zookeeper_lost_everything(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    acked = produce(cluster, 0, 300)
    before = topic_id(cluster)
    cluster.kill(3)  # it will be behind, though the first copies call it in sync
    wait_until(lambda: is_without(cluster, 3), "broker 3 out of sync", WITHIN_S)
    acked |= produce(cluster, 300, 300)
    for number in (1, 2):
        cluster.kill(number)
    cluster.zookeeper.kill()
    shutil.rmtree(cluster.zookeeper.data)
    cluster.zookeeper.start()
    with pytest.raises(BrokerFailed):
        cluster.start(1)
    assert "ottla cluster rebuild" in cluster.brokers[1].stderr_tail(30)

    data = [str(cluster.brokers[number].data) for number in (1, 2, 3)]
    scan = str(tmp_path / "three.scan")
    ottla("cluster", "rebuild", data[2], "--scan-to", scan)
    place = ("--zookeeper", cluster.zookeeper.address)
    refused = ottla("cluster", "rebuild", data[0], data[1], *place, "--dry-run", code=1)
    assert "the data of broker 3 is not given" in refused
    ottla("cluster", "rebuild", *data[:2], scan, *place, "--dry-run", code=3)
    ottla("cluster", "rebuild", *data[:2], scan, *place, "--yes")
    cluster.start_together([1, 2, 3])
    cluster.wait_until_in_sync()
    read = consume(cluster)
    assert len(acked) == 600
    assert (len(read), set(read)) == (600, acked)
    assert topic_id(cluster) == before
    configs = ottla("topic", "describe", TOPIC, "--format", "json", "-b", cluster.bootstrap)
    assert '"retention.ms": "86400000"' in configs
    produce(cluster, 600, 30)
    assert len(consume(cluster)) == 630


def test_an_older_zookeeper_is_refused_until_the_newest_state_is_back(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    acked = produce(cluster, 0, 60)
    data = cluster.zookeeper.data
    cluster.zookeeper.stop()
    shutil.copytree(data, tmp_path / "old")
    cluster.zookeeper.start()
    ottla("cluster", "health", "--wait", "60", "-b", cluster.bootstrap)
    for number in range(5):
        ottla("topic", "create", f"later-{number}", "-b", cluster.bootstrap)
    acked |= produce(cluster, 60, 60)
    cluster.wait_until_in_sync()
    cluster.stop(3)
    cluster.zookeeper.stop()
    shutil.copytree(data, tmp_path / "newest")
    shutil.rmtree(data)
    shutil.copytree(tmp_path / "old", data)
    cluster.zookeeper.start()

    def says_so() -> bool:
        shown = subprocess.run(
            [sys.executable, "-m", "ottla.cli", "cluster", "health", "-b", cluster.bootstrap],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return shown.returncode == 1 and shown.stdout.count("went back") >= 1

    wait_until(says_so, "health reports the older ZooKeeper", WITHIN_S)
    with pytest.raises(BrokerFailed):  # also a broker that starts
        cluster.start(3)
    assert "the metadata went back" in cluster.brokers[3].stderr_tail(30)
    for number in (1, 2):
        assert cluster.brokers[number].is_running
        assert "the metadata went back" in cluster.brokers[number].stderr_tail(200)

    cluster.zookeeper.stop()
    shutil.rmtree(data)
    shutil.copytree(tmp_path / "newest", data)
    cluster.zookeeper.start()
    cluster.start(3)
    cluster.wait_until_in_sync()
    read = consume(cluster)
    assert (len(read), set(read)) == (120, acked)
    assert "later-4" in ottla("topic", "list", "-b", cluster.bootstrap)
