"""`ottla cluster health`, /readyz and metrics while writes fail, and while all is well."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from tests.integration.memory_cluster import MemoryCluster
from tests.integration.scraping import get_json, scrape

from ottla.cli import doctor, topic
from ottla.cli.checks import broker, machine, record
from ottla.cli.checks import cluster as cluster_checks
from ottla.cli.cluster import command as cluster_command
from ottla.cli.main import run
from ottla.common.listeners import Address

LOADED = (broker, cluster_checks, cluster_command, doctor, machine, record, topic)
"""Imported before there is another thread: pytest's rewriting of modules is not safe beside one."""
Ottla = Callable[..., tuple[int, str, str]]
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "ottla.metrics.listen": "127.0.0.1:0",
    "replica.fetch.wait.max.ms": "100",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MemoryCluster]:
    with MemoryCluster(tmp_path, 3, **SETTINGS) as made:
        yield made


@pytest.fixture
def ottla(cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]) -> Ottla:
    bootstrap = cluster.bootstrap

    def command(*args: str) -> tuple[int, str, str]:
        try:
            code = run([*args, "-b", bootstrap])
        except SystemExit as ended:
            code = int(ended.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def metrics_of(cluster: MemoryCluster, node_id: int) -> Address:
    addresses = cluster.brokers[node_id].addresses
    assert addresses is not None
    assert addresses.metrics is not None
    return addresses.metrics


def write(bootstrap: str) -> KafkaError | None:
    """Send one record with acks=all, with an unmodified client; return its error."""
    errors: list[KafkaError | None] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "delivery.timeout.ms": 4_000, "linger.ms": 0}
    )
    producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    return errors[0]


def lose_quorum(cluster: MemoryCluster) -> None:
    async def lose() -> None:
        cluster.server.lose_quorum(cluster.brokers)

    cluster.run(lose())


def regain_quorum(cluster: MemoryCluster) -> None:
    async def regain() -> None:
        cluster.server.regain_quorum(range(1, cluster.count + 1))

    cluster.run(regain())


def crash(cluster: MemoryCluster, node_id: int) -> None:
    """End a broker without a word to the metadata store."""

    async def end() -> None:
        broker = cluster.brokers.pop(node_id)
        await broker.server.stop(0)
        broker.peers.stop()
        broker.replicator.step_down = lambda partition: None
        await broker.stop()

    cluster.run(end())


def test_never_green_while_nothing_can_be_written(cluster: MemoryCluster, ottla: Ottla) -> None:
    ottla("topic", "create", "orders", "-p", "3")
    cluster.wait_until_in_sync()
    assert ottla("cluster", "health")[0] == 0
    assert write(cluster.bootstrap) is None
    gone = cluster.follower
    lose_quorum(cluster)
    crash(cluster, gone)
    assert write(cluster.bootstrap) is not None  # nothing can be committed
    code, out, _ = ottla("cluster", "health")
    assert code == 1, out
    found = json.loads(ottla("cluster", "health", "--format", "json")[1])
    codes = {each["code"] for each in found["findings"]}
    assert codes >= {"broker-down", "no-controller", "no-metadata-store"}
    assert all(each["fix"] for each in found["findings"])
    cluster.wait_for(lambda: "writes-stalled" in ottla("cluster", "health", "--format", "json")[1])
    for node_id in cluster.brokers:
        status, said = get_json(metrics_of(cluster, node_id), "/readyz")
        assert (status, said["ready"], said["metadata_store"]) == (503, False, "not connected")
        assert said["metadata_age_seconds"] > 1
        scraped = scrape(metrics_of(cluster, node_id))
        assert scraped.value("kafka_controller_kafkacontroller_activecontrollercount") == 0
        assert scraped.value("ottla_metadata_store_connected") == 0
        assert scraped.value("ottla_ready") == 0
    stalled = [
        scrape(metrics_of(cluster, each)).value("ottla_partitions_write_stalled") for each in cluster.brokers
    ]
    assert sum(stalled) >= 1
    regain_quorum(cluster)
    cluster.start(gone)
    cluster.wait_until_in_sync()
    assert write(cluster.bootstrap) is None
    assert ottla("cluster", "health", "--wait", "20")[0] == 0


