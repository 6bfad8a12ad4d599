"""Keeps the leaders of the partitions that a producer writes to up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.client.cluster import Cluster, TopicInfo
from ottla.client.errors import ClientError
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.partition_queue import NO_LEADER, PartitionQueue
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError, LeaderNotAvailable, UnknownTopicOrPartition
from ottla.protocol.hot_path import Leader, NodeEndpoint


class Leaders:
    """Refreshes the leaders of queues.

    `on_topic` is called with every refreshed topic, `on_leader` with every queue that has batches and a
    leader now, `on_trouble` with every queue that has none, and the reason.
    """

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        *,
        on_topic: Callable[[TopicInfo], None],
        on_leader: Callable[[PartitionQueue], None],
        on_trouble: Callable[[PartitionQueue, KafkaError | ClientError], None],
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._on_topic = on_topic
        self._on_leader = on_leader
        self._on_trouble = on_trouble
        self._stale: set[str] = set()
        self._has_stale = asyncio.Event()

    def ask_about(self, topic: str) -> None:
        """Refresh the leaders of a topic soon."""
        self._cluster.forget(topic)
        self._stale.add(topic)
        self._has_stale.set()

    def ask_about_old(self) -> None:
        """Refresh the topics whose metadata is older than metadata_max_age_ms."""
        for topic in {partition.topic for partition in list(self._accumulator.queues)}:
            if self._cluster.known(topic) is None and topic not in self._stale:
                self.ask_about(topic)

    def follow(self, partition: TopicPartition, leader: Leader | None, nodes: list[NodeEndpoint]) -> None:
        """Use the leader that a broker names in its error (KIP-951); else refresh."""
        if leader is not None and self._cluster.metadata.learn_leader(partition, leader, nodes):
            self._accumulator.queues[partition].leader = leader.leader_id
        else:
            self.ask_about(partition.topic)

    async def run(self) -> None:
        """Refresh until cancelled."""
        failures = 0
        while True:
            await self._has_stale.wait()
            self._has_stale.clear()
            names, self._stale = self._stale, set()
            await self._ask(names)
            self._stale |= self._leaderless()
            failures = failures + 1 if self._stale else 0
            if failures:
                await asyncio.sleep(self._cluster.backoff.pause_ms(failures) / 1000)
                self._has_stale.set()

    async def _ask(self, names: set[str]) -> None:
        found: dict[str, TopicInfo | KafkaError | ClientError] = {}
        try:
            found.update(await self._cluster.refresh_some(names))
        except (KafkaError, ClientError) as error:
            found.update(dict.fromkeys(names, error))
        for name, info in found.items():
            if isinstance(info, TopicInfo):
                self._adopt(info)
                continue
            for queue in self._accumulator.active():
                if queue.partition.topic == name:
                    queue.leader = NO_LEADER
                    self._on_trouble(queue, info)

    def _adopt(self, topic: TopicInfo) -> None:
        self._on_topic(topic)
        for partition, queue in list(self._accumulator.queues.items()):
            if partition.topic != topic.name:
                continue
            info = topic.partitions.get(partition.partition)
            queue.leader = NO_LEADER if info is None else info.leader
            if not queue.unsent:
                continue
            if queue.leader != NO_LEADER:
                self._on_leader(queue)
            elif info is None:
                self._on_trouble(queue, UnknownTopicOrPartition(f"there is no partition {partition} now"))
            else:
                self._on_trouble(queue, LeaderNotAvailable(f"{partition} has no leader now"))

    def _leaderless(self) -> set[str]:
        """Return the topics whose queues wait for a leader."""
        return {queue.partition.topic for queue in self._accumulator.active() if queue.leader == NO_LEADER}
