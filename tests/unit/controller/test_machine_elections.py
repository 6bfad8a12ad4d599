"""Who leads, whatever happens to the brokers."""

import pytest
from tests.unit.controller.one_partition import CONFIG, OnePartition

from ottla.common.ids import TopicPartition
from ottla.controller import machine
from ottla.controller.machine import ConfigAlteration, ConfigChange, ElectionType
from ottla.metadata.image import PartitionImage
from ottla.metadata.records import ConfigResource
from ottla.protocol.errors import (
    BrokerIdNotRegistered,
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    PreferredLeaderNotAvailable,
)

AT = TopicPartition("orders", 0)


def elect(cluster: OnePartition, kind: int) -> object:
    return cluster.take(machine.elect_leaders(cluster.image, kind, [AT], CONFIG))


def test_another_in_sync_replica_leads_when_the_leader_dies() -> None:
    cluster = OnePartition()
    assert cluster.shape == (1, (1, 2, 3), ())
    cluster.kill(1)
    assert cluster.shape == (2, (2, 3), ())
    assert cluster.partition.leader_epoch == 1
    assert cluster.partition.partition_epoch == 1
    assert cluster.image.brokers[1].fenced


def test_the_death_of_a_follower_leaves_the_leader_epoch_alone() -> None:
    cluster = OnePartition()
    cluster.kill(3)
    assert cluster.shape == (1, (1, 2), ())
    assert (cluster.partition.leader_epoch, cluster.partition.partition_epoch) == (0, 1)


def test_below_the_minimum_those_who_leave_the_isr_stay_eligible() -> None:
    cluster = OnePartition(min_insync_replicas="2")
    cluster.kill(1)
    cluster.kill(2)
    assert cluster.shape == (3, (3,), (2,))
    cluster.kill(3)
    assert cluster.shape == (-1, (), (2, 3))
    assert cluster.partition.last_known_elr == (3,)


def test_an_eligible_replica_leads_when_it_returns() -> None:
    cluster = OnePartition(min_insync_replicas="2")
    cluster.kill(1, 2)
    cluster.kill(3)
    cluster.start(1)  # nothing was committed after it had left: 3 alone is not enough
    assert cluster.shape == (1, (1,), (2, 3))
    assert cluster.partition.last_known_elr == ()


def test_a_replica_that_had_left_before_is_not_eligible() -> None:
    cluster = OnePartition(min_insync_replicas="2")
    cluster.kill(1)  # 2 and 3 go on committing
    cluster.kill(2, 3)
    cluster.start(1)
    assert cluster.shape == (-1, (), (2, 3))
    cluster.start(3)
    assert cluster.shape == (3, (3,), (2,))


def test_the_only_member_of_a_small_isr_is_waited_for() -> None:
    cluster = OnePartition(min_insync_replicas="1")
    cluster.kill(1)
    cluster.kill(2)
    cluster.kill(3)
    cluster.start(1, 2)
    assert cluster.shape == (-1, (), (3,))
    cluster.start(3)
    assert cluster.shape == (3, (3,), ())


def test_everyone_gone_at_once_leaves_everyone_eligible() -> None:
    cluster = OnePartition()
    cluster.kill(1, 2, 3)
    assert cluster.shape == (-1, (), (1, 2, 3))
    cluster.start(2)
    assert cluster.shape == (2, (2,), (1, 3))
    cluster.start(1, 3)
    assert cluster.alter(2, 1).elr == ()


def test_a_replica_that_may_commit_alone_makes_all_others_ineligible() -> None:
    cluster = OnePartition(min_insync_replicas="1")
    cluster.kill(1, 2, 3)
    assert cluster.shape == (-1, (), (1, 2, 3))
    cluster.start(2)
    assert cluster.shape == (2, (2,), ())


def test_a_broker_back_from_an_unclean_stop_is_in_no_isr() -> None:
    cluster = OnePartition()
    cluster.start(2, unclean=True)
    assert cluster.shape == (1, (1, 3), ())
    cluster.start(1, unclean=True)
    assert cluster.shape == (3, (3,), ())
    cluster.kill(3)
    assert cluster.shape == (-1, (), (3,))


def test_after_a_power_failure_of_all_the_last_leader_leads() -> None:
    cluster = OnePartition()
    cluster.kill(1)
    cluster.kill(2, 3)
    assert cluster.partition.last_known_elr == (2,)
    cluster.start(1, 3, unclean=True)
    assert cluster.shape == (-1, (), (2,))
    cluster.start(2, unclean=True)
    assert cluster.shape == (2, (2,), ())


