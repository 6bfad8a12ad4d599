"""The metadata of a cluster in a file, and restored into a new cluster."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.integration.test_cluster_apply import SECURE, Cli

from ottla.cli.main import run
from ottla.metadata.store import VersionConflict
from ottla.testing.local_cluster import LocalCluster


@pytest.fixture
def ottla(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture
def old() -> Iterator[LocalCluster]:
    with LocalCluster(2, settings=SECURE) as cluster:
        yield cluster


def fill(cluster: LocalCluster, ottla: Cli) -> None:
    """Make some of everything."""
    for words in (
        ("topic", "create", "orders", "-p", "3", "--set", "retention.ms=60000"),
        ("config", "alter", "--set", "log.retention.ms=7200000"),
        ("acl", "create", "-p", "alice", "-o", "read", "-t", "orders"),
        ("quota", "set", "--user", "alice", "producer_byte_rate=1000"),
        ("user", "create", "alice", "--password", "wonderland"),
    ):
        code, _, err = ottla(cluster, *words)
        assert code == 0, err
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(30):
        producer.produce("orders", str(number), partition=number % 3)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "billing"})
    consumer.commit(
        offsets=[TopicPartition("orders", each, 4 + each) for each in range(3)], asynchronous=False
    )
    consumer.close()


def test_a_backup_makes_a_new_cluster_the_old_one(old: LocalCluster, ottla: Cli, tmp_path: Path) -> None:
    fill(old, ottla)
    file = tmp_path / "cluster.backup"
    code, _, err = ottla(old, "cluster", "backup", str(file))
    assert code == 0, err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = old.broker(1).cluster.image
    with LocalCluster(2, settings=SECURE) as new:
        code, out, err = ottla(new, "cluster", "restore", str(file), "--dry-run")
        assert code == 3, err
        assert "+ topic orders: 3 partitions, replication factor 2" in out
        assert "+ offsets billing: 3 partitions" in out
        assert "orders" not in new.broker(1).cluster.image.topics
        code, _, err = ottla(new, "cluster", "restore", str(file), "--yes")
        assert code == 0, err
        after = new.broker(1).cluster.image
        assert after.topics["orders"].topic_id == before.topics["orders"].topic_id
        assert [each.replicas for each in after.topics["orders"].partitions] == [
            each.replicas for each in before.topics["orders"].partitions
        ]
        assert after.configs == before.configs
        assert after.acls == before.acls
        assert after.client_quotas == before.client_quotas
        assert after.scram_credentials == before.scram_credentials  # alice keeps her password
        assert after.next_producer_id >= before.next_producer_id
        consumer = Consumer({"bootstrap.servers": new.bootstrap_servers, "group.id": "billing"})
        committed = consumer.committed([TopicPartition("orders", each) for each in range(3)], timeout=20)
        assert [each.offset for each in committed] == [4, 5, 6]
        consumer.close()
        assert ottla(new, "cluster", "restore", str(file), "--dry-run")[0] == 0  # and nothing more


def test_what_differs_is_reported_and_changed_only_when_asked(
    old: LocalCluster, ottla: Cli, tmp_path: Path
) -> None:
    fill(old, ottla)
    file = str(tmp_path / "cluster.backup")
    ottla(old, "cluster", "backup", file)
    ottla(old, "topic", "alter", "orders", "--set", "retention.ms=5", "--partitions", "4")
    ottla(old, "user", "set-password", "alice", "--password", "lookingglass")
    plan = json.loads(ottla(old, "cluster", "restore", file, "--dry-run", "--format", "json")[1])
    assert {(each["kind"], each["action"]): each["detail"] for each in plan} == {
        ("partitions", "differs"): "4, not 3",
        ("configs", "differs"): "retention.ms is 5, not 60000",
        ("user", "differs"): "it has another password",
    }
    assert ottla(old, "cluster", "restore", file, "-y", "--overwrite")[0] == 0
    image = old.broker(1).cluster.image
    assert image.topic_overrides("orders")["retention.ms"] == "60000"
    assert len(image.topics["orders"].partitions) == 4
    ottla(old, "topic", "delete", "orders", "--yes")
    ottla(old, "cluster", "restore", file, "-y")
    err = ottla(old, "cluster", "restore", file, "-y")[2]
    assert "1 difference left alone; they cannot be changed" in err  # the id


def test_a_file_that_was_changed_is_refused(old: LocalCluster, ottla: Cli, tmp_path: Path) -> None:
    file = tmp_path / "cluster.backup"
    ottla(old, "topic", "create", "orders")
    ottla(old, "cluster", "backup", str(file))
    whole = file.read_bytes()
    for damaged in (whole.replace(b"orders", b"ordres"), whole[: len(whole) // 2], b"{}"):
        file.write_bytes(damaged)
        code, _, err = ottla(old, "cluster", "restore", str(file), "-y")
        assert code == 1
        assert "cluster.backup: this" in err


def test_a_rebuild_is_planned_from_the_directories_of_stopped_brokers(
    ottla: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rebuild(*words: str) -> tuple[int, str, str]:
        code = 0
        try:
            code = run(["cluster", "rebuild", *words, "--zookeeper", "127.0.0.1:1", "--format", "json"])
        except SystemExit as ended:
            code = int(ended.code or 0)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    data = [str(tmp_path / f"broker-{number}") for number in (1, 2)]
    with LocalCluster(2, folder=tmp_path, settings=SECURE) as cluster:
        fill(cluster, ottla)
        code, _, err = rebuild(*data, "--dry-run")
        assert code == 1
        assert "is in use by" in err
    code, _, err = rebuild(data[0], "--dry-run")
    assert code == 1
    assert "the data of broker 2 is not given" in err
    assert rebuild(data[0], "--without", "2", "--dry-run")[0] == 3
    code, out, err = rebuild(*data, "--dry-run")
    assert code == 3, err
    plan = json.loads(out)
    assert (plan["brokers"], plan["lost"], plan["behind"]) == ([1, 2], [], 0)
    assert plan["topics"] == 2  # with __consumer_offsets
    for each in data:
        (Path(each) / "cluster-metadata.backup").unlink()
    plan = json.loads(rebuild(*data, "--dry-run")[1])
    assert plan["added"] == ["__consumer_offsets", "orders"]


def test_a_rebuild_counts_brokers_and_disks_and_tells_that_it_was_done_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalCluster(2, folder=tmp_path, directories=2) as cluster:
        cluster.create_topic("orders")
        data = [str(each) for node_id in (1, 2) for each in cluster.directories_of(node_id)]

    class Written:
        async def open(self) -> None: ...

        async def close(self) -> None: ...

        async def replace_log(self, version: int, *_: object, **__: object) -> None:
            raise VersionConflict(f"the log is at version {version}, not before {version}")

    monkeypatch.setattr("ottla.metadata.zookeeper.store.ZooKeeperStore", lambda _: Written())
    assert run(["cluster", "rebuild", *data, "--zookeeper", "127.0.0.1:1", "--yes"]) == 1
    shown = capsys.readouterr()
    assert "2 brokers (4 log directories): 1, 2\n" in shown.out
    assert "Then start the brokers" in shown.err


def test_a_broker_that_missed_the_deletion_does_not_bring_its_old_records_back(
    ottla: Cli, tmp_path: Path
) -> None:
    file = str(tmp_path / "cluster.backup")
    with LocalCluster(2, folder=tmp_path / "data") as cluster:
        topic = cluster.create_topic("orders")
        topic.send(*(b"old %d" % number for number in range(5)))
        cluster.wait_until_in_sync()
        assert ottla(cluster, "cluster", "backup", file)[0] == 0
        stopped, leader = 1, 2
        cluster.stop(stopped)
        assert ottla(cluster, "topic", "delete", "orders", "-y")[0] == 0
        assert ottla(cluster, "cluster", "restore", file, "-y", "--no-offsets")[0] == 0
        topic = cluster.topic("orders")
        topic.send(*(b"new %d" % number for number in range(5)))
        cluster.start(stopped)
        cluster.wait_until_in_sync()
        cluster.stop(leader)
        assert cluster.leader_of("orders") == stopped
        assert topic.values(5) == [b"new %d" % number for number in range(5)]
