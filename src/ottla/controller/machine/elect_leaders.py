"""Elections that someone asks for: of preferred leaders, or of anyone at all where nobody leads.

The preferred leader of a partition is the first of its replicas; with all of them leading, each broker has
its share of the load. After a failover others lead, and once the broker is back and in sync it is
given its partitions again: by the controller every few minutes, or when an operator asks (ElectLeaders).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import IntEnum

from ottla.common.config.broker import BrokerConfig
from ottla.common.ids import TopicPartition
from ottla.controller.machine.election import (
    NO_LEADER,
    ElectionInputs,
    ElectionInputsByTopic,
    preferred_leader,
    settle,
)
from ottla.controller.machine.requests import Decision
from ottla.metadata.entities import partition_changed
from ottla.metadata.image import ClusterImage, PartitionImage, TopicImage
from ottla.metadata.records import MetadataRecord
from ottla.protocol.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    KafkaError,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)

MOST_MOVED_AT_ONCE = 1_000


class ElectionType(IntEnum):
    """What kind of leader is asked for, with the numbers of the protocol."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    image: ClusterImage, kind: int, wanted: Sequence[TopicPartition], config: BrokerConfig
) -> Decision[PartitionImage]:
    """Elect leaders of these partitions; the results are the partitions as they then are."""
    electorates = ElectionInputsByTopic(image, config)
    records: list[MetadataRecord] = []
    results: list[PartitionImage | KafkaError] = []
    done: set[TopicPartition] = set()
    for at in wanted:
        try:
            partition = image.partition(*at)
            if partition is None:
                raise UnknownTopicOrPartition(f"there is no {at}")
            if at in done:
                raise InvalidRequest("the request names this partition more than once")
            elected = _elected(partition, kind, electorates.of(at.topic))
        except KafkaError as error:
            results.append(error)
            continue
        done.add(at)
        records.append(partition_changed(image.topics[at.topic].topic_id, elected))
        results.append(elected)
    return Decision(tuple(records), tuple(results))


def balance_leaders(image: ClusterImage, config: BrokerConfig) -> Decision[int]:
    """Give brokers that lead too few of their partitions the leadership of those; count the moves."""
    electorates = ElectionInputsByTopic(image, config)
    due = _brokers_with_too_few(image, config.leader_imbalance_per_broker_percentage)
    records: list[MetadataRecord] = []
    for topic, partition in _not_preferred(image):
        if preferred_leader(partition) not in due or len(records) == MOST_MOVED_AT_ONCE:
            continue
        try:
            elected = _elected(partition, ElectionType.PREFERRED, electorates.of(topic.name))
        except KafkaError:
            continue
        records.append(partition_changed(topic.topic_id, elected))
    return Decision(tuple(records), (len(records),))


def _elected(partition: PartitionImage, kind: int, electorate: ElectionInputs) -> PartitionImage:
    if kind == ElectionType.PREFERRED:
        preferred = preferred_leader(partition)
        if partition.leader == preferred:
            raise ElectionNotNeeded(f"broker {preferred}, the preferred leader, leads")
        if preferred not in partition.isr or preferred not in electorate.staying:
            raise PreferredLeaderNotAvailable(f"broker {preferred} is not there, or not in sync")
        return settle(partition, replace(partition, leader=preferred), electorate)
    if kind != ElectionType.UNCLEAN:
        raise InvalidRequest(f"there is no election of type {kind}")
    if partition.leader != NO_LEADER:
        raise ElectionNotNeeded(f"broker {partition.leader} leads")
    elected = settle(partition, partition, replace(electorate, unclean=True))
    if elected.leader == NO_LEADER:
        raise EligibleLeadersNotAvailable(f"none of the replicas {list(partition.replicas)} is alive")
    return elected


def _not_preferred(image: ClusterImage) -> Iterator[tuple[TopicImage, PartitionImage]]:
    for topic in image.topics.values():
        for partition in topic.partitions:
            if partition.leader != preferred_leader(partition):
                yield topic, partition


def _brokers_with_too_few(image: ClusterImage, percentage: int) -> set[int]:
    """Return the brokers of whose partitions more than this part is led by others."""
    preferred = Counter(
        preferred_leader(partition) for topic in image.topics.values() for partition in topic.partitions
    )
    led_by_others = Counter(preferred_leader(partition) for _, partition in _not_preferred(image))
    return {
        node_id for node_id, count in led_by_others.items() if count * 100 > preferred[node_id] * percentage
    }
