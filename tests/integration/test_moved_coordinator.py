"""The coordinator of a group moves while librdkafka is about to ask it for committed offsets.

With NOT_COORDINATOR for an answer it reads none of its partitions, for good (issue 5586 of librdkafka):
api/support/librdkafka_offset_fetch.py says what is done about it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_STORED, Consumer, Producer
from confluent_kafka import TopicPartition as RdkafkaPartition
from kio.schema.errors import ErrorCode
from tests.integration.wire import Wire

from ottla.client import Admin
from ottla.common.ids import TopicPartition
from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC
from ottla.protocol.api_keys import ApiKey
from ottla.testing.cluster_process import wait_until
from ottla.testing.local_cluster import LocalCluster

PARTITIONS, RECORDS = 2, 20
WITHIN_S = 20.0
OFFSETS = TopicPartition(CONSUMER_OFFSETS_TOPIC, 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two brokers; all groups have one coordinator."""
    with LocalCluster(2, settings={"offsets.topic.num.partitions": "1"}) as started:
        started.create_topic("t", PARTITIONS, replication_factor=2)
        producer = Producer({"bootstrap.servers": started.bootstrap_servers, "log_level": 0})
        for number in range(RECORDS):
            producer.produce("t", b"%d" % number, partition=number % PARTITIONS)
        assert producer.flush(30) == 0
        yield started


def offsets_error(cluster: LocalCluster, node_id: int) -> ErrorCode:
    """Return what a broker answers a client that is not librdkafka and asks for a group's offsets."""
    group = {"group_id": "g", "topics": None, "member_id": None, "member_epoch": -1}
    with Wire(cluster.address(node_id)) as wire:
        error = wire.call(ApiKey.OFFSET_FETCH, 9, groups=[group], require_stable=True).groups[0].error_code
    assert isinstance(error, ErrorCode)
    return error


def move_coordinator(cluster: LocalCluster) -> None:
    """Let the other broker coordinate all groups; the one before stays alive, and knows."""
    before = cluster.leader_of(*OFFSETS)
    with Admin(cluster.bootstrap_servers) as admin:
        admin.reassign({OFFSETS: [3 - before, before]})

        def is_moved() -> bool:
            admin.elect_leaders([OFFSETS])
            return offsets_error(cluster, before) == ErrorCode.not_coordinator

        wait_until(is_moved)


def consumer(cluster: LocalCluster, group: str, protocol: str = "classic") -> Consumer:
    """Return a member of a group, or a reader that only has a group's offsets."""
    settings = {
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "log_level": 0,
    }
    return Consumer({"bootstrap.servers": cluster.bootstrap_servers, **settings})


def read_all(reader: Consumer) -> None:
    """Read every record of the topic."""
    left, deadline = RECORDS, time.monotonic() + WITHIN_S
    while left and time.monotonic() < deadline:
        message = reader.poll(0.2)
        left -= message is not None and message.error() is None
    assert left == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_reads_its_partitions_though_the_coordinator_moved_before_it_asked_for_offsets(
    cluster: LocalCluster, protocol: str
) -> None:
    group = f"moved-{protocol}"
    member = consumer(cluster, group, protocol)

    def assign(reader: Consumer, partitions: list[RdkafkaPartition]) -> None:
        move_coordinator(cluster)
        (reader.incremental_assign if protocol == "consumer" else reader.assign)(partitions)

    member.subscribe(["t"], on_assign=assign)
    read_all(member)
    member.close()


def test_a_reader_without_membership_finds_the_next_coordinator(cluster: LocalCluster) -> None:
    reader = consumer(cluster, "moved-assigned")
    everything = [RdkafkaPartition("t", partition, OFFSET_STORED) for partition in range(PARTITIONS)]
    reader.committed(everything, 10)  # it has found the coordinator
    move_coordinator(cluster)
    reader.assign(everything)
    read_all(reader)
    reader.close()


def test_other_clients_get_not_coordinator(cluster: LocalCluster) -> None:
    assert offsets_error(cluster, 3 - cluster.leader_of(*OFFSETS)) == ErrorCode.not_coordinator
