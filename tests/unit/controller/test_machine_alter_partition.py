"""What a leader may ask of the controller, and what not."""

from uuid import UUID

import pytest
from tests.unit.controller.one_partition import CONFIG, OnePartition

from ottla.controller import machine
from ottla.metadata.image import PartitionImage
from ottla.protocol.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    KafkaError,
    NotController,
    StaleBrokerEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)


def test_the_leader_takes_members_out_and_in() -> None:
    cluster = OnePartition()
    assert cluster.alter(1, 2) == cluster.partition
    assert cluster.shape == (1, (1, 2), ())
    cluster.alter(1, 2, 3)
    assert cluster.shape == (1, (1, 2, 3), ())
    assert (cluster.partition.leader_epoch, cluster.partition.partition_epoch) == (0, 2)


def test_below_the_minimum_a_member_that_falls_behind_stays_eligible() -> None:
    cluster = OnePartition(min_insync_replicas="2")
    cluster.alter(1, 3)
    cluster.alter(1)
    assert cluster.shape == (1, (1,), (3,))
    cluster.alter(1, 2)
    assert cluster.shape == (1, (1, 2), ())


def test_asking_for_what_is_there_changes_nothing() -> None:
    cluster = OnePartition()
    before = cluster.image
    assert cluster.alter(1, 2, 3) is cluster.partition
    assert cluster.image.topics is before.topics


@pytest.mark.parametrize(
    ("isr", "other", "error"),
    [
        ((1, 2), {"partition_epoch": 0}, InvalidUpdateVersion),
        ((1, 2), {"partition_epoch": 9}, NotController),
        ((1, 2), {"leader_epoch": 0}, FencedLeaderEpoch),
        ((1, 2), {"leader_epoch": 9}, NotController),
        ((1, 2), {"topic_id": UUID(int=99)}, UnknownTopicId),
        ((1, 2), {"partition": 1}, UnknownTopicOrPartition),
        ((3,), {}, InvalidRequest),
        ((), {}, InvalidRequest),
        ((2, 2), {}, InvalidRequest),
        ((2, 4), {}, InvalidRequest),
        ((2, 3), {"new_isr": ((2, -1), (3, 1))}, IneligibleReplica),
        ((2, 1), {}, IneligibleReplica),
    ],
)
def test_what_the_leader_cannot_know_is_checked(
    isr: tuple[int, ...], other: dict[str, object], error: type[KafkaError]
) -> None:
    cluster = OnePartition(brokers=[4])
    cluster.kill(1)  # 2 leads in leader epoch 1, partition epoch 1
    assert cluster.partition.leader == 2
    if isr == (1, 2):
        cluster.start(1)
    assert isinstance(cluster.alter(*isr, **other), error)


def test_another_incarnation_of_a_broker_has_not_caught_up() -> None:
    cluster = OnePartition()
    cluster.alter(1, 2)
    earlier = cluster.image.brokers[3].epoch
    cluster.start(3)
    answer = cluster.alter(1, 2, new_isr=((1, -1), (2, -1), (3, earlier)))
    assert isinstance(answer, IneligibleReplica)
    assert isinstance(cluster.alter(1, 2, 3), PartitionImage)


def test_a_broker_that_is_about_to_stop_does_not_join() -> None:
    cluster = OnePartition()
    cluster.ask_to_stop(3)
    assert cluster.shape == (1, (1, 2), ())
    assert isinstance(cluster.alter(1, 2, 3), IneligibleReplica)


def test_a_leader_that_is_about_to_stop_leaves_the_isr_with_the_first_that_joins() -> None:
    cluster = OnePartition(min_insync_replicas="2")
    cluster.kill(2, 3)
    cluster.ask_to_stop(1)
    cluster.start(2)
    assert cluster.shape == (1, (1,), (2, 3))
    cluster.alter(1, 2)
    assert cluster.shape == (2, (2,), (1, 3)), "1 has everything that is committed, and takes nothing more"


def test_an_incarnation_that_is_over_leads_nothing() -> None:
    cluster = OnePartition()
    change = cluster.change(1, 2)
    epoch = cluster.image.brokers[1].epoch
    cluster.start(1)
    decision = machine.alter_partitions(cluster.image, 1, epoch, [change, change], CONFIG)
    assert [type(each) for each in decision.results] == [StaleBrokerEpoch, StaleBrokerEpoch]


def test_a_partition_is_changed_once_by_one_request() -> None:
    cluster = OnePartition()
    leader = cluster.image.brokers[1]
    changes = [cluster.change(1, 2), cluster.change(1, 3)]
    decision = machine.alter_partitions(cluster.image, 1, leader.epoch, changes, CONFIG)
    assert isinstance(decision.results[1], InvalidRequest)
    assert len(decision.records) == 1


def test_only_the_leader_is_heard() -> None:
    cluster = OnePartition()
    other = cluster.image.brokers[2]
    decision = machine.alter_partitions(cluster.image, 2, other.epoch, [cluster.change(1, 2)], CONFIG)
    assert isinstance(decision.results[0], InvalidRequest)
