"""A client's cached metadata: brokers, topics and leaders, and how old it is.

Leader epochs never go back. A broker that lags may respond with an old leader, so the metadata of a
partition is updated only if its leader epoch is not below the cached one (KIP-320), or if the topic has
another id: then it was deleted and created again.
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
    """One partition and its replicas; `leader` is -1 if it has none."""

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
class _CachedTopic:
    topic: TopicInfo
    learned_at: float
    is_stale: bool = False


class Metadata:
    """The brokers, and the topics that a client uses."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, Broker] = {}
        self.are_brokers_stale = False
        """Whether a broker could not be reached, or was not the controller: refresh the list."""
        self._topics: dict[str, _CachedTopic] = {}

    def topic(self, name: str, not_before: float) -> TopicInfo | None:
        """Return the metadata of a topic, unless it is stale or older than this time."""
        known = self._topics.get(name)
        if known is None or known.is_stale or known.learned_at < not_before:
            return None
        return known.topic

    def last_known(self, name: str) -> TopicInfo | None:
        """Return the metadata of a topic, however old."""
        known = self._topics.get(name)
        return None if known is None else known.topic

    def mark_stale(self, name: str) -> None:
        """Refresh a topic before its next use."""
        known = self._topics.get(name)
        if known is not None:
            known.is_stale = True

    def mark_all_stale(self) -> None:
        """Refresh everything before its next use."""
        self.are_brokers_stale = True
        for known in self._topics.values():
            known.is_stale = True

    def forget(self, name: str) -> None:
        """Remove a topic: it does not exist any more."""
        self._topics.pop(name, None)

    def learn(self, response: MetadataResponse) -> None:
        """Update the brokers and the controller."""
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.are_brokers_stale = False
        self.brokers = {
            each.node_id: Broker(each.node_id, Address(each.host, each.port), each.rack)
            for each in response.brokers
        }

    def learn_topic(self, answer: MetadataResponseTopic, now: float) -> TopicInfo:
        """Update a topic from a response, and return its metadata."""
        topic = _topic_info(answer)
        known = self._topics.get(topic.name)
        if known is not None and known.topic.topic_id == topic.topic_id:
            old = known.topic.partitions
            for index, new in topic.partitions.items():
                if index in old and 0 <= new.leader_epoch < old[index].leader_epoch:
                    topic.partitions[index] = old[index]
        self._topics[topic.name] = _CachedTopic(topic, now)
        return topic

    def learn_leader(self, partition: TopicPartition, leader: Leader, nodes: Iterable[NodeEndpoint]) -> bool:
        """Update the leader of a partition from an error response (KIP-951).

        Return whether it is newer than the cached one; if not, the topic must be refreshed.
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
