"""One seed of compacted topics: keys get new values and are deleted, while logs are compacted all the time.

A value begins with its key, and so does the id of a tombstone, which is in a header. Replicas are compacted
each by itself, so they are not identical: the newest record of each key has to be the same.
"""

from __future__ import annotations

import asyncio

from ottla.common.ids import TopicPartition
from ottla.protocol.records.records import Record
from ottla.testing.checker import Violation, check_compacted, is_tombstone, key_of
from ottla.testing.history import Read
from ottla.testing.replica_check import check_compacted_replica, read_replica
from ottla.testing.simulation.consumer import SimConsumer
from ottla.testing.simulation.producer import SimProducer
from ottla.testing.simulation.scenario import CONSUMERS, PRODUCERS, TOPIC, Scenario

KEYS, KEYS_PER_S = 5, 2
"""Keys are written for a while, and others after them: what happened last to a key stays."""
DELETES = 0.3
"""How many records are tombstones."""


class KeyedProducer(SimProducer):
    """Writes new values of a few keys, and deletes them."""

    def _new_value(self, name: str) -> bytes:
        chance = self._client.chance
        kind = "-" if chance.random() < DELETES else "="
        number = int(self._client.loop.now * KEYS_PER_S) + chance.randrange(KEYS)
        return f"k{number}{kind}{name}".encode()

    def _record(self, offset: int, now_ms: int, value: bytes) -> Record:
        if is_tombstone(value):
            return Record(offset, now_ms, key_of(value), None, (("id", value),))
        return Record(offset, now_ms, key_of(value), value)


class CompactionScenario(Scenario):
    """The course of one run with a compacted topic."""

    async def _start_clients(self) -> list[asyncio.Task[None]]:
        cluster, plan = self.cluster, self.plan
        admin = cluster.new_client()
        configs = {**plan.topic_configs, "min.insync.replicas": str(plan.min_insync)}
        if plan.flush_on_ack:
            configs["flush.messages"] = "1"
        await admin.process.spawn(admin.create_topic(TOPIC, plan.partitions, plan.replicas, configs))
        tasks = []
        for number in range(PRODUCERS):
            client = cluster.new_client()
            producer = KeyedProducer(client, self.history, f"p{number}", self.places)
            self.producers.append(producer)
            tasks.append(client.process.spawn(producer.run()))
        for number in range(CONSUMERS):
            client = cluster.new_client(f"r{number + 1}" if plan.racks else "")
            consumer = SimConsumer(client, self.history, f"c{number}", dict.fromkeys(self.places, 0))
            self.consumers.append(consumer)
            tasks.append(client.process.spawn(consumer.run()))
        return tasks

    def _judge(self, logs: dict[TopicPartition, list[Read]]) -> list[Violation]:
        replicas: dict[str, dict[TopicPartition, list[Read]]] = {}
        found = []
        for place in self.places:
            for node_id in self._replicas_of(place):
                node = self.cluster.nodes[node_id]
                replica = read_replica(node.disk, f"{node.directories[0]}/{place}", node.host)
                found += check_compacted_replica(place, replica)
                replicas.setdefault(node.host, {})[place] = replica.records()
        return found + check_compacted(self.history, logs, replicas)

    def _check_disks(self, logs: dict[TopicPartition, list[Read]]) -> None:
        """Do nothing: `_judge` does it."""
