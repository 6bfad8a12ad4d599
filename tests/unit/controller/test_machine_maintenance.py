"""A broker in maintenance leads nothing that others can lead, stays in sync, and gets no new replicas."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.unit.controller.one_partition import CONFIG, OnePartition

from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition
from ottla.controller import machine
from ottla.controller.machine import ConfigAlteration, ConfigChange, ElectionType, NewTopic, Reassignment
from ottla.metadata.entities import partition_created
from ottla.metadata.image import EMPTY, MAINTENANCE_KEY, ClusterImage, PartitionImage
from ottla.metadata.records import BrokerRegistered, ConfigChanged, ConfigResource, TopicCreated
from ottla.protocol.errors import InvalidReplicaAssignment, PreferredLeaderNotAvailable

AT = TopicPartition("orders", 0)
BROKER = ConfigResource.BROKER


def maintain(cluster: OnePartition, node_id: int, value: str | None = "true") -> None:
    change = ConfigChange(MAINTENANCE_KEY, value, 0 if value else 1)
    alteration = ConfigAlteration(BROKER, str(node_id), (change,))
    decided = machine.alter_configs(cluster.image, [alteration], CONFIG)
    cluster.take(machine.with_elections(cluster.image, decided, CONFIG))


def test_leadership_moves_away_and_the_replica_stays_in_sync() -> None:
    cluster = OnePartition()
    maintain(cluster, 1)
    assert cluster.shape == (2, (1, 2, 3), ())
    assert cluster.image.in_maintenance == {1}
    (refused,) = machine.elect_leaders(cluster.image, ElectionType.PREFERRED, [AT], CONFIG).results
    assert isinstance(refused, PreferredLeaderNotAvailable)
    assert machine.balance_leaders(cluster.image, CONFIG).records == ()
    maintain(cluster, 1, None)
    assert cluster.shape[0] == 2  # leadership returns by the election of preferred leaders
    cluster.take(machine.elect_leaders(cluster.image, ElectionType.PREFERRED, [AT], CONFIG))
    assert cluster.shape[0] == 1


def test_a_broker_in_maintenance_leads_if_no_other_replica_can() -> None:
    cluster = OnePartition()
    maintain(cluster, 2)
    cluster.kill(1)
    assert cluster.shape[0] == 3
    cluster.kill(3)
    assert cluster.shape[0] == 2  # better than nothing
    cluster.start(3)
    cluster.alter(2, 3)
    assert cluster.shape[0] == 3


def brokers(count: int, *aside: int) -> ClusterImage:
    return EMPTY.apply(
        [
            *(BrokerRegistered(each, each, None, ()) for each in range(1, count + 1)),
            *(ConfigChanged(BROKER, str(each), MAINTENANCE_KEY, "true") for each in aside),
        ]
    )


def test_new_topics_avoid_it_unless_there_are_too_few_others() -> None:
    def replicas(image: ClusterImage, factor: int) -> set[int]:
        decided = machine.create_topics(image, [NewTopic("t", 12, factor)], [UUID(int=5)], CONFIG)
        (topic,) = decided.results
        return {node for each in topic.partitions for node in each.replicas}  # type: ignore[union-attr]

    assert replicas(brokers(4, 3), 3) == {1, 2, 4}
    assert replicas(brokers(3, 3), 3) == {1, 2, 3}
    assert replicas(brokers(2, 1, 2), 1) == {1, 2}


def test_replicas_are_not_moved_to_it() -> None:
    topic = UUID(int=5)
    made = [
        TopicCreated("orders", topic),
        partition_created(topic, PartitionImage(0, 1, 0, (1, 2), (1, 2), 0)),
    ]
    image = brokers(3, 3).apply(made)
    (refused,) = machine.reassign(image, [Reassignment("orders", 0, (1, 3))], CONFIG).results
    assert isinstance(refused, InvalidReplicaAssignment)
    assert "ottla cluster maintenance stop 3" in str(refused)
    on_it = brokers(3, 1).apply(made)
    (kept,) = machine.reassign(on_it, [Reassignment("orders", 0, (2, 1))], CONFIG).results
    assert kept is None


def test_an_unregistered_broker_takes_its_maintenance_along() -> None:
    cluster = OnePartition()
    maintain(cluster, 3)
    cluster.kill(3)
    cluster.take(machine.unregister_broker(cluster.image, 3))
    cluster.start(3)
    assert cluster.image.in_maintenance == frozenset()


def image_of(*replicas: tuple[int, ...], count: int = 3) -> ClusterImage:
    topic = UUID(int=5)
    parts = [
        partition_created(topic, PartitionImage(index, each[0], 0, each, each, 0))
        for index, each in enumerate(replicas)
    ]
    return brokers(count).apply([TopicCreated("orders", topic), *parts])


def test_the_automatic_balance_moves_a_few_at_a_time_until_it_is_even() -> None:
    config = BrokerConfig({"ottla.auto.balance.moves": "2"})
    image = image_of(*[(1, 2)] * 9)
    (moved,) = machine.balance_replicas(image, config).results
    assert moved == 2
    rounds = 0
    while (decision := machine.balance_replicas(image, config)).records:
        image = image.apply(decision.records)
        assert machine.balance_replicas(image, config).results == (0,)  # one round after the other
        done = [
            partition_created(
                UUID(int=5), PartitionImage(each.index, each.target[0], 1, each.target, each.target, 2)
            )
            for each in image.topics["orders"].partitions
        ]
        image = brokers(3).apply([TopicCreated("orders", UUID(int=5)), *done])
        rounds += 1
    held = [sum(node in each.replicas for each in image.topics["orders"].partitions) for node in (1, 2, 3)]
    assert held == [6, 6, 6]
    assert rounds >= 3


def test_the_automatic_balance_ends_when_a_leader_has_to_move_over_several_partitions() -> None:
    config = BrokerConfig({"ottla.auto.balance.moves": "1"})
    placed = [(4, 2), (6, 1), (6, 1), (2, 6), (5, 6), (3, 6)]
    for _ in range(20):
        image = image_of(*placed, count=6)
        decision = machine.balance_replicas(image, config)
        if not decision.records:
            return
        after = image.apply(decision.records).topics["orders"].partitions
        placed = [each.target for each in after]  # type: ignore[misc]
    pytest.fail(f"it moves replicas and leaders forever: {placed}")


@pytest.mark.parametrize("trouble", ["fenced", "out of sync"])
def test_nothing_is_moved_while_something_is_wrong(trouble: str) -> None:
    image = image_of(*[(1, 2)] * 9)
    if trouble == "fenced":
        image = image.apply([BrokerRegistered(3, 9, None, (), fenced=True)])
    else:
        topic = image.topics["orders"]
        short = PartitionImage(0, 1, 0, (1, 2), (1,), 1)
        image = image.apply([machine_record(topic.topic_id, short)])
    assert machine.balance_replicas(image, CONFIG).records == ()


def machine_record(topic_id: UUID, partition: PartitionImage) -> object:
    from ottla.metadata.entities import partition_changed

    return partition_changed(topic_id, partition)
