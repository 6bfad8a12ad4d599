"""The admin clients, everything they can do, against real brokers."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode
from tests.integration.clients import wait_until
from tests.integration.memory_cluster import MemoryCluster

from ottla.cli.main import run
from ottla.client import (
    Admin,
    AsyncAdmin,
    ClientClosed,
    ConfigError,
    Consumer,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TimedOut,
    TopicPartition,
)
from ottla.client.admin.config_admin import ConfigSource
from ottla.client.offsets import EARLIEST, LATEST
from ottla.common.ids import new_uuid
from ottla.protocol.errors import (
    GroupIdNotFound,
    InvalidConfig,
    KafkaError,
    NoReassignmentInProgress,
    TopicAlreadyExists,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)
from ottla.testing.local_broker import OttlaBroker
from ottla.testing.local_cluster import LocalCluster

_numbers = itertools.count()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A broker in this process, or the one that was given: see tests/conftest.py."""
    if given := os.environ.get("OTTLA_TEST_BOOTSTRAP"):
        yield given
        return
    with OttlaBroker() as running:
        yield running.bootstrap_servers


@pytest.fixture(scope="module")
def admin(address: str) -> Iterator[Admin]:
    with Admin(address) as opened:
        yield opened


@pytest.fixture
def topic(admin: Admin) -> str:
    """A topic that can be used: a moment may pass between that and its creation."""
    name = admin.create_topic(new_name("topic"), partitions=2, replication_factor=1).name
    wait_until(lambda: len(leaders(admin, name)) == 2, f"{name} to have leaders")
    return name


def new_name(kind: str) -> str:
    return f"{kind}-{new_uuid().hex[:8]}-{next(_numbers)}"


def leaders(admin: Admin, topic: str) -> list[int]:
    known = admin.list_topics().get(topic)
    return [] if known is None else [each.leader for each in known.partitions.values() if each.leader >= 0]


def fill(address: str, topic: str, count: int = 3) -> TopicPartition:
    with Producer(address) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=0)
    return TopicPartition(topic, 0)


def test_topics_are_made_described_grown_and_deleted(admin: Admin) -> None:
    one, two, three = new_name("one"), new_name("two"), new_name("three")
    made = admin.create_topics([NewTopic(one, 1), NewTopic(two, 2, configs={"retention.ms": "5000"})])
    assert [getattr(made[name], "partition_count", made[name]) for name in (one, two)] == [1, 2]
    wait_until(lambda: {one, two} <= set(admin.list_topics()), "the topics to be listed")
    admin.create_partitions(one, 3)
    wait_until(lambda: len(admin.describe_topics([one])[one].partitions) == 3, "the topic to have grown")
    assert isinstance(admin.create_topics([NewTopic(one)])[one], TopicAlreadyExists)
    outcomes = admin.delete_topics([one, two, three])
    assert (outcomes[one], outcomes[two]) == (None, None)
    assert isinstance(outcomes[three], UnknownTopicOrPartition)
    wait_until(lambda: one not in admin.list_topics(), "the topic to be gone")
    with pytest.raises(UnknownTopicOrPartition):
        admin.describe_topics([one])


def test_configs_of_topics_and_brokers_are_read_and_changed(admin: Admin, topic: str) -> None:
    admin.alter_topic_configs(topic, set_to={"retention.ms": "7000"})
    found = {each.name: each for each in admin.topic_configs(topic)}
    assert (found["retention.ms"].value, found["retention.ms"].source) == ("7000", ConfigSource.TOPIC)
    assert admin.topics_config("retention.ms", [topic]) == {topic: "7000"}
    with pytest.raises(InvalidConfig):
        admin.alter_topic_configs(topic, set_to={"retention.ms": "soon"})
    admin.alter_broker_configs(1, set_to={"log.cleaner.threads": "2"})

    def cleaners(node_id: int | None) -> list[tuple[str | None, ConfigSource]]:
        found = admin.broker_configs(node_id)
        return [(each.value, each.source) for each in found if each.name == "log.cleaner.threads"]

    wait_until(lambda: cleaners(1) == [("2", ConfigSource.DYNAMIC_BROKER)], "the broker to have it")
    admin.alter_broker_configs(set_to={"log.cleaner.threads": "3"})
    wait_until(
        lambda: cleaners(None) == [("3", ConfigSource.DYNAMIC_DEFAULT_BROKER)], "all brokers to have it"
    )
    admin.alter_broker_configs(1, unset=["log.cleaner.threads"])
    admin.alter_broker_configs(unset=["log.cleaner.threads"])


def test_offsets_are_found_and_records_deleted(admin: Admin, address: str, topic: str) -> None:
    partition = fill(address, topic)
    assert admin.list_offsets({partition: LATEST})[partition].offset == 3
    assert admin.delete_records({partition: 2}) == {partition: 2}
    assert admin.list_offsets({partition: EARLIEST})[partition].offset == 2
    assert admin.delete_records({partition: -1}) == {partition: 3}
    assert admin.offset_ranges(admin.describe_topics([topic])[topic]) == {0: (3, 3), 1: (0, 0)}


