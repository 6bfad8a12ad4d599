"""AlterPartition: a leader requests another ISR.

The controller checks what the leader cannot know: that it still leads in this epoch, that the partition has
not changed since (the partition epoch is a compare-and-set), and that every new member of the ISR is alive,
not shutting down, and still the incarnation that caught up (KIP-903).

A leader that is shutting down, or whose disk is full, leaves the ISR when the first member joins that can
lead: it appends nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from ottla.common.config.broker import BrokerConfig
from ottla.controller.machine.election import ElectionInputsByTopic, resolve_partition, without_offline
from ottla.controller.machine.requests import Decision
from ottla.metadata.entities import IsrChange, partition_changed
from ottla.metadata.image import ClusterImage, PartitionImage, TopicImage
from ottla.metadata.records import MetadataRecord
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

ANY_EPOCH = -1


def alter_partitions(
    image: ClusterImage, node_id: int, broker_epoch: int, changes: Sequence[IsrChange], config: BrokerConfig
) -> Decision[PartitionImage]:
    """Change ISRs as the leader `node_id` requests; the results are the partitions afterwards."""
    broker = image.brokers.get(node_id)
    if broker is None or broker.epoch != broker_epoch or broker.fenced:
        stale = StaleBrokerEpoch(f"broker {node_id} of epoch {broker_epoch} is not in the cluster")
        return Decision((), (stale,) * len(changes))
    inputs_by_topic = ElectionInputsByTopic(image, config)
    records: list[MetadataRecord] = []
    results: list[PartitionImage | KafkaError] = []
    done: set[tuple[UUID, int]] = set()
    for change in changes:
        try:
            if (change.topic_id, change.partition) in done:
                raise InvalidRequest("the request names this partition more than once")
            topic, partition = _find(image, change)
            _check(image, node_id, change, partition)
        except KafkaError as error:
            results.append(error)
            continue
        done.add((change.topic_id, change.partition))
        inputs = inputs_by_topic.of(topic.name)
        wanted = replace(partition, isr=tuple(node for node, _ in change.new_isr))
        settled = resolve_partition(partition, without_offline(wanted, inputs), inputs)
        if settled is not partition:
            records.append(partition_changed(topic.topic_id, settled))
        results.append(settled)
    return Decision(tuple(records), tuple(results))


def _find(image: ClusterImage, change: IsrChange) -> tuple[TopicImage, PartitionImage]:
    topic = image.topic_by_id(change.topic_id)
    if topic is None:
        raise UnknownTopicId(f"there is no topic with the id {change.topic_id}")
    if not 0 <= change.partition < len(topic.partitions):
        raise UnknownTopicOrPartition(f"there is no {topic.name}-{change.partition}")
    return topic, topic.partitions[change.partition]


def _check(image: ClusterImage, node_id: int, change: IsrChange, partition: PartitionImage) -> None:
    known = (partition.leader_epoch, partition.partition_epoch)
    if change.leader_epoch > known[0] or change.partition_epoch > known[1]:
        raise NotController("the leader knows more than this controller")
    if change.leader_epoch < known[0]:
        raise FencedLeaderEpoch(f"leader epoch {change.leader_epoch} is over, {known[0]} is now")
    if node_id != partition.leader:
        raise InvalidRequest(f"broker {node_id} does not lead, broker {partition.leader} does")
    if change.partition_epoch < known[1]:
        raise InvalidUpdateVersion(f"the partition is at epoch {known[1]}, not {change.partition_epoch}")
    nodes = [node for node, _ in change.new_isr]
    if node_id not in nodes or len(set(nodes)) != len(nodes) or not set(nodes) <= set(partition.replicas):
        raise InvalidRequest(f"{nodes} cannot be the ISR of replicas {list(partition.replicas)}")
    for node, epoch in change.new_isr:
        if node != node_id and node not in partition.isr:
            _check_newcomer(image, node)
            if node in partition.failed:
                raise IneligibleReplica(f"the log directory of broker {node} with this replica is offline")
            if node in partition.full:
                raise IneligibleReplica(f"the log directory of broker {node} with this replica is full")
        _check_epoch(image, node, epoch)


def _check_newcomer(image: ClusterImage, node: int) -> None:
    broker = image.brokers.get(node)
    if broker is None or not broker.can_lead:
        raise IneligibleReplica(f"broker {node} is not there, or about to stop")


def _check_epoch(image: ClusterImage, node: int, epoch: int) -> None:
    broker = image.brokers.get(node)
    if broker is None or epoch not in (ANY_EPOCH, broker.epoch):
        raise IneligibleReplica(f"broker {node} is not the one of epoch {epoch} any more")