def alone_after_a_failed_disk() -> OnePartition:
    """Return a cluster in which 3 leads alone, and 2 has all that is committed, but on a disk that failed."""
    cluster = OnePartition(min_insync_replicas="2")
    cluster.kill(1)
    cluster.kill(2)
    cluster.alter(3)
    assert cluster.shape == (3, (3,), (2,))
    return cluster


def test_a_replica_whose_disk_failed_has_more_than_a_last_leader_that_lost_power() -> None:
    cluster = alone_after_a_failed_disk()
    cluster.kill(3)
    cluster.start(1)
    cluster.start(3, unclean=True)
    assert cluster.shape == (-1, (), (2,))
    cluster.start(2, unclean=True, seems_whole=True)
    assert cluster.shape == (2, (2,), ())
    assert cluster.partition.last_known_elr == ()


def test_a_replica_whose_disk_failed_is_waited_for_until_it_has_lost_records_too() -> None:
    cluster = alone_after_a_failed_disk()
    cluster.start(2, unclean=True, seems_whole=True)
    assert (cluster.shape, cluster.partition.last_known_elr) == ((3, (3,), ()), (2,))
    cluster.kill(2, 3)
    cluster.start(3, unclean=True)
    assert (cluster.shape, cluster.partition.last_known_elr) == ((-1, (), ()), (2, 3))
    cluster.start(2, unclean=True)
    assert cluster.shape == (3, (3,), ())


def test_a_last_leader_whose_disk_failed_is_remembered_when_others_lead_that_then_lose_power() -> None:
    cluster = OnePartition(min_insync_replicas="2")
    cluster.kill(2, 3)
    cluster.start(1, unclean=True, seems_whole=True)
    assert cluster.shape == (-1, (), (2, 3))
    cluster.start(2)
    assert (cluster.shape, cluster.partition.last_known_elr) == ((2, (2,), (3,)), (1,))
    cluster.start(2, 3, unclean=True)
    assert cluster.shape == (1, (1,), ())


def test_a_replica_whose_disk_failed_gets_no_exception_from_one_that_may_commit_alone() -> None:
    cluster = OnePartition((1, 2), min_insync_replicas="1")
    cluster.start(1, 2, unclean=True, seems_whole=True)
    assert (cluster.shape, cluster.partition.last_known_elr) == ((1, (1,), ()), ())
    cluster.start(1, unclean=True)
    assert cluster.shape == (1, (1,), ())


def test_once_enough_are_in_sync_a_replica_whose_disk_failed_gets_no_exception() -> None:
    cluster = alone_after_a_failed_disk()
    cluster.start(2, unclean=True, seems_whole=True)
    cluster.start(1)
    assert cluster.alter(3, 1).last_known_elr == ()


def test_a_smaller_minimum_lets_the_leader_commit_without_a_replica_whose_disk_failed() -> None:
    cluster = alone_after_a_failed_disk()
    cluster.start(2, unclean=True, seems_whole=True)
    change = ConfigAlteration(ConfigResource.TOPIC, "orders", (ConfigChange("min.insync.replicas", "1"),))
    decision = machine.alter_configs(cluster.image, [change], CONFIG)
    cluster.take(machine.with_elections(cluster.image, decision, CONFIG))
    assert cluster.partition.last_known_elr == ()


def test_one_replica_leads_again_after_each_kind_of_stop() -> None:
    cluster = OnePartition([1])
    cluster.start(1)
    assert (cluster.shape, cluster.partition.leader_epoch) == ((1, (1,), ()), 0)
    cluster.start(1, unclean=True)
    assert (cluster.shape, cluster.partition.leader_epoch) == ((1, (1,), ()), 1)
    cluster.kill(1)
    assert cluster.shape == (-1, (), (1,))
    cluster.start(1)
    assert cluster.shape == (1, (1,), ())
    cluster.kill(1)
    cluster.start(1, unclean=True)
    assert cluster.shape == (1, (1,), ())


def test_an_unclean_election_happens_only_where_it_is_configured() -> None:
    cluster = OnePartition()
    cluster.kill(1)
    cluster.kill(2, 3)
    cluster.start(1)
    assert cluster.partition.leader == -1
    change = ConfigChange("unclean.leader.election.enable", "true")
    alteration = ConfigAlteration(ConfigResource.TOPIC, "orders", (change,))
    decision = machine.alter_configs(cluster.image, [alteration], CONFIG)
    cluster.take(machine.with_elections(cluster.image, decision, CONFIG))
    assert cluster.shape == (1, (1,), ())