def test_health_works_while_the_controller_dies_and_names_it(cluster: MemoryCluster, ottla: Ottla) -> None:
    ottla("topic", "create", "orders")
    cluster.wait_until_in_sync()
    controller = cluster.controller
    broker = cluster.brokers[controller]

    async def deaf() -> None:  # its process is dying: the port is closed, the session is still alive
        await broker.server.stop(0)

    cluster.run(deaf())
    began = time.monotonic()
    code, out, _ = ottla("cluster", "health")
    assert time.monotonic() - began < 20
    assert code == 1
    assert f"broker {controller}, the controller, at" in out
    assert "does not answer" in out


def test_a_rolling_restart_asks_before_each_broker(cluster: MemoryCluster, ottla: Ottla) -> None:
    ottla("topic", "create", "orders", "-p", "3")
    cluster.wait_until_in_sync()
    assert ottla("cluster", "health", "--safe-to-restart", "1")[0] == 0
    cluster.stop(1)
    code, out, _ = ottla("cluster", "health", "--safe-to-restart", "2")
    assert code == 1
    assert "must not be restarted now" in out
    assert "would have too few in-sync replicas" in out
    assert (
        ottla("cluster", "health", "--safe-to-restart", "1")[0] == 0
    )  # it is the one that is being restarted
    cluster.start(1)
    code, out, _ = ottla("cluster", "health", "--safe-to-restart", "2", "--wait", "20")
    assert code == 0, out
    assert json.loads(ottla("cluster", "health", "--safe-to-restart", "2", "--format", "json")[1])["safe"]
    assert ottla("cluster", "health", "--safe-to-restart", "9")[0] == 1


def test_a_cluster_that_does_not_answer_has_an_exit_code_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["cluster", "health", "-b", "127.0.0.1:1"]) == 3
    assert "state is unknown" in capsys.readouterr().err


def test_the_disks_and_the_ensemble_are_shown(cluster: MemoryCluster, ottla: Ottla) -> None:
    ottla("topic", "create", "orders", "-p", "3")
    assert write(cluster.bootstrap) is None
    code, out, _ = ottla("cluster", "describe-log-dirs")
    assert code == 0
    assert out.count("online") == 3
    assert "orders" in ottla("cluster", "describe-log-dirs", "1", "--topics")[1]
    listed = json.loads(ottla("cluster", "describe-log-dirs", "--format", "json")[1])
    assert [each["broker"] for each in listed] == [1, 2, 3]
    assert sum(replica["size_bytes"] for each in listed for replica in each["replicas"]) > 0
    code, out, _ = ottla("cluster", "quorum")
    assert code == 0
    assert "standalone" in out
    assert out.count("connected") == 3
    lose_quorum(cluster)
    code, out, err = ottla("cluster", "quorum")
    assert code == 1
    assert "there is no quorum" in err
    regain_quorum(cluster)


def test_doctor_shows_what_health_finds(cluster: MemoryCluster, ottla: Ottla) -> None:
    ottla("topic", "create", "orders")
    cluster.wait_until_in_sync()
    found = json.loads(ottla("doctor", "--format", "json")[1])
    assert [each["state"] for each in found if each["check"] == "cluster"] == ["ok"]
    cluster.brokers[2].log_directories.directories[0].storage.is_full = True
    found = json.loads(ottla("doctor", "--format", "json")[1])
    (full,) = [each for each in found if each["check"] == "disk-full"]
    assert full["state"] == "wrong"
    assert full["what"].startswith("broker 2: the disk of")
    assert "retention" in full["fix"]


