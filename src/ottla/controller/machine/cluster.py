"""Decisions about the cluster as a whole: its birth, its controller, its producer ids."""

from __future__ import annotations

from ottla.controller.machine.requests import Decision
from ottla.metadata.image import ClusterImage
from ottla.metadata.records import ClusterCreated, ControllerElected, MetadataRecord, ProducerIdsAllocated


def take_office(
    image: ClusterImage, node_id: int, controller_epoch: int, new_cluster_id: str
) -> Decision[str]:
    """Tell everybody who the controller is; name the cluster, unless it has a name. The result is that."""
    records: list[MetadataRecord] = []
    if not image.cluster_id:
        records.append(ClusterCreated(new_cluster_id))
    if (image.controller_id, image.controller_epoch) != (node_id, controller_epoch):
        records.append(ControllerElected(node_id, controller_epoch))
    return Decision(tuple(records), (image.cluster_id or new_cluster_id,))


def allocate_producer_ids(image: ClusterImage, count: int) -> Decision[range]:
    """Give away the next `count` producer ids; nobody else will ever get them."""
    first = image.next_producer_id
    return Decision((ProducerIdsAllocated(first + count),), (range(first, first + count),))