def test_an_operator_may_elect_uncleanly() -> None:
    cluster = OnePartition()
    cluster.kill(1)
    cluster.kill(2, 3)
    assert isinstance(elect(cluster, ElectionType.UNCLEAN), EligibleLeadersNotAvailable)
    cluster.start(1)
    elected = elect(cluster, ElectionType.UNCLEAN)
    assert isinstance(elected, PartitionImage)
    assert cluster.shape == (1, (1,), ())
    assert isinstance(elect(cluster, ElectionType.UNCLEAN), ElectionNotNeeded)


def test_with_a_smaller_minimum_no_replica_stays_eligible_that_may_miss_records() -> None:
    cluster = OnePartition(min_insync_replicas="2")
    cluster.kill(1)
    cluster.kill(2)
    assert cluster.shape == (3, (3,), (2,))
    alteration = ConfigAlteration(ConfigResource.TOPIC, "orders", (ConfigChange("min.insync.replicas", "1"),))
    decision = machine.alter_configs(cluster.image, [alteration], CONFIG)
    cluster.take(machine.with_elections(cluster.image, decision, CONFIG))
    assert cluster.shape == (3, (3,), ())


def test_a_broker_that_wants_to_stop_gives_its_partitions_away() -> None:
    cluster = OnePartition()
    assert machine.has_leaders_to_move(cluster.image, 1)
    cluster.ask_to_stop(1)
    assert cluster.shape == (2, (2, 3), ())
    assert cluster.image.brokers[1].shutting_down
    assert not machine.has_leaders_to_move(cluster.image, 1)


def test_the_last_one_leads_until_it_is_gone() -> None:
    cluster = OnePartition()
    cluster.kill(2, 3)
    cluster.ask_to_stop(1)
    assert cluster.shape == (1, (1,), (2, 3))
    assert not machine.has_leaders_to_move(cluster.image, 1)
    cluster.kill(1)
    assert cluster.shape == (-1, (), (1, 2, 3))


def test_a_broker_with_another_address_is_registered_again_and_keeps_what_it_leads() -> None:
    cluster = OnePartition()
    before = cluster.partition
    session = cluster.sessions[1]
    endpoint = session.registration.endpoints[0]._replace(port=9093)
    cluster.sessions[1] = type(session)(1, session.broker_epoch, type(session.registration)((endpoint,)))
    cluster.follow()
    assert cluster.image.brokers[1].endpoints[0].port == 9093
    assert cluster.partition is before


def test_the_preferred_leader_is_elected_when_it_is_in_sync_again() -> None:
    cluster = OnePartition()
    assert isinstance(elect(cluster, ElectionType.PREFERRED), ElectionNotNeeded)
    cluster.kill(1)
    cluster.start(1)
    assert isinstance(elect(cluster, ElectionType.PREFERRED), PreferredLeaderNotAvailable)
    cluster.alter(2, 3, 1)
    epoch = cluster.partition.leader_epoch
    elect(cluster, ElectionType.PREFERRED)
    assert cluster.partition.leader == 1
    assert cluster.partition.leader_epoch == epoch + 1


@pytest.mark.parametrize(("percentage", "leader"), [("10", 1), ("100", 2)])
def test_leadership_is_balanced_beyond_the_imbalance_that_is_allowed(percentage: str, leader: int) -> None:
    cluster = OnePartition()
    cluster.kill(1)
    cluster.start(1)
    cluster.alter(2, 3, 1)
    config = type(CONFIG)({"node.id": "1", "leader.imbalance.per.broker.percentage": percentage})
    cluster.take(machine.balance_leaders(cluster.image, config))
    assert cluster.partition.leader == leader


def test_there_is_no_third_type_of_election() -> None:
    assert isinstance(elect(OnePartition(), 2), InvalidRequest)


def test_only_a_broker_that_is_gone_can_be_forgotten() -> None:
    cluster = OnePartition([1], brokers=[2])
    assert isinstance(cluster.take(machine.unregister_broker(cluster.image, 2)), InvalidRequest)
    assert isinstance(cluster.take(machine.unregister_broker(cluster.image, 9)), BrokerIdNotRegistered)
    cluster.kill(2)
    cluster.take(machine.unregister_broker(cluster.image, 2))
    assert set(cluster.image.brokers) == {1}
