"""Check invariants of transactions while a simulation runs.

    backward-stable      the last stable offset decreased
    unstable-end         a last stable offset is beyond the high watermark

Stable is everything below the highest last stable offset that any leader ever returned. A new leader may not
know yet how much is committed (`is_high_watermark_valid`); as soon as it does, everything below must be
decided.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from ottla.common.ids import TopicPartition
from ottla.common.topic_names import TRANSACTION_STATE_TOPIC
from ottla.coordinator.transaction.transaction import State
from ottla.replication.partition import Partition
from ottla.testing.checker import Violation
from ottla.testing.simulation.cluster import SimCluster
from ottla.testing.simulation.probe import ENOUGH, POLL_INTERVAL_S


class Hanging(NamedTuple):
    """A transaction that is open in a partition, and that no coordinator knows."""

    place: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class TransactionProbe:
    """Watches a cluster; `violations` is what it saw. Topics that may lose their end are `unsafe`."""

    def __init__(self, cluster: SimCluster, unsafe: frozenset[str] = frozenset()) -> None:
        self._unsafe = unsafe
        self.violations: list[Violation] = []
        self._cluster = cluster
        self._stable: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        while len(self.violations) < ENOUGH:
            self.check()
            await asyncio.sleep(POLL_INTERVAL_S)

    def check(self) -> None:
        """Look once."""
        for node in self._cluster.nodes.values():
            if node.broker is not None:
                for partition in node.broker.partitions:
                    if partition.is_leader and self._is_elected(node.node_id, partition):
                        self._look_at_leader(node.node_id, partition)

    def _is_elected(self, node_id: int, partition: Partition) -> bool:
        """Return whether the broker leads, not only thinks so: one that is deposed may know less."""
        found = self._cluster.image.partition(*partition.topic_partition)
        return found is not None and (found.leader, found.leader_epoch) == (node_id, partition.leader_epoch)

    def _look_at_leader(self, node_id: int, partition: Partition) -> None:
        place, stable = partition.topic_partition, partition.last_stable_offset
        before = self._stable.get(place, 0)
        where = f"at {self._cluster.loop.now:.3f} s: {place} epoch {partition.leader_epoch} on {node_id}"
        if stable > partition.high_watermark:
            detail = f"{where}: {stable} is stable, {partition.high_watermark} committed"
            self.violations.append(Violation("unstable-end", detail))
        if partition.is_high_watermark_valid and stable < before and place.topic not in self._unsafe:
            self.violations.append(Violation("backward-stable", f"{where}: {stable} after {before}"))
        self._stable[place] = max(stable, before)

    def open_transactions(self) -> list[str]:
        """Return what is open, to a coordinator or in a log, and is not prepared."""
        found, prepared = [], set()
        for node in self._cluster.nodes.values():
            if node.broker is None:
                continue
            for machine in node.broker.services.transactions.machines:
                for name, each in machine.open.items():
                    if each.is_prepared and each.state == State.ONGOING:
                        prepared.add(each.producer.producer_id)
                    else:
                        found.append(f"{name} is {each} to its coordinator {node.node_id}")
        for node in self._cluster.nodes.values():
            for partition in node.broker.partitions if node.broker is not None else ():
                if partition.topic_partition.topic == TRANSACTION_STATE_TOPIC:
                    continue
                for producer_id, entry in partition.log.producers.producers.items():
                    if entry.txn_first_offset >= 0 and producer_id not in prepared:
                        where = f"{partition.topic_partition} on broker {node.node_id}"
                        found.append(f"producer {producer_id} is open in {where}: {entry}")
        return found

    def hanging(self) -> list[Hanging]:
        """Return what is open in a partition to its leader, and to no coordinator."""
        brokers = [node.broker for node in self._cluster.nodes.values() if node.broker is not None]
        machines = [machine for broker in brokers for machine in broker.services.transactions.machines]
        known = {
            (place, each.producer.producer_id): each.producer.epoch
            for machine in machines
            for each in machine.open.values()
            for place in each.partitions
        }
        led = [each for broker in brokers for each in broker.partitions if each.is_leader]
        return [
            Hanging(partition.topic_partition, producer_id, entry.epoch, max(0, entry.coordinator_epoch))
            for partition in led
            for producer_id, entry in partition.log.producers.producers.items()
            if entry.txn_first_offset >= 0
            and known.get((partition.topic_partition, producer_id), -1) < entry.epoch
        ]
