"""Check invariants of the brokers every few milliseconds while a simulation runs.

    two-leaders         two brokers led a partition in one leader epoch
    isr-not-replica     an in-sync replica, or the leader, is not a replica
    isr-behind          an in-sync replica lacks committed records
    backward-leader     a leader's high watermark decreased, or is beyond its log
    failed-disk-leads   a replica on a failed disk is the leader, or in sync
    follows-old-store   a broker follows a store that has an older state than it has applied

Committed is everything below the highest high watermark that any leader ever had: the next leader must have
it.
"""

from __future__ import annotations

import asyncio

from ottla.common.ids import TopicPartition
from ottla.metadata.entities import PartitionImage
from ottla.replication.partition import Partition
from ottla.testing.checker import Violation
from ottla.testing.simulation.cluster import SimCluster
from ottla.testing.simulation.node import SimNode

POLL_INTERVAL_S = 0.015
NOTICED_WITHIN_S = 4.0
"""How long after the end of the sessions a broker may need to notice that the store went back."""
ENOUGH = 5
"""The number of violations after which the probe stops."""


class Probe:
    """Checks a cluster; `violations` are its findings."""

    def __init__(self, cluster: SimCluster, topic: str) -> None:
        self.violations: list[Violation] = []
        self._cluster = cluster
        self._topic = topic
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._watermarks: dict[tuple[TopicPartition, int], int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._newest_version = 0
        self._rolled_back_s: float | None = None

    async def run(self) -> None:
        """Check until cancelled."""
        while len(self.violations) < ENOUGH:
            self.check()
            await asyncio.sleep(POLL_INTERVAL_S)

    def check(self) -> None:
        """Look once."""
        for node in self._cluster.nodes.values():
            if node.broker is not None:
                for partition in node.broker.partitions:
                    if partition.is_leader and partition.topic_partition.topic == self._topic:
                        self._check_leader(node.node_id, partition)
        if self._is_rolled_back():
            return
        image = self._cluster.image
        topic = image.topics.get(self._topic)
        for each in topic.partitions if topic is not None else ():
            self._check_isr(TopicPartition(self._topic, each.index), each)

    def _is_rolled_back(self) -> bool:
        """Return whether the store has an older state than before; after a while every broker must say so."""
        server, now_s = self._cluster.server, self._cluster.loop.now
        self._newest_version = max(self._newest_version, server.version)
        if server.version == self._newest_version:
            self._rolled_back_s = None
            return False
        if self._rolled_back_s is None:
            self._rolled_back_s = now_s
        if now_s > self._rolled_back_s + server.session_timeout_s + NOTICED_WITHIN_S:
            for node in self._cluster.nodes.values():
                if node.broker is not None and not node.is_paused:
                    self._check_refusal(node)
        return True

    def _check_refusal(self, node: SimNode) -> None:
        assert node.broker is not None
        server, controller = self._cluster.server, node.broker.controller
        applied = node.broker.cluster.image.version
        if applied <= server.version:
            return
        if controller.rolled_back is None or controller.is_registered or server.session_of(node.node_id):
            what = f"broker {node.node_id} has applied version {applied}, the store has {server.version}"
            self.violations.append(Violation("follows-old-store", what))

    def _check_leader(self, node_id: int, partition: Partition) -> None:
        place, epoch = partition.topic_partition, partition.leader_epoch
        known = self._leaders.setdefault((place, epoch), node_id)
        if known != node_id:
            self._report("two-leaders", f"{place} epoch {epoch}: brokers {known} and {node_id}")
        watermark, end = partition.high_watermark, partition.log.log_end_offset
        before = self._watermarks.get((place, epoch), 0)
        if watermark < before or watermark > end:
            detail = f"{place} epoch {epoch} on {node_id}: {watermark} after {before}, the log ends at {end}"
            self._report("backward-leader", detail)
        self._watermarks[place, epoch] = watermark
        self._committed[place] = max(watermark, self._committed.get(place, 0))

    def _check_isr(self, place: TopicPartition, image: PartitionImage) -> None:
        if not set(image.isr) <= set(image.replicas) or image.leader not in (-1, *image.isr):
            self._report("isr-not-replica", f"{place}: {image}")
        if {image.leader, *image.isr}.intersection(image.failed):
            self._report("failed-disk-leads", f"{place}: {image}")
        committed = self._committed.get(place, 0)
        for node_id in image.isr:
            node = self._cluster.nodes[node_id]
            if self._is_registered(node):
                assert node.broker is not None
                log = node.broker.log_directories.get(place)
                end = 0 if log is None else log.log_end_offset
                if end < committed:
                    detail = f"{place}: broker {node_id} ends at {end}, {committed} is committed; {image}"
                    self._report("isr-behind", detail)

    def _is_registered(self, node: SimNode) -> bool:
        """Return whether the cluster counts on the broker as it is now, not as it was before a restart."""
        if node.broker is None:
            return False
        known = self._cluster.image.brokers.get(node.node_id)
        return known is not None and not known.fenced and known.epoch == node.broker.controller.broker_epoch

    def _report(self, name: str, detail: str) -> None:
        self.violations.append(Violation(name, f"at {self._cluster.loop.now:.3f} s: {detail}"))