def test_old_records_are_trimmed(cluster: MemoryCluster, ottla: Ottla) -> None:
    ottla("topic", "create", "orders", "-p", "1")
    for _ in range(5):
        assert write(cluster.bootstrap) is None
    code, out, _ = ottla("topic", "trim", "orders", "--before", "-2", "--dry-run", "--format", "json")
    assert (code, json.loads(out)[0]["deleted"]) == (0, 3)
    assert ottla("topic", "trim", "orders", "--before", "-2", "-y")[0] == 0
    described = json.loads(ottla("topic", "describe", "orders", "--format", "json")[1])
    (partition,) = (described[0] if isinstance(described, list) else described)["partitions"]
    assert (partition["start_offset"], partition["end_offset"]) == (3, 5)
    assert "no such records" in ottla("topic", "trim", "orders", "--before", "start", "-y")[2]
    assert ottla("topic", "trim", "orders", "--before", "99", "-y")[0] == 1
    assert ottla("topic", "trim", "__consumer_offsets", "--before", "end", "-y")[0] == 1


def test_maintenance_moves_leaders_away_and_keeps_new_replicas_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with MemoryCluster(tmp_path, 4, **SETTINGS) as four:

        def command(*args: str) -> tuple[int, str]:
            try:
                code = run([*args, "-b", four.bootstrap])
            except SystemExit as ended:
                code = int(ended.code or 0)
            shown = capsys.readouterr()
            return code, shown.out or shown.err

        command("topic", "create", "orders", "-p", "8")
        four.wait_until_in_sync()
        assert command("cluster", "maintenance", "start", "2")[0] == 0
        (row,) = json.loads(command("cluster", "maintenance", "status", "2", "--format", "json")[1])
        assert (row["state"], row["leads"]) == ("in maintenance", 0)
        assert row["holds"] == row["in_sync"] > 0
        command("topic", "create", "bills", "-p", "8")
        assert all(2 not in each.replicas for each in four.image.topics["bills"].partitions)
        code, out = command("cluster", "health")
        assert code == 0, out  # not red: nothing is wrong
        assert "ottla cluster maintenance stop 2" in out
        assert write(four.bootstrap) is None
        for each in "34":
            command("cluster", "maintenance", "start", each)
        code, out = command("cluster", "maintenance", "start", "1")
        assert (code, "brokers 2, 3, 4 are in maintenance too" in out) == (1, True), out
        assert "ottla cluster maintenance stop 3" in out
        for each in "134":
            assert command("cluster", "maintenance", "stop", each)[0] == 0
        assert command("cluster", "maintenance", "stop", "2")[0] == 0
        (row,) = json.loads(command("cluster", "maintenance", "status", "2", "--format", "json")[1])
        assert (row["state"], row["leads"] > 0) == ("in service", True)
        # Decommission: nothing is placed between the moves and the stop.
        assert command("cluster", "decommission", "4", "-y")[0] == 0
        command("topic", "create", "late", "-p", "8")
        assert all(
            4 not in each.replicas for topic in four.image.topics.values() for each in topic.partitions
        )
        four.stop(4)
        assert command("cluster", "decommission", "4", "-y")[0] == 0
        assert 4 not in four.image.brokers
        assert command("cluster", "health", "--wait", "10")[0] == 0


def test_a_new_broker_gets_its_share_of_every_topic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with MemoryCluster(tmp_path, 3, **SETTINGS) as cluster:
        run(["topic", "create", "busy", "-p", "8", "-b", cluster.bootstrap])
        run(["topic", "create", "idle", "-p", "4", "-b", cluster.bootstrap])
        cluster.wait_until_in_sync()
        cluster.start(4)
        capsys.readouterr()
        base = ["cluster", "reassign", "--all", "--sample", "0.1", "-b", cluster.bootstrap]
        assert run([*base, "--dry-run"]) in (0, None)
        out = capsys.readouterr().out
        assert "preferred leaders" in out
        assert "0 -> 9" in out  # the replicas of broker 4: 6 of busy, 3 of idle
        run([*base, "-y", "--batch", "4", "--throttle", "100MB"])
        cluster.wait_until_in_sync()
        for name, share in (("busy", 2), ("idle", 1)):
            partitions = cluster.image.topics[name].partitions
            leads = [sum(each.leader == node for each in partitions) for node in (1, 2, 3, 4)]
            assert leads == [share] * 4, name
        capsys.readouterr()
        run([*base, "-y"])
        assert "already in place" in capsys.readouterr().err
