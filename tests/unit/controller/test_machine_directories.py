"""A replica that came back with another log directory is never taken for one that has everything."""

from __future__ import annotations

import pytest
from tests.unit.controller.one_partition import CONFIG, OnePartition

from ottla.common.ids import TopicPartition
from ottla.controller import machine
from ottla.controller.machine import ElectionType
from ottla.metadata.image import EMPTY
from ottla.metadata.records import decode_record, encode_record

AT = TopicPartition("orders", 0)
OLD, NEW, NEWER = "old", "new", "newer"


def cluster_of(*replicas: int, min_insync: int) -> OnePartition:
    return OnePartition(
        replicas, min_insync_replicas=str(min_insync), directories=dict.fromkeys(replicas, OLD)
    )


def replace_disk(cluster: OnePartition, node_id: int, directory_id: str = NEW) -> None:
    """Start a broker with an empty directory."""
    cluster.directories[node_id] = directory_id
    cluster.start(node_id, unclean=True)


def elect_unclean(cluster: OnePartition) -> object:
    return cluster.take(machine.elect_leaders(cluster.image, ElectionType.UNCLEAN, [AT], CONFIG))


def test_the_last_leader_is_not_elected_with_an_empty_disk() -> None:
    cluster = cluster_of(1, 2, 3, min_insync=2)
    cluster.kill(2)
    cluster.kill(3)
    cluster.kill(1)
    cluster.start(2, 3, unclean=True)  # kills that count as power failures
    assert cluster.shape == (-1, (), (1,))
    replace_disk(cluster, 1)
    assert cluster.shape == (-1, (), ())
    assert machine.partitions_awaiting_directory(cluster.image) == {1: [AT]}


def test_the_operator_elects_a_replica_with_records_rather_than_the_empty_one() -> None:
    cluster = cluster_of(1, 2, min_insync=1)
    cluster.kill(2)  # 1 goes on alone
    cluster.kill(1)
    cluster.start(2)
    replace_disk(cluster, 1)
    assert cluster.shape == (-1, (), ()), "2 may miss records, 1 has none"
    elect_unclean(cluster)
    assert cluster.shape == (2, (2,), ())
    assert machine.partitions_awaiting_directory(cluster.image) == {}
    assert cluster.partition.lost_directories == ((1, OLD),)
    cluster.alter(2, 1)
    assert cluster.partition.lost_directories == ()


def test_a_topic_that_allows_unclean_elections_takes_the_replica_with_records() -> None:
    cluster = cluster_of(1, 2, min_insync=1)
    cluster.kill(2)
    cluster.kill(1)
    cluster.start(2)
    replace_disk(cluster, 1)
    cluster.set("unclean.leader.election.enable", "true")
    cluster.follow()
    assert cluster.shape == (2, (2,), ())


def test_an_eligible_replica_leads_whatever_became_of_the_last_leader() -> None:
    cluster = cluster_of(1, 2, min_insync=1)
    cluster.kill(1, 2)
    replace_disk(cluster, 1)
    assert cluster.shape == (-1, (), (2,))
    cluster.start(2)
    assert cluster.shape == (2, (2,), ())


def test_the_only_replica_waits_for_its_former_directory() -> None:
    cluster = cluster_of(1, min_insync=1)
    cluster.kill(1)
    replace_disk(cluster, 1)
    assert cluster.shape == (-1, (), ())
    replace_disk(cluster, 1, NEWER)
    assert cluster.partition.lost_directories == ((1, OLD),)
    cluster.directories[1] = OLD  # the disk is mounted again
    cluster.start(1)
    assert cluster.shape == (1, (1,), ())
    assert cluster.partition.lost_directories == ()


def test_the_operator_may_continue_with_the_empty_only_replica() -> None:
    cluster = cluster_of(1, min_insync=1)
    cluster.kill(1)
    replace_disk(cluster, 1)
    elect_unclean(cluster)
    assert cluster.shape == (1, (1,), ())
    assert cluster.partition.lost_directories == ()


@pytest.mark.parametrize("unclean", [False, True])
def test_a_disk_from_long_ago_is_not_in_sync_however_cleanly_it_was_stopped(unclean: bool) -> None:
    cluster = cluster_of(1, 2, 3, min_insync=2)
    replace_disk(cluster, 3)
    cluster.alter(1, 2, 3)
    cluster.directories[3] = OLD
    cluster.start(3, unclean=unclean)
    assert cluster.shape == (1, (1, 2), ())
    assert cluster.partition.lost_directories == ((3, NEW),)


def test_a_leader_that_returns_empty_before_its_session_ended_is_replaced() -> None:
    cluster = cluster_of(1, 2, 3, min_insync=2)
    replace_disk(cluster, 1)
    assert cluster.shape == (2, (2, 3), ())


def test_an_empty_follower_is_remembered_while_another_leads() -> None:
    cluster = cluster_of(1, 2, 3, min_insync=1)
    cluster.kill(2, 3)
    replace_disk(cluster, 2)
    assert cluster.partition.lost_directories == ((2, OLD),)
    cluster.kill(1)
    cluster.start(3)
    elect_unclean(cluster)
    assert cluster.shape == (3, (3,), ())


def test_a_broker_that_was_unregistered_is_not_trusted_with_logs_that_lost_records() -> None:
    cluster = cluster_of(1, min_insync=1)
    cluster.kill(1)
    cluster.take(machine.unregister_broker(cluster.image, 1))
    replace_disk(cluster, 1)
    assert cluster.shape == (-1, (), ())
    assert machine.partitions_awaiting_directory(cluster.image) == {1: [AT]}


def test_metadata_without_directories_raises_no_alarm() -> None:
    cluster = OnePartition((1, 2), min_insync_replicas="1")
    cluster.kill(1, 2)
    cluster.directories = {1: OLD, 2: OLD}
    cluster.start(1, unclean=True)
    cluster.start(2, unclean=True)
    assert cluster.shape == (1, (1,), ())
    assert cluster.image.brokers[1].directory_id == OLD


def test_what_is_known_of_directories_survives_a_snapshot() -> None:
    cluster = cluster_of(1, min_insync=1)
    cluster.kill(1)
    replace_disk(cluster, 1)
    lines = [encode_record(each) for each in cluster.image.records()]
    again = EMPTY.apply(map(decode_record, lines), cluster.image.version)
    assert again == cluster.image
