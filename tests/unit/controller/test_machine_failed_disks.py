"""Brokers with two log directories: one is full, fails, is missing at a start, or is replaced."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from tests.unit.controller.one_partition import CONFIG, HERE, TOPIC_ID, OnePartition

from ottla.common.ids import TopicPartition
from ottla.controller import machine
from ottla.metadata.image import EMPTY
from ottla.metadata.records import decode_record, encode_record
from ottla.metadata.registration import (
    BrokerRegistration,
    SessionInfo,
    decode_registration,
    encode_registration,
    group_replicas,
    may_take_over,
    ungroup_replicas,
)
from ottla.protocol.errors import IneligibleReplica

AT = TopicPartition("orders", 0)
ORDERS = group_replicas([(TOPIC_ID, 0)])


class TwoDisks(OnePartition):
    """Each broker has the directories `dN` and `eN`; the partition is in `eN`."""

    def begin(self, node_id: int, **fields: object) -> None:
        """Start a broker."""
        self.epoch += 1
        known = {"directory_id": f"d{node_id}", "other_directories": (f"e{node_id}",)}
        registration = BrokerRegistration(
            HERE,
            after_unclean_stop=False,
            may_have_lost_records=False,
            **{**known, **fields},  # type: ignore[arg-type]
        )
        self.sessions[node_id] = SessionInfo(node_id, self.epoch, registration)
        self.follow()

    def replace_disk(self, node_id: int) -> None:
        self.begin(node_id, other_directories=(f"new{node_id}",), lost_replicas=ORDERS)


def cluster_of(*replicas: int, min_insync: int) -> TwoDisks:
    cluster = TwoDisks(replicas, min_insync_replicas=str(min_insync))
    for node_id in replicas:
        cluster.begin(node_id)
    return cluster


def test_a_failed_directory_moves_the_leader_and_leaves_the_isr() -> None:
    cluster = cluster_of(1, 2, 3, min_insync=2)
    assert cluster.shape == (1, (1, 2, 3), ())
    cluster.report(1, offline_replicas=ORDERS)
    assert cluster.shape == (2, (2, 3), ())
    assert (cluster.partition.failed, cluster.partition.offline({1, 2, 3})) == ((1,), (1,))
    assert isinstance(cluster.alter(2, 3, 1), IneligibleReplica)
    cluster.begin(1)
    assert cluster.partition.failed == ()
    cluster.alter(2, 3, 1)
    assert cluster.shape == (2, (2, 3, 1), ())


def test_other_partitions_of_the_broker_are_not_touched() -> None:
    cluster = cluster_of(1, 2, 3, min_insync=2)
    before = cluster.partition
    cluster.report(1, offline_replicas=group_replicas([(TOPIC_ID, 5), (UUID(int=8), 0)]))
    assert cluster.partition is before


def test_the_last_replica_is_waited_for_and_leads_again() -> None:
    cluster = cluster_of(1, min_insync=1)
    cluster.report(1, offline_replicas=ORDERS)
    assert cluster.shape == (-1, (), (1,))
    cluster.kill(1)
    cluster.begin(1, offline_replicas=ORDERS)  # the directory is still missing
    assert cluster.shape == (-1, (), (1,))
    cluster.kill(1)
    assert cluster.partition.failed == (1,), "a dead broker says nothing"
    cluster.begin(1)
    assert cluster.shape == (1, (1,), ())


def test_a_failed_replica_is_not_elected_uncleanly() -> None:
    cluster = cluster_of(1, 2, min_insync=1)
    cluster.kill(2)
    cluster.report(1, offline_replicas=ORDERS)
    cluster.begin(2)
    cluster.set("unclean.leader.election.enable", "true")
    cluster.follow()
    assert cluster.shape == (2, (2,), ())


def test_a_replaced_directory_leaves_isr_and_elr_and_is_remembered() -> None:
    cluster = cluster_of(1, 2, min_insync=1)
    cluster.kill(2)  # 1 continues alone
    cluster.kill(1)
    cluster.begin(2)
    cluster.replace_disk(1)
    assert cluster.shape == (-1, (), ()), "2 may miss records, 1 has none"
    assert cluster.partition.lost_directories == ((1, "e1"),)
    assert machine.partitions_awaiting_directory(cluster.image) == {1: [AT]}
    cluster.kill(1)
    cluster.begin(1, lost_replicas=ORDERS)  # the former disk is back; it is not what the image has
    assert cluster.shape == (1, (1,), ())
    assert cluster.partition.lost_directories == ()


def test_a_replica_in_the_directory_that_stayed_is_complete() -> None:
    cluster = cluster_of(1, 2, min_insync=1)
    cluster.kill(2)
    cluster.kill(1)
    cluster.begin(1, other_directories=("new1",), lost_replicas=group_replicas([(TOPIC_ID, 9)]))
    assert cluster.shape == (1, (1,), ())


def test_a_leader_whose_directory_was_replaced_between_two_sessions_gets_a_new_epoch() -> None:
    cluster = cluster_of(1, 2, 3, min_insync=2)
    epoch = cluster.partition.leader_epoch
    cluster.replace_disk(1)  # before its session ended
    assert cluster.shape == (2, (2, 3), ())
    assert cluster.partition.leader_epoch > epoch
    cluster.alter(2, 3, 1)
    assert cluster.partition.lost_directories == ()


@pytest.mark.parametrize("gone", ["e1", "d1"])
def test_one_of_several_directories_may_go_without_a_loss(gone: str) -> None:
    cluster = cluster_of(1, 2, min_insync=1)
    kept = {"e1": "d1", "d1": "e1"}[gone]
    cluster.begin(1, directory_id=kept, other_directories=())
    assert 1 in cluster.partition.isr
    assert not cluster.partition.lost_directories


def test_a_full_directory_moves_the_leader_and_ends_by_itself() -> None:
    cluster = cluster_of(1, 2, 3, min_insync=2)
    cluster.report(1, full_replicas=ORDERS)
    assert cluster.shape == (2, (2, 3), ())
    assert (cluster.partition.full, cluster.partition.offline({1, 2, 3})) == ((1,), ()), "it serves reads"
    assert isinstance(cluster.alter(2, 3, 1), IneligibleReplica)
    cluster.report(1, full_replicas=())
    assert cluster.partition.full == ()
    cluster.alter(2, 3, 1)
    assert cluster.shape == (2, (2, 3, 1), ())


def test_a_full_directory_does_not_touch_other_partitions_of_the_broker() -> None:
    cluster = cluster_of(1, 2, 3, min_insync=2)
    before = cluster.partition
    cluster.report(1, full_replicas=group_replicas([(TOPIC_ID, 5), (UUID(int=8), 0)]))
    assert cluster.partition is before
    assert cluster.image.brokers[1].can_lead


def test_a_leader_in_a_full_directory_stays_while_no_other_replica_can_lead() -> None:
    cluster = cluster_of(1, 2, min_insync=1)
    cluster.kill(2)
    cluster.report(1, full_replicas=ORDERS)
    assert cluster.shape == (1, (1,), ())
    cluster.begin(2)
    cluster.alter(1, 2)
    assert cluster.shape == (2, (2,), ()), "producers would wait for the full one"


def test_full_directories_everywhere_keep_the_isr() -> None:
    cluster = cluster_of(1, 2, 3, min_insync=2)
    for node_id in (1, 2):
        cluster.report(node_id, full_replicas=ORDERS)
    assert cluster.shape == (3, (3,), (2,)), "2 has everything, 1 has not"
    cluster.report(3, full_replicas=ORDERS)
    assert cluster.shape == (3, (3,), (2,))
    cluster.report(2, full_replicas=())
    cluster.kill(3)
    assert cluster.shape == (2, (2,), (3,))


def test_a_stopping_broker_does_not_wait_for_a_replica_in_a_full_directory() -> None:
    cluster = cluster_of(1, 2, min_insync=1)
    cluster.report(1, full_replicas=ORDERS)
    cluster.report(2, full_replicas=ORDERS)
    leader = cluster.partition.leader
    cluster.ask_to_stop(leader)
    assert not machine.has_leaders_to_move(cluster.image, leader)


def test_a_dead_broker_with_a_full_directory_starts_without_that_mark() -> None:
    cluster = cluster_of(1, 2, 3, min_insync=2)
    cluster.report(1, full_replicas=ORDERS)
    cluster.kill(1)
    assert cluster.partition.full == (1,)
    cluster.begin(1)
    assert cluster.partition.full == ()


def test_the_records_keep_it() -> None:
    cluster = cluster_of(1, 2, min_insync=1)
    cluster.report(1, offline_replicas=ORDERS)
    cluster.report(2, full_replicas=ORDERS)
    lines = [encode_record(each) for each in cluster.image.records()]
    again = EMPTY.apply([decode_record(each) for each in lines])
    assert again.partition(*AT) == cluster.partition
    assert again.brokers[1].directories == {"d1", "e1"}


def test_a_registration_with_replicas_is_read_as_it_was_written() -> None:
    many = [(UUID(int=9), 3), (UUID(int=9), 1), (UUID(int=10), 0)]
    registration = BrokerRegistration(
        HERE,
        directory_id="d",
        other_directories=("e",),
        offline_replicas=group_replicas(many),
        full_replicas=group_replicas(many[:1]),
    )
    assert decode_registration(encode_registration(registration)) == registration
    assert set(ungroup_replicas(registration.offline_replicas)) == set(many)


def test_a_process_with_one_of_the_holders_directories_takes_over() -> None:
    holder = BrokerRegistration(incarnation_id="1", directory_id="d", other_directories=("e",))
    newcomer = BrokerRegistration(incarnation_id="2", directory_id="e")
    assert may_take_over(newcomer, holder, is_first_session=True)
    assert not may_take_over(replace(newcomer, directory_id="x"), holder, is_first_session=True)
    assert CONFIG.node_id == 1
