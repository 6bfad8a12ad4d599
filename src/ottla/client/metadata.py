"""What a client knows of the cluster: brokers, topics, who leads what, and how old that knowledge is.

Knowledge only moves forward. A broker that has fallen behind may answer with a leader of yesterday; an
answer about a partition is believed if its leader epoch is not below the one already known (KIP-320),
or if the topic has another id: then it was deleted and created again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kio.schema.metadata.v12 import MetadataResponse
from kio.schema.metadata.v12.response import MetadataResponseTopic

from ottla.common.ids import TopicPartition
from ottla.protocol.hot_path import Leader, NodeEndpoint
from ottla.wire.address import Address


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker and the address that it advertises."""

    node_id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition: who leads it, who follows; `leader` is -1 if nobody leads it now."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic and its partitions, by index."""

    name: str
    topic_id: uuid.UUID | None
    is_internal: bool
    partitions: dict[int, PartitionInfo] = field(default_factory=dict)

    @property
    def replication_factor(self) -> int:
        """The number of replicas of its partitions (of the first one, should they differ)."""
        return len(self.partitions[min(self.partitions)].replicas) if self.partitions else 0


@dataclass(slots=True)
class _Known:
    topic: TopicInfo
    learned_at: float
    is_stale: bool = False


class Metadata:
    """The brokers and the topics that a client has asked about."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, Broker] = {}
        self.are_brokers_stale = False
        """Whether one of them was not where it is said to be, or not what it is said to be."""
        self._topics: dict[str, _Known] = {}

    def topic(self, name: str, not_before: float) -> TopicInfo | None:
        """Return what is known of a topic, unless it is stale or was learned before this time."""
        known = self._topics.get(name)
        if known is None or known.is_stale or known.learned_at < not_before:
            return None
        return known.topic

    def last_known(self, name: str) -> TopicInfo | None:
        """Return what was last known of a topic, however old it is."""
        known = self._topics.get(name)
        return None if known is None else known.topic

    def mark_stale(self, name: str) -> None:
        """Do not use what is known of a topic any more before it is asked for again."""
        known = self._topics.get(name)
        if known is not None:
            known.is_stale = True

    def mark_all_stale(self) -> None:
        """Do not use anything that is known before it is asked for again."""
        self.are_brokers_stale = True
        for known in self._topics.values():
            known.is_stale = True

    def forget(self, name: str) -> None:
        """Drop everything about a topic: it does not exist any more."""
        self._topics.pop(name, None)

    def learn(self, response: MetadataResponse) -> None:
        """Take over who the brokers are."""
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.are_brokers_stale = False
        self.brokers = {
            each.node_id: Broker(each.node_id, Address(each.host, each.port), each.rack)
            for each in response.brokers
        }

    def learn_topic(self, answer: MetadataResponseTopic, now: float) -> TopicInfo:
        """Take over what a broker says of a topic, and return what is known of it now."""
        topic = _topic_info(answer)
        known = self._topics.get(topic.name)
        if known is not None and known.topic.topic_id == topic.topic_id:
            old = known.topic.partitions
            for index, new in topic.partitions.items():
                if index in old and 0 <= new.leader_epoch < old[index].leader_epoch:
                    topic.partitions[index] = old[index]
        self._topics[topic.name] = _Known(topic, now)
        return topic

    def learn_leader(self, partition: TopicPartition, leader: Leader, nodes: Iterable[NodeEndpoint]) -> bool:
        """Take over what a broker that does not lead a partition says of who does (KIP-951).

        Return whether that was news; if it was not, the topic has to be asked about.
        """
        known = self._topics.get(partition.topic)
        info = known.topic.partitions.get(partition.partition) if known is not None else None
        if known is None or info is None or leader.leader_epoch <= info.leader_epoch or leader.leader_id < 0:
            return False
        for node in nodes:
            self.brokers[node.node_id] = Broker(node.node_id, Address(node.host, node.port), node.rack)
        if leader.leader_id not in self.brokers:
            return False
        changed = replace(info, leader=leader.leader_id, leader_epoch=leader.leader_epoch)
        known.topic = replace(known.topic, partitions={**known.topic.partitions, info.index: changed})
        return True


def _topic_info(topic: MetadataResponseTopic) -> TopicInfo:
    partitions = {
        int(each.partition_index): PartitionInfo(
            index=each.partition_index,
            leader=each.leader_id,
            leader_epoch=each.leader_epoch,
            replicas=tuple(each.replica_nodes),
            isr=tuple(each.isr_nodes),
            offline=tuple(each.offline_replicas),
        )
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    }
    return TopicInfo(topic.name or "", topic.topic_id, topic.is_internal, partitions)
