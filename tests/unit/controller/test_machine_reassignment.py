"""Partitions that move from brokers to brokers."""

from typing import Any

import pytest
from tests.unit.controller.one_partition import CONFIG, OnePartition

from ottla.common.ids import TopicPartition
from ottla.controller import machine
from ottla.controller.machine import Reassignment
from ottla.controller.machine.election import ElectionType
from ottla.protocol.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)


def move(cluster: OnePartition, *target: int, **options: Any) -> object:
    decision = machine.reassign(cluster.image, [Reassignment("orders", 0, target)], CONFIG, **options)
    return cluster.take(decision)


def cancel(cluster: OnePartition) -> object:
    return cluster.take(machine.reassign(cluster.image, [Reassignment("orders", 0, None)], CONFIG))


def six() -> OnePartition:
    return OnePartition((1, 2, 3), brokers=range(1, 7))


def test_a_partition_moves_when_all_new_replicas_have_caught_up() -> None:
    cluster = six()
    assert move(cluster, 4, 5, 6) is None
    moving = cluster.partition
    assert moving.replicas == (4, 5, 6, 1, 2, 3)
    assert (moving.adding, moving.removing, moving.target) == ((4, 5, 6), (1, 2, 3), (4, 5, 6))
    assert cluster.image.topics["orders"].replication_factor == 3
    cluster.alter(1, 2, 3, 4, 5)
    assert cluster.partition.leader == 1
    moved = cluster.alter(1, 2, 3, 4, 5, 6)
    assert moved.replicas == moved.isr == (4, 5, 6)
    assert not moved.is_reassigning
    assert (moved.leader, moved.leader_epoch) == (4, 1)


def test_a_leader_that_stays_keeps_leading() -> None:
    cluster = six()
    move(cluster, 2, 1, 4)
    moved = cluster.alter(1, 2, 3, 4)
    assert (moved.leader, moved.leader_epoch, moved.replicas) == (1, 0, (2, 1, 4))


def test_fewer_replicas_are_there_at_once() -> None:
    cluster = six()
    move(cluster, 2, 3)
    assert cluster.partition.replicas == (2, 3)
    assert cluster.partition.leader == 2


def test_the_old_replicas_stay_until_a_new_one_is_in_sync() -> None:
    cluster = six()
    cluster.alter(1)
    move(cluster, 2)
    assert cluster.partition.replicas == (2, 1, 3)
    cluster.alter(1, 2)
    assert cluster.partition.replicas == (2,)


def test_the_same_replicas_in_another_order_are_no_move() -> None:
    cluster = six()
    move(cluster, 3, 2, 1)
    assert cluster.partition.replicas == (3, 2, 1)
    assert not cluster.partition.is_reassigning
    assert cluster.partition.leader == 1
    move(cluster, 3, 2, 1)
    assert cluster.partition.partition_epoch == 1


def test_a_move_is_cancelled() -> None:
    cluster = six()
    move(cluster, 4, 5)
    cluster.alter(1, 2, 3, 4)
    assert cancel(cluster) is None
    assert cluster.partition.replicas == cluster.partition.isr == (1, 2, 3)
    assert not cluster.partition.is_reassigning
    assert isinstance(cancel(cluster), NoReassignmentInProgress)


def test_a_move_is_replaced_by_another_one() -> None:
    cluster = six()
    move(cluster, 4, 5, 6)
    cluster.alter(1, 2, 3, 4)
    move(cluster, 4, 2, 1)
    assert cluster.partition.replicas == (4, 2, 1)
    assert cluster.partition.isr == (1, 2, 4)


def test_a_move_that_would_leave_no_replica_with_all_records_is_refused() -> None:
    cluster = six()
    move(cluster, 4, 5, 6)
    cluster.alter(1, 2, 3, 4)
    cluster.kill(1)
    cluster.alter(2, 4)
    cluster.kill(2)
    assert cluster.partition.leader == 4
    cluster.alter(4)
    assert isinstance(move(cluster, 5, 6), InvalidReplicaAssignment)
    assert isinstance(cancel(cluster), InvalidReplicaAssignment)
    assert move(cluster, 4, 6) is None