def test_groups_are_listed_described_moved_and_deleted(admin: Admin, address: str, topic: str) -> None:
    partition = fill(address, topic)
    group = new_name("group")
    with Consumer(address, group_id=group, topics=topic, auto_offset_reset="earliest") as consumer:
        assert len(consumer.poll(10_000, max_records=2)[partition]) == 2
        consumer.commit()
        described = admin.describe_group(group)
        assert (described.state, len(described.members)) == ("Stable", 1)
        lag = admin.group_lag(group)[partition].lag
        assert lag is not None
        assert lag.records == 1
        (member,) = described.members
        assert admin.remove_group_members(group, [member.member_id]) == {member.member_id: None}
    assert group in [each.group_id for each in admin.list_groups()]
    admin.alter_group_offsets(group, {partition: OffsetAndMetadata(1, "again")})
    assert (admin.group_offsets(group)[partition].offset, admin.group_offsets(group)[partition].metadata) == (
        1,
        "again",
    )
    admin.delete_group_offsets(group, [partition])
    assert partition not in admin.group_offsets(group)
    admin.delete_group(group)
    with pytest.raises(GroupIdNotFound):
        admin.describe_group(group)


def test_transactions_are_listed_described_and_aborted(admin: Admin, address: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    name = new_name("transactional")
    with Producer(address, transactional_id=name) as producer:
        producer.begin_transaction()
        producer.send(topic, b"1", partition=0).result(10)
        (listed,) = admin.list_transactions(["Ongoing"], pattern=name)
        assert (listed.transactional_id, listed.is_prepared) == (name, False)
        assert admin.describe_transaction(name).partitions == (partition,)
        (opened,) = admin.open_transactions([partition])
        (known,) = admin.describe_producers([partition])[partition]
        assert (opened.producer_id, opened.start_offset) == (known.producer_id, known.transaction_start)
        assert admin.hanging_transactions([partition], older_than_ms=0) == []
        admin.abort_transaction(name)
        assert admin.open_transactions([partition]) == []
        with pytest.raises(KafkaError):
            producer.commit_transaction()
    with pytest.raises(TransactionalIdNotFound):
        admin.describe_transaction("nobody")


def test_disks_features_and_partitions_are_described(admin: Admin, address: str, topic: str) -> None:
    partition = fill(address, topic)
    (directory,) = admin.describe_log_dirs()[1]
    assert directory.error is None
    assert directory.replicas[partition].size_bytes > 0
    assert admin.features()["transaction.version"] >= 1
    assert admin.describe_partitions([topic])[partition].isr == (1,)


def test_moves_and_elections_of_one_broker_have_nothing_to_do(admin: Admin, topic: str) -> None:
    place = TopicPartition(topic, 0)
    assert admin.reassign({place: [1]}) == {place: None}
    wait_until(lambda: admin.list_reassignments() == {}, "the move to be over")
    assert isinstance(admin.reassign({place: None})[place], NoReassignmentInProgress)
    outcome = admin.elect_leaders([place]).get(place)
    assert outcome is None or outcome.code == ErrorCode.election_not_needed
    assert admin.describe_cluster().brokers[1].is_alive
    with pytest.raises(KafkaError):
        admin.unregister_broker(99)


def test_a_new_topic_with_three_replicas_shows_the_minimum_that_is_in_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with MemoryCluster(tmp_path, 3) as cluster, Admin(cluster.bootstrap) as admin:
        single, safe = NewTopic("single", 1, 1), NewTopic("safe", 1, 3)
        minima = {}
        for name, created in admin.create_topics([single, safe]).items():
            assert not isinstance(created, KafkaError)
            minima[name] = created.configs["min.insync.replicas"]
        assert minima == {"single": "1", "safe": "2"}
        in_force = {each.name: each for each in admin.topic_configs("safe")}["min.insync.replicas"]
        assert (in_force.value, in_force.source) == ("2", ConfigSource.TOPIC)
        assert run(["topic", "create", "told", "--replication-factor", "3", "-b", cluster.bootstrap]) == 0
        assert "replication factor 3, min.insync.replicas 2" in capsys.readouterr().err


def test_a_cluster_is_described_and_its_partitions_moved() -> None:
    with LocalCluster(3, min_insync_replicas=1) as cluster, Admin(cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("placed", replicas=[[1, 2], [2, 3]])])
        first, second = TopicPartition("placed", 0), TopicPartition("placed", 1)
        described = admin.describe_cluster()
        assert described.alive == [1, 2, 3]
        assert described.partitions[second].replicas == (2, 3)
        assert admin.reassign({first: [3, 1]}) == {first: None}
        cluster.wait_until_in_sync()
        assert admin.list_reassignments() == {}
        assert isinstance(admin.reassign({first: None})[first], NoReassignmentInProgress)
        admin.elect_leaders([first])
        assert admin.describe_topics(["placed"])["placed"].partitions[0].leader == 3
        cluster.stop(2)
        admin.unregister_broker(2)
        assert sorted(admin.describe_cluster().brokers) == [1, 3]


async def test_the_asyncio_twin_does_the_same(address: str) -> None:
    async with AsyncAdmin(**{"bootstrap.servers": address}) as admin:
        name = new_name("by-asyncio")
        created = await admin.create_topic(name, partitions=2)
        assert created.partition_count == 2
        both = await asyncio.gather(admin.describe_cluster(), admin.list_groups())
        assert 1 in both[0].brokers


def test_mistakes_are_explained(address: str) -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        Admin(bootstrap_server=address)  # type: ignore[call-arg]
    with (
        Admin("127.0.0.1:1", default_api_timeout_ms=200) as lonely,
        pytest.raises(TimedOut, match=r"no broker at 127\.0\.0\.1:1: connection refused \(start the brokers"),
    ):
        lonely.list_topics()
    admin = Admin(address)
    admin.close()
    admin.close()
    with pytest.raises(ClientClosed):
        admin.list_topics()


def test_every_method_of_one_twin_is_there_in_the_other() -> None:
    def public(cls: type) -> set[str]:
        return {each for each in dir(cls) if not each.startswith("_")} - {"start", "with_options", "cluster"}

    assert public(Admin) == public(AsyncAdmin)
