"""Decisions about the cluster as a whole: its birth, its controller, its brokers, its producer ids."""

from __future__ import annotations

from ottla.controller.machine.requests import Decision
from ottla.metadata.image import ClusterImage, PartitionImage, TopicImage
from ottla.metadata.records import (
    BrokerRegistered,
    ClusterCreated,
    ControllerElected,
    Endpoint,
    MetadataRecord,
    PartitionChanged,
    ProducerIdsAllocated,
)


def create_cluster(image: ClusterImage, cluster_id: str) -> Decision[str]:
    """Name the cluster, unless it has a name."""
    if image.cluster_id:
        return Decision((), (image.cluster_id,))
    return Decision((ClusterCreated(cluster_id),), (cluster_id,))


def elect_controller(image: ClusterImage, node_id: int, controller_epoch: int) -> Decision[int]:
    """Tell everybody who the controller is."""
    if (image.controller_id, image.controller_epoch) == (node_id, controller_epoch):
        return Decision((), (node_id,))
    return Decision((ControllerElected(node_id, controller_epoch),), (node_id,))


def register_broker(
    image: ClusterImage,
    node_id: int,
    broker_epoch: int,
    rack: str | None,
    endpoints: tuple[Endpoint, ...],
    *,
    after_unclean_stop: bool,
) -> Decision[int]:
    """Take in a broker that has started.

    One that did not stop cleanly may have lost the end of its logs, and new records will get offsets
    that old ones had. So its partitions get a new leader epoch, by which clients that read the lost
    records find out.
    """
    records: list[MetadataRecord] = [BrokerRegistered(node_id, broker_epoch, rack, endpoints)]
    if after_unclean_stop:
        records.extend(
            _led_anew(topic, each)
            for topic in image.topics.values()
            for each in topic.partitions
            if each.leader == node_id
        )
    return Decision(tuple(records), (broker_epoch,))


def _led_anew(topic: TopicImage, partition: PartitionImage) -> PartitionChanged:
    return PartitionChanged(
        topic.topic_id,
        partition.index,
        partition.leader,
        partition.leader_epoch + 1,
        partition.replicas,
        partition.isr,
        partition.partition_epoch + 1,
    )


def allocate_producer_ids(image: ClusterImage, count: int) -> Decision[range]:
    """Give away the next `count` producer ids; nobody else will ever get them."""
    first = image.next_producer_id
    return Decision((ProducerIdsAllocated(first + count),), (range(first, first + count),))