def test_a_new_replica_that_dies_holds_the_move_up() -> None:
    cluster = six()
    move(cluster, 4, 5)
    cluster.alter(1, 2, 3, 4)
    cluster.kill(5)
    assert cluster.partition.is_reassigning
    cluster.kill(4)
    assert cluster.partition.isr == (1, 2, 3)


@pytest.mark.parametrize("target", [(), (1, 1), (9,), (-1,)])
def test_a_target_must_make_sense(target: tuple[int, ...]) -> None:
    assert isinstance(move(six(), *target), InvalidReplicaAssignment)


def test_the_replication_factor_stays_if_the_client_says_so() -> None:
    cluster = six()
    assert isinstance(move(cluster, 4, 5, may_change_factor=False), InvalidReplicationFactor)
    assert move(cluster, 4, 5, 6, may_change_factor=False) is None


def test_only_partitions_that_exist_move_and_each_once() -> None:
    cluster = six()
    moves = [
        Reassignment("orders", 1, (1,)),
        Reassignment("orders", 0, (1,)),
        Reassignment("orders", 0, (2,)),
    ]
    results = machine.reassign(cluster.image, moves, CONFIG).results
    assert [type(each) for each in results] == [UnknownTopicOrPartition, type(None), InvalidRequest]


def test_the_old_replicas_stay_while_too_few_new_ones_have_all_records() -> None:
    cluster = OnePartition((1, 2, 3), min_insync_replicas="2")
    cluster.alter(1, 2)
    move(cluster, 1, 3)
    assert cluster.partition.isr == (1, 2)
    assert cluster.partition.replicas == (1, 3, 2)
    cluster.alter(1, 2, 3)
    assert cluster.partition.replicas == cluster.partition.isr == (1, 3)


def test_a_move_to_fewer_replicas_than_min_insync_ends_when_they_have_all_records() -> None:
    cluster = OnePartition((1, 2, 3), min_insync_replicas="2")
    move(cluster, 2)
    assert cluster.partition.replicas == cluster.partition.isr == (2,)


def test_a_move_is_not_cancelled_while_too_few_old_replicas_have_all_records() -> None:
    cluster = OnePartition((1, 2, 3), brokers=range(1, 7), min_insync_replicas="2")
    move(cluster, 4, 5, 6)
    cluster.alter(1, 4, 5)
    assert isinstance(cancel(cluster), InvalidReplicaAssignment)
    assert isinstance(move(cluster, 1, 6), InvalidReplicaAssignment)
    cluster.alter(1, 4, 5, 2)
    assert cancel(cluster) is None
    assert cluster.partition.isr == (1, 2)


@pytest.mark.parametrize("asked", [True, False], ids=["asked for", "configured"])
def test_a_move_ends_when_the_one_that_was_added_is_elected_uncleanly(asked: bool) -> None:
    """Nobody else will ever be in sync with it, so nothing else would end the move."""
    cluster = OnePartition((1,), brokers=range(1, 4))
    move(cluster, 2)
    if not asked:
        cluster.set("unclean.leader.election.enable", "true")
    cluster.kill(1)
    if asked:
        assert cluster.partition.leader == -1
        wanted = [TopicPartition("orders", 0)]
        cluster.take(machine.elect_leaders(cluster.image, ElectionType.UNCLEAN, wanted, CONFIG))
    assert cluster.shape == (2, (2,), ())
    assert (cluster.partition.replicas, cluster.partition.is_reassigning) == ((2,), False)


def test_a_move_continues_when_a_replica_that_was_not_added_is_elected_uncleanly() -> None:
    cluster = OnePartition((1, 2), brokers=range(1, 4))
    move(cluster, 2, 3)
    cluster.alter(1)
    cluster.set("unclean.leader.election.enable", "true")
    cluster.kill(3)
    cluster.kill(1)
    assert cluster.shape == (2, (2,), ())
    assert cluster.partition.adding == (3,)
