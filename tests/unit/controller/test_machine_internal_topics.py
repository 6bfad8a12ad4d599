"""The brokers' own topics grow with the cluster."""

from uuid import UUID

from tests.unit.controller.one_partition import CONFIG, OnePartition

from ottla.common.topic_names import CONSUMER_OFFSETS_TOPIC
from ottla.controller import machine
from ottla.controller.machine import NewTopic, Reassignment
from ottla.metadata.image import TopicImage


def with_offsets() -> OnePartition:
    cluster = OnePartition([1])
    topic = NewTopic(CONSUMER_OFFSETS_TOPIC, 6, 1)
    cluster.take(machine.create_topics(cluster.image, [topic], [UUID(int=8)], CONFIG))
    return cluster


def offsets(cluster: OnePartition) -> TopicImage:
    return cluster.image.topics[CONSUMER_OFFSETS_TOPIC]


def test_every_broker_that_joins_gets_copies_until_there_are_enough() -> None:
    cluster = with_offsets()
    assert offsets(cluster).replication_factor == 1
    cluster.start(2)
    assert all(each.adding == (2,) and each.replicas == (1, 2) for each in offsets(cluster).partitions)
    assert all(each.isr == (1,) and each.leader == 1 for each in offsets(cluster).partitions)
    cluster.start(3)
    assert offsets(cluster).replication_factor == 3
    assert cluster.image.topic_overrides(CONSUMER_OFFSETS_TOPIC) == {"min.insync.replicas": "2"}
    before = offsets(cluster)
    cluster.start(4)
    assert offsets(cluster) == before


def test_copies_are_shared_out_evenly() -> None:
    cluster = with_offsets()
    cluster.start(2, 3, 4, 5)
    held = [node for each in offsets(cluster).partitions for node in each.replicas]
    assert [held.count(node) for node in (2, 3, 4, 5)] == [3, 3, 3, 3]


def test_other_topics_and_brokers_that_return_change_nothing() -> None:
    cluster = with_offsets()
    cluster.start(2, 3)
    assert cluster.partition.replicas == (1,)
    smaller = [Reassignment(CONSUMER_OFFSETS_TOPIC, index, (1,)) for index in range(6)]
    cluster.take(machine.reassign(cluster.image, smaller, CONFIG))
    cluster.kill(2)
    cluster.start(2)
    assert offsets(cluster).replication_factor == 1
