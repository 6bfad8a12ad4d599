"""Brokers with two log directories, as real clients see them: placement, moves, failed and missing disks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka.admin import KafkaAdminClient
from kafka.errors import NoError
from tests.integration.scraping import get_json, scrape
from tests.waiting import wait_until

from ottla.cli.cluster import command as cluster_command
from ottla.cli.cluster import move_replicas
from ottla.cli.main import run
from ottla.client import Admin
from ottla.client.errors import ConnectionLost
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import LogDirNotFound, ReplicaNotAvailable
from ottla.testing.local_cluster import LocalCluster
from ottla.wire.address import Address

LOADED = (cluster_command, move_replicas)
"""Imported before there is another thread: pytest's rewriting of modules is not safe beside one."""
WITHIN_S = 30.0


@pytest.fixture
def two_disks(tmp_path: Path) -> Iterator[LocalCluster]:
    settings = {"ottla.metrics.listen": "127.0.0.1:0", "num.partitions": "4"}
    with LocalCluster(1, folder=tmp_path, directories=2, settings=settings) as made:
        yield made


def produce(cluster: LocalCluster, topic: str, partitions: range, count: int, first: int = 0) -> list[object]:
    """Produce with librdkafka; return the errors."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "message.timeout.ms": 3000})
    for number in range(first, first + count):
        for partition in partitions:
            producer.produce(
                topic,
                f"{number}".encode(),
                partition=partition,
                on_delivery=lambda error, _: errors.append(error) if error is not None else None,
            )
    producer.flush(WITHIN_S)
    return errors


def values(cluster: LocalCluster, topic: str) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for record in cluster.topic(topic).records():
        found.setdefault(record.partition, []).append((record.value or b"").decode())
    return found


def logs_in(directory: Path, topic: str) -> list[str]:
    return sorted(each.name for each in directory.iterdir() if each.name.startswith(f"{topic}-"))


def offline_directories(cluster: LocalCluster) -> float:
    addresses = cluster.broker(1).addresses
    assert addresses is not None
    assert addresses.metrics is not None
    return scrape(addresses.metrics).value("kafka_log_logmanager_offlinelogdirectorycount")


def test_new_replicas_are_spread_and_found_again(two_disks: LocalCluster) -> None:
    two_disks.create_topic("spread", 4)
    first, second = two_disks.directories_of(1)
    assert logs_in(first, "spread") == ["spread-0", "spread-2"]
    assert logs_in(second, "spread") == ["spread-1", "spread-3"]
    assert produce(two_disks, "spread", range(4), 10) == []
    two_disks.stop(1)
    two_disks.start(1)
    assert values(two_disks, "spread") == {each: [str(n) for n in range(10)] for each in range(4)}


def test_kafka_python_describes_and_moves_replicas_while_they_are_written(two_disks: LocalCluster) -> None:
    two_disks.create_topic("moving", 2, segment_bytes=20_000)
    first, second = map(str, two_disks.directories_of(1))
    assert produce(two_disks, "moving", range(2), 500) == []
    admin = KafkaAdminClient(bootstrap_servers=two_disks.bootstrap_servers)
    try:
        (outcome,) = admin.alter_replica_log_dirs({("moving", 0, 1): second}).values()
        assert outcome is NoError
        assert produce(two_disks, "moving", range(2), 500, first=500) == []
        wait_until(lambda: "moving-0" in logs_in(Path(second), "moving"), "the replica is moved")
        described = json.dumps(admin.describe_log_dirs(), default=str)
    finally:
        admin.close()
    assert first in described
    assert second in described
    assert produce(two_disks, "moving", range(2), 100, first=1000) == []
    expected = {each: [str(n) for n in range(1100)] for each in range(2)}
    assert values(two_disks, "moving") == expected
    two_disks.kill(1)
    two_disks.start(1)
    assert values(two_disks, "moving") == expected
    found = {at: each.path for each in admin_directories(two_disks) for at in each.replicas}
    assert found[TopicPartition("moving", 0)] == second


def admin_directories(cluster: LocalCluster) -> list[Any]:
    with Admin(cluster.bootstrap_servers) as admin:
        return admin.describe_log_dirs()[1]


def test_moves_are_refused_with_the_errors_of_kafka(two_disks: LocalCluster) -> None:
    two_disks.create_topic("refused", 1)
    first, second = map(str, two_disks.directories_of(1))
    here, nowhere = TopicPartition("refused", 0), TopicPartition("missing", 0)
    with Admin(two_disks.bootstrap_servers) as admin:
        outcome = admin.alter_replica_log_dirs(1, {here: "/nowhere"})
        assert isinstance(outcome[here], LogDirNotFound)
        assert admin.alter_replica_log_dirs(1, {here: first}) == {here: None}
        outcome = admin.alter_replica_log_dirs(1, {nowhere: second})
        assert outcome[nowhere] is not None
    two_disks.create_topic("missing", 1)
    assert logs_in(Path(second), "missing") == ["missing-0"], "the directory was chosen before it existed"


def test_the_command_moves_and_waits(two_disks: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    two_disks.create_topic("by-hand", 2)
    assert produce(two_disks, "by-hand", range(2), 50) == []
    _, second = map(str, two_disks.directories_of(1))
    to = ["-b", two_disks.bootstrap_servers]
    assert run(["cluster", "move-replicas", "1", "by-hand", "--to", second, *to]) == 0
    assert "2 replicas moved" in capsys.readouterr().err
    assert logs_in(Path(second), "by-hand") == ["by-hand-0", "by-hand-1"]
    assert run(["cluster", "describe-log-dirs", *to]) == 0
    assert second in capsys.readouterr().out
    assert values(two_disks, "by-hand") == {each: [str(n) for n in range(50)] for each in range(2)}


def test_the_command_says_that_a_broker_that_dies_continues_the_move_later(
    two_disks: LocalCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dead(*_: object) -> dict[int, Any]:
        raise ConnectionLost(Address("127.0.0.1", 1), "connection refused")

    two_disks.create_topic("by-hand", 2)
    monkeypatch.setattr(move_replicas, "describe_log_dirs", dead)
    to = ["--to", str(two_disks.directories_of(1)[1]), "-b", two_disks.bootstrap_servers]
    assert run(["cluster", "move-replicas", "1", "by-hand", *to]) == 1
    said = capsys.readouterr().err
    assert "broker 1 does not answer any more: " in said
    assert "start it, and it continues; to see how far it is:  ottla cluster describe-log-dirs 1" in said


def test_a_full_disk_among_others_is_named_and_the_broker_stays_ready(
    two_disks: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = two_disks.directories_of(1)
    broker = two_disks.broker(1)
    address = broker.addresses.metrics if broker.addresses is not None else None
    assert address is not None
    broker.log_directories.directories[1].storage.is_full = True
    assert get_json(address, "/healthz")[1]["log_directories"] == {str(first): "online", str(second): "full"}
    status, ready = get_json(address, "/readyz")
    (finding,) = ready["findings"]
    assert (status, finding["code"]) == (200, "disk-full")
    assert f"{second} is full" in finding["what"]
    assert finding["fix"].endswith(f"ottla cluster move-replicas 1 TOPIC --to {first}")
    scraped = scrape(address)
    assert scraped.value("ottla_disk_full", directory=str(first)) == 0
    assert scraped.value("ottla_disk_full", directory=str(second)) == 1
    assert scraped.value("ottla_disk_free_bytes", directory=str(second)) > 0
    with pytest.raises(SystemExit):
        run(["cluster", "health", "-b", two_disks.bootstrap_servers])
    assert f"{second} is full" in capsys.readouterr().out
    broker.log_directories.directories[0].storage.is_full = True
    assert get_json(address, "/readyz")[0] == 503
    for each in broker.log_directories.directories:
        each.storage.is_full = False
    assert get_json(address, "/healthz")[0] == 200


def test_a_disk_that_fails_takes_its_replicas_offline_and_not_the_broker(two_disks: LocalCluster) -> None:
    two_disks.create_topic("halved", 4)
    assert produce(two_disks, "halved", range(4), 5) == []
    assert offline_directories(two_disks) == 0
    broker = two_disks.broker(1)
    broker.log_directories.directories[1].storage.take_offline("writing: Input/output error")
    wait_until(lambda: broker.cluster.image.topics["halved"].partitions[1].leader == -1, "the leader is gone")
    assert produce(two_disks, "halved", range(0, 4, 2), 5, first=5) == []
    assert produce(two_disks, "halved", range(1, 2), 1) != []
    assert offline_directories(two_disks) == 1
    addresses = broker.addresses
    assert addresses is not None
    assert addresses.metrics is not None
    status, health = get_json(addresses.metrics, "/healthz")
    assert (status, list(health["log_directories"].values())) == (
        503,
        ["online", "offline: writing: Input/output error"],
    )
    status, ready = get_json(addresses.metrics, "/readyz")
    assert (status, next(each["code"] for each in ready["findings"])) == (200, "log-directory-offline")
    assert [each.error is None for each in admin_directories(two_disks)] == [True, False]
    two_disks.stop(1)
    two_disks.start(1)
    wait_until(lambda: len(values(two_disks, "halved")) == 4, "all partitions are back")
    found = values(two_disks, "halved")
    assert found[1] == [str(n) for n in range(5)]
    assert found[0] == [str(n) for n in range(10)]


def test_a_disk_that_is_missing_at_the_start_returns_with_its_records(two_disks: LocalCluster) -> None:
    two_disks.create_topic("away", 4)
    assert produce(two_disks, "away", range(4), 5) == []
    _, second = two_disks.directories_of(1)
    two_disks.stop(1)
    aside = second.with_name("aside")
    second.rename(aside)
    second.write_text("not a directory")
    two_disks.start(1)
    assert offline_directories(two_disks) == 1
    assert produce(two_disks, "away", range(0, 4, 2), 5, first=5) == []
    assert produce(two_disks, "away", range(1, 2), 1) != []
    two_disks.create_topic("new", 2)
    assert len(logs_in(two_disks.directories_of(1)[0], "new")) == 2
    two_disks.stop(1)
    second.unlink()
    aside.rename(second)
    two_disks.start(1)
    wait_until(lambda: len(values(two_disks, "away")) == 4, "all partitions are back")
    assert values(two_disks, "away")[3] == [str(n) for n in range(5)]


def test_with_replicas_elsewhere_nothing_is_lost_and_a_new_disk_is_filled_again(tmp_path: Path) -> None:
    with LocalCluster(3, folder=tmp_path, directories=2) as cluster:
        cluster.create_topic("safe", 4)
        cluster.wait_until_in_sync()
        assert produce(cluster, "safe", range(4), 20) == []
        broker = cluster.broker(1)
        failing = broker.log_directories.directories[1]
        lost = [at.partition for at in failing.logs if at.topic == "safe"]
        assert lost
        failing.storage.take_offline("writing: Input/output error")
        for partition in lost:
            wait_until(lambda at=partition: cluster.leader_of("safe", at) != 1, "another broker leads")  # type: ignore[misc]
        assert produce(cluster, "safe", range(4), 20, first=20) == []
        cluster.stop(1)
        shutil.rmtree(failing.path)
        cluster.start(1)
        cluster.wait_until_in_sync()
        assert logs_in(Path(failing.path), "safe") == [f"safe-{each}" for each in sorted(lost)]
        assert values(cluster, "safe") == {each: [str(n) for n in range(40)] for each in range(4)}


def test_replicas_that_are_not_here_are_not_available(tmp_path: Path) -> None:
    with LocalCluster(2, folder=tmp_path, directories=2) as cluster:
        cluster.create_topic("one", 1, replication_factor=1)
        other = 3 - cluster.leader_of("one")
        at = TopicPartition("one", 0)
        path = str(cluster.directories_of(other)[1])
        with Admin(cluster.bootstrap_servers) as admin:
            assert isinstance(admin.alter_replica_log_dirs(other, {at: path})[at], ReplicaNotAvailable)
            admin.reassign({at: [other]})
            wait_until(lambda: logs_in(Path(path), "one") == ["one-0"], "the replica is where it was wanted")
