"""A cluster as operators see it: `ottla cluster`, and admin requests to any broker."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.memory_cluster import MemoryCluster, awaited

from ottla.cli.cluster import plans
from ottla.cli.main import run
from ottla.client.admin import moves
from ottla.client.admin.cluster_admin import ClusterAdmin
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.cluster import Cluster
from ottla.client.producer import AsyncProducer
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import TopicAlreadyExists
from ottla.wire.address import parse_addresses

Ottla = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MemoryCluster]:
    settings = {"leader.imbalance.check.interval.seconds": "3600", "default.replication.factor": "3"}
    with MemoryCluster(tmp_path, 3, ("a", "b", "c"), **settings) as made:
        yield made


@pytest.fixture
def ottla(cluster: MemoryCluster, capsys: pytest.CaptureFixture[str]) -> Ottla:
    def command(*args: str) -> tuple[int, str, str]:
        try:
            code = run([*args, "-b", cluster.address(cluster.follower)])
        except SystemExit as ended:
            code = int(ended.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def admin(address: str, ask: Callable[[TopicAdmin], Any]) -> Any:
    async def session() -> Any:
        async with Cluster(parse_addresses(address)) as connected:
            # Straight to this broker, whoever is the controller: requests are to be passed on.
            connected.controller = connected.any_broker  # type: ignore[method-assign]
            return await ask(TopicAdmin(connected))

    return awaited(session)


def test_topics_are_made_by_whichever_broker_is_asked(cluster: MemoryCluster) -> None:
    address = cluster.address(cluster.follower)
    made = admin(address, lambda each: each.create_topic("orders", partitions=4))
    assert (made.partition_count, made.replication_factor) == (4, 3)
    described = admin(address, lambda each: each.describe_topics(["orders"]))  # seen at once by who asked
    assert len(described["orders"].partitions) == 4
    with pytest.raises(TopicAlreadyExists):
        admin(address, lambda each: each.create_topic("orders"))
    admin(address, lambda each: each.alter_topic_configs("orders", set_to={"retention.ms": "5"}))
    admin(address, lambda each: each.create_partitions("orders", 5))
    assert cluster.image.topic_overrides("orders")["retention.ms"] == "5"
    assert len(cluster.image.topics["orders"].partitions) == 5
    admin(address, lambda each: each.delete_topic("orders"))
    assert "orders" not in cluster.image.topics


def test_a_request_waits_for_the_next_controller(cluster: MemoryCluster) -> None:
    asked = cluster.follower
    cluster.stop(cluster.controller)
    admin(cluster.address(asked), lambda each: each.create_topic("orders", replication_factor=2))
    assert "orders" in cluster.image.topics


def test_describe_and_health_show_what_is_missing(cluster: MemoryCluster, ottla: Ottla) -> None:
    assert ottla("topic", "create", "orders", "-p", "6")[0] == 0
    code, out, _ = ottla("cluster", "describe")
    assert code == 0
    assert "all replicas in sync" in out
    assert sum(line.rstrip().endswith("2      6        6") for line in out.splitlines()) == 3
    assert ottla("cluster", "health")[0] == 0
    gone = cluster.follower
    cluster.stop(gone)
    code, out, _ = ottla("cluster", "health")
    assert code == 1
    assert f"broker {gone} is not alive" in out
    assert "6 partitions under-replicated" in out
    found = json.loads(ottla("cluster", "health", "--format", "json")[1])
    assert found["dead_brokers"] == [gone]
    assert (found["healthy"], len(found["under_replicated"]), found["offline"]) == (False, 6, [])
    described = json.loads(ottla("cluster", "describe", "--format", "json")[1])
    assert [each["alive"] for each in described["brokers"]].count(False) == 1


def test_a_partition_without_a_leader_is_offline(cluster: MemoryCluster, ottla: Ottla) -> None:
    alone = cluster.follower
    ottla("topic", "create", "orders", "-r", "1")
    ottla("cluster", "reassign", "orders", "--to", str(alone), "-y")
    cluster.wait_until_in_sync()
    cluster.stop(alone)
    code, out, _ = ottla("cluster", "health")
    assert code == 1
    assert "1 partition offline" in out
    cluster.start(alone)
    cluster.wait_until_in_sync()
    assert ottla("cluster", "health")[0] == 0


def test_leaders_are_given_back_after_a_restart(cluster: MemoryCluster, ottla: Ottla) -> None:
    ottla("topic", "create", "orders", "-p", "6")
    restarted = cluster.follower
    cluster.stop(restarted)
    cluster.start(restarted)
    cluster.wait_until_in_sync()
    led = [each.leader for each in cluster.image.topics["orders"].partitions]
    assert restarted not in led
    code, out, _ = ottla("cluster", "elect", "--dry-run")
    assert (code, len(out.splitlines())) == (0, 2)
    due = json.loads(ottla("cluster", "elect", "--dry-run", "--format", "json")[1])
    assert [f"{each['topic']}-{each['partition']}" for each in due] == out.split()
    assert "2 leaders elected" in ottla("cluster", "elect")[2]
    led = [each.leader for each in cluster.image.topics["orders"].partitions]
    assert led.count(restarted) == 2
    code, out, err = ottla("cluster", "elect", "--format", "json")
    assert (json.loads(out), "every partition is led by its preferred leader" in err) == ([], True)


def test_a_topic_gets_more_copies_with_its_records(cluster: MemoryCluster, ottla: Ottla) -> None:
    ottla("topic", "create", "orders", "-p", "2", "-r", "1")

    async def produce() -> None:
        async with AsyncProducer(cluster.bootstrap) as producer:
            for number in range(100):
                await producer.send("orders", b"x" * 100, partition=number % 2)

    awaited(produce)
    code, _, err = ottla("cluster", "reassign", "orders", "-r", "3", "-y", "--throttle", "50MB")
    assert code == 0, err
    assert "2 partitions moved" in err
    cluster.wait_until_in_sync()
    partitions = cluster.image.topics["orders"].partitions
    assert all(len(each.replicas) == 3 for each in partitions)
    ends = {
        (node_id, at): log.log_end_offset
        for node_id, broker in cluster.brokers.items()
        for at, log in broker.log_directories.logs.items()
        if at.topic == "orders"
    }
    assert list(ends.values()) == [50] * 6
    assert "leader.replication.throttled.replicas" not in cluster.image.topic_overrides("orders")
    assert not cluster.image.broker_overrides(1)


def fill(cluster: MemoryCluster, topic: str, records: int) -> tuple[int, int]:
    """Return who has its partition, and somebody else."""

    async def produce() -> None:
        async with AsyncProducer(cluster.bootstrap) as producer:
            for _ in range(records):
                await producer.send(topic, b"x" * 100_000, partition=0)

    awaited(produce)
    (at,) = cluster.image.topics[topic].partitions[0].replicas
    return at, next(node for node in cluster.brokers if node != at)


def moving(cluster: MemoryCluster, topic: str) -> tuple[int, ...]:
    return cluster.image.topics[topic].partitions[0].adding


def test_a_throttled_move_shows_its_progress_and_leaves_no_throttle(
    cluster: MemoryCluster, ottla: Ottla, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "LINE_EVERY_S", 0.0)
    monkeypatch.setattr(moves, "POLL_S", 0.2)
    ottla("topic", "create", "orders", "-r", "1")
    _, to = fill(cluster, "orders", 60)
    code, _, err = ottla("cluster", "reassign", "orders", "--to", str(to), "-y", "--throttle", "3MB")
    assert code == 0, err
    *lines, last = err.splitlines()
    assert last == "1 partition moved"
    assert any("1 partition left" in line and "MiB/s" in line and "s left" in line for line in lines), err
    assert cluster.image.topics["orders"].partitions[0].replicas == (to,)
    assert not cluster.image.topic_overrides("orders")
    assert not any(cluster.image.broker_overrides(node) for node in cluster.brokers)


def test_a_move_in_the_background_is_throttled_until_it_is_cancelled(
    cluster: MemoryCluster, ottla: Ottla
) -> None:
    ottla("topic", "create", "orders", "-r", "1")
    at, to = fill(cluster, "orders", 20)
    code, _, err = ottla(
        "cluster", "reassign", "orders", "--to", str(to), "-y", "--throttle", "1kB", "--no-wait"
    )
    assert (code, "throttled until" in err) == (0, True), err
    assert moving(cluster, "orders") == (to,)
    assert cluster.image.topic_overrides("orders")["leader.replication.throttled.replicas"] == "*"
    code, out, _ = ottla("cluster", "health")
    assert (code, "1 partition being moved to other brokers" in out) == (0, True)
    assert "1 move cancelled" in ottla("cluster", "reassign", "orders:0", "--cancel")[2]
    assert cluster.image.topics["orders"].partitions[0].replicas == (at,)
    assert not cluster.image.topic_overrides("orders")
    assert not any(cluster.image.broker_overrides(node) for node in cluster.brokers)


def test_who_waits_for_a_move_hears_that_it_was_cancelled(cluster: MemoryCluster, ottla: Ottla) -> None:
    ottla("topic", "create", "orders", "-r", "1")
    at, to = fill(cluster, "orders", 20)

    def cancel() -> None:
        cluster.wait_for(lambda: moving(cluster, "orders"))
        change = {TopicPartition("orders", 0): None}

        async def session() -> None:
            async with Cluster(parse_addresses(cluster.bootstrap)) as connected:
                await ClusterAdmin(connected).reassign(change)

        awaited(session)

    canceller = threading.Thread(target=cancel)
    canceller.start()
    code, _, err = ottla("cluster", "reassign", "orders", "--to", str(to), "-y", "--throttle", "1kB")
    canceller.join()
    assert (code, "1 move of 1 cancelled" in err) == (1, True), err
    assert cluster.image.topics["orders"].partitions[0].replicas == (at,)
    assert not cluster.image.topic_overrides("orders")


def test_a_move_to_a_dead_broker_says_what_it_waits_for(
    cluster: MemoryCluster, ottla: Ottla, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "LINE_EVERY_S", 0.0)
    ottla("topic", "create", "orders", "-r", "1")
    _, to = fill(cluster, "orders", 20)
    said: list[str] = []
    monkeypatch.setattr(plans, "echo_err", said.append)

    def stop_and_cancel() -> None:
        cluster.wait_for(lambda: moving(cluster, "orders"))
        cluster.stop(to)
        cluster.wait_for(lambda: any(f"waiting for broker {to}, which does not" in line for line in said))

        async def session() -> None:
            async with Cluster(parse_addresses(cluster.bootstrap)) as connected:
                await ClusterAdmin(connected).reassign({TopicPartition("orders", 0): None})

        awaited(session)

    stopper = threading.Thread(target=stop_and_cancel)
    stopper.start()
    code, _, err = ottla("cluster", "reassign", "orders", "--to", str(to), "-y", "--throttle", "1kB")
    stopper.join()
    assert (code, "1 move of 1 cancelled" in err) == (1, True), (err, said)


def test_a_broker_is_taken_out(cluster: MemoryCluster, ottla: Ottla) -> None:
    ottla("topic", "create", "orders", "-p", "4", "-r", "2")
    leaving = cluster.follower
    code, out, err = ottla("cluster", "decommission", str(leaving), "--dry-run")
    assert code == 0
    assert out.count("orders") >= 2
    code, _, err = ottla("cluster", "decommission", str(leaving), "-y")
    assert (code, "has no partitions left" in err) == (0, True), err
    cluster.wait_until_in_sync()
    assert all(leaving not in each.replicas for each in cluster.image.topics["orders"].partitions)
    cluster.stop(leaving)
    assert f"broker {leaving} is unregistered" in ottla("cluster", "decommission", str(leaving))[2]
    assert leaving not in cluster.image.brokers
    assert "there is no broker 99" in ottla("cluster", "decommission", "99")[2]


def test_a_broker_with_the_only_copy_is_not_forgotten_before_the_copy_is_given_up(
    cluster: MemoryCluster, ottla: Ottla
) -> None:
    lost = cluster.follower
    ottla("topic", "create", "orders", "-r", "1")
    ottla("cluster", "reassign", "orders", "--to", str(lost), "-y")
    cluster.stop(lost)
    left = ", ".join(map(str, sorted({1, 2, 3} - {lost})))
    code, _, err = ottla("cluster", "decommission", str(lost), "-y")
    assert (code, f"orders-0 is on {lost}" in err) == (1, True), err
    assert "without a leader cannot be checked: orders-0" in ottla("txn", "hanging")[2]
    to = left[0]
    assert ottla("cluster", "reassign", "orders", "--to", to, "-y", "--no-wait")[0] == 0
    code, _, err = ottla("cluster", "decommission", str(lost), "-y")  # the move off it has only begun
    assert (code, f"orders-0 is on {lost}" in err) == (1, True), err
    assert lost in cluster.image.brokers
    assert "1 leader elected" in ottla("cluster", "elect", "--unclean", "orders:0", "-y")[2]
    assert cluster.image.topics["orders"].partitions[0].replicas == (int(to),)
    assert f"broker {lost} is unregistered" in ottla("cluster", "decommission", str(lost), "-y")[2]


def test_a_dry_run_cancels_nothing(cluster: MemoryCluster, ottla: Ottla) -> None:
    ottla("topic", "create", "orders", "-r", "1")
    at, to = fill(cluster, "orders", 20)
    ottla("cluster", "reassign", "orders", "--to", str(to), "-y", "--throttle", "1kB", "--no-wait")
    code, out, _ = ottla("cluster", "reassign", "--cancel", "--dry-run")
    assert (code, out.split()[-4:]) == (0, ["orders", "0", str(at), str(to)])
    assert moving(cluster, "orders") == (to,)
    assert "1 move cancelled" in ottla("cluster", "reassign", "--cancel")[2]


def test_what_changes_much_has_to_be_confirmed_in_scripts_too(cluster: MemoryCluster, ottla: Ottla) -> None:
    ottla("topic", "create", "orders", "-p", "1", "-r", "1")
    code, _, err = ottla("cluster", "reassign", "orders", "-r", "3")
    assert (code, "use --yes" in err) == (2, True), err
    assert len(cluster.image.topics["orders"].partitions[0].replicas) == 1
    err = ottla("cluster", "reassign", "orders", "-r", "3", "-y")[2]
    assert "ottla config alter --topic orders --set min.insync.replicas=2" in err


def test_a_plan_in_kafkas_format_is_followed_and_cancelled(
    cluster: MemoryCluster, ottla: Ottla, tmp_path: Path
) -> None:
    ottla("topic", "create", "orders", "-r", "1")
    (at,) = cluster.image.topics["orders"].partitions[0].replicas
    absent = next(node for node in cluster.brokers if node not in (at, cluster.controller))
    cluster.stop(absent)
    plan = tmp_path / "plan.json"
    there = next(node for node in cluster.brokers if node not in (at, absent))
    shown = ottla("cluster", "reassign", "orders", "--to", str(there), "--dry-run", "--format", "json")[1]
    listed = [{"topic": "orders", "partition": 0, "replicas": [there]}]
    assert json.loads(shown)["partitions"] == listed
    assert [each["broker"] for each in json.loads(shown)["brokers"]] == [1, 2, 3]
    listed = [{"topic": "orders", "partition": 0, "replicas": [absent]}]
    plan.write_text(json.dumps({"version": 1, "partitions": listed}))
    code, _, err = ottla("cluster", "reassign", "--plan", str(plan), "-y", "--no-wait")
    assert (code, "have started" in err) == (0, True), err
    assert cluster.image.topics["orders"].partitions[0].adding == (absent,)
    assert "1 move cancelled" in ottla("cluster", "reassign", "--cancel")[2]
    assert cluster.image.topics["orders"].partitions[0].replicas == (at,)
    assert "no partition is being moved" in ottla("cluster", "reassign", "--watch")[2]
    plan.write_text("{}")
    assert "is not a reassignment plan" in ottla("cluster", "reassign", "--plan", str(plan))[2]


def test_mistakes_are_explained(cluster: MemoryCluster, ottla: Ottla) -> None:
    ottla("topic", "create", "orders")
    assert "did you mean: orders?" in ottla("cluster", "reassign", "order", "--to", "1")[2]
    assert "has no partition '7'" in ottla("cluster", "elect", "orders:7")[2]
    assert "broker 9 is not alive" in ottla("cluster", "reassign", "orders", "--to", "9")[2]
    assert "4 replicas need as many brokers" in ottla("cluster", "reassign", "orders", "-r", "4")[2]
    assert "name topics or partitions" in ottla("cluster", "reassign")[2]
    assert "is not a size" in ottla("cluster", "reassign", "orders", "--throttle", "fast")[2]
    assert "is not a list of broker ids" in ottla("cluster", "reassign", "orders", "--to", "a")[2]
    ottla("topic", "create", "alone", "-r", "1")
    hint = ottla("cluster", "decommission", str(cluster.follower))[2]
    assert "ottla cluster reassign orders --replication-factor 2" in hint
    for args in (("--cancel", "--watch"), ("--plan", __file__, "orders"), ("--cancel", "--to", "1")):
        assert ottla("cluster", "reassign", *args)[0] == 2


def test_an_unmodified_client_elects_leaders_and_describes_the_cluster(cluster: MemoryCluster) -> None:
    from confluent_kafka import ElectionType, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (made,) = client.create_topics([NewTopic("orders", 3, 3)]).values()
    made.result(10)
    restarted = cluster.follower
    cluster.stop(restarted)
    cluster.start(restarted)
    cluster.wait_until_in_sync()
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    described = client.describe_cluster().result(10)
    assert sorted(node.id for node in described.nodes) == [1, 2, 3]
    assert described.controller.id == cluster.controller
    wanted = [TopicPartition("orders", each) for each in range(3)]
    elected = client.elect_leaders(ElectionType.PREFERRED, wanted).result(10)
    codes = sorted(0 if error is None else error.code() for error in elected.values())
    assert codes == [0, 84, 84]  # 84: the preferred leader leads already
    assert all(each.leader == each.replicas[0] for each in cluster.image.topics["orders"].partitions)
