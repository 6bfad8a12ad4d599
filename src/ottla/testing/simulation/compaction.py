"""One seed of compacted topics: keys get new values and are deleted, while logs are compacted all the time.

A value begins with its key, and so does the id of a tombstone, which is in a header. Replicas are compacted
each by itself, so they are not identical: the newest record of each key has to be the same. In some seeds an
operator deletes the beginning of partitions, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kio.schema.delete_records.v2 import DeleteRecordsRequest
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v7 import ListOffsetsRequest
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsTopic
from kio.schema.types import BrokerId

from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.records import Record
from ottla.protocol.types import TopicName, i8, i32, i64
from ottla.testing.checker import Violation, check_compacted, is_tombstone, key_of
from ottla.testing.history import Read
from ottla.testing.replica_check import check_compacted_replica, read_replica
from ottla.testing.simulation.client import TIMEOUT_MS, SimClient
from ottla.testing.simulation.consumer import SimConsumer
from ottla.testing.simulation.producer import SimProducer
from ottla.testing.simulation.scenario import (
    CONSUMERS,
    HEALED_WITHIN_S,
    PRODUCERS,
    TOPIC,
    Scenario,
)
from ottla.wire.connection import milliseconds

KEYS, KEYS_PER_S = 5, 2
"""Keys are written for a while, and others after them: what happened last to a key stays."""
DELETE_EVERY_S = (0.2, 1.0)
DELETE_VERSION, LIST_VERSION = 2, 7
EARLIEST = -2
FORGETS_STARTS = frozenset({"kill", "power failure", "disk replaced", "slow recovery", "broken disk"})
"""What ends a broker before it has written its log starts down: deleted records may be back."""
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


class DeletedRecords:
    """An operator deletes the beginning of partitions, again and again."""

    def __init__(self, client: SimClient, places: Sequence[TopicPartition], reader: SimConsumer) -> None:
        self.attempted: dict[TopicPartition, int] = {}
        self.confirmed: dict[TopicPartition, int] = {}
        self.is_stopping = False
        self._client = client
        self._places = places
        self._reader = reader

    async def run(self) -> None:
        """Delete records until `is_stopping`."""
        chance = self._client.chance
        while not self.is_stopping:
            await asyncio.sleep(chance.uniform(*DELETE_EVERY_S))
            place = chance.choice(self._places)
            offset = chance.randint(0, max(0, self._reader.positions[place]))
            try:
                await self._delete(place, offset)
            except KafkaError:
                self._client.forget(place)

    async def _delete(self, place: TopicPartition, offset: int) -> None:
        leader = await self._client.leader(place)
        self.attempted[place] = max(offset, self.attempted.get(place, 0))
        partition = DeleteRecordsPartition(partition_index=i32(place.partition), offset=i64(offset))
        topic = DeleteRecordsTopic(name=TopicName(place.topic), partitions=(partition,))
        request = DeleteRecordsRequest(topics=(topic,), timeout=milliseconds(TIMEOUT_MS))
        answer = await self._client.call(leader.node_id, ApiKey.DELETE_RECORDS, DELETE_VERSION, request)
        result = answer.topics[0].partitions[0]
        if result.error_code is ErrorCode.none:
            self.confirmed[place] = max(offset, self.confirmed.get(place, 0))
        else:
            self._client.forget(place)


class ResettingConsumer(SimConsumer):
    """Starts again at the beginning of a partition, once its position is deleted."""

    deleted: DeletedRecords | None = None

    async def _on_out_of_range(self, place: TopicPartition, node_id: int) -> None:
        if self.deleted is None or self.positions[place] >= self.deleted.attempted.get(place, 0):
            await super()._on_out_of_range(place, node_id)
            return
        partition = ListOffsetsPartition(
            partition_index=i32(place.partition), current_leader_epoch=i32(-1), timestamp=i64(EARLIEST)
        )
        request = ListOffsetsRequest(
            replica_id=BrokerId(-1),
            isolation_level=i8(0),
            topics=(ListOffsetsTopic(name=TopicName(place.topic), partitions=(partition,)),),
        )
        answer = await self._client.call(node_id, ApiKey.LIST_OFFSETS, LIST_VERSION, request)
        found = answer.topics[0].partitions[0]
        if found.error_code is ErrorCode.none and found.offset > self.positions[place]:
            self.positions[place] = int(found.offset)
            self._history.sought(self._name, place, self.positions[place])


class CompactionScenario(Scenario):
    """The course of one run with a compacted topic, or one whose beginning is deleted."""

    deleted: DeletedRecords
    _deleting: asyncio.Task[None] | None = None

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
            consumer = ResettingConsumer(client, self.history, f"c{number}", dict.fromkeys(self.places, 0))
            self.consumers.append(consumer)
            tasks.append(client.process.spawn(consumer.run()))
        client = cluster.new_client()
        self.deleted = DeletedRecords(client, self.places, self.consumers[0])
        for each in self.consumers:
            assert isinstance(each, ResettingConsumer)
            each.deleted = self.deleted
        if "delete" in plan.topic_configs["cleanup.policy"]:
            self._deleting = client.process.spawn(self.deleted.run())
        return tasks

    def _new_reader(self, client: SimClient) -> SimConsumer:
        reader = ResettingConsumer(client, self.history, "last", dict.fromkeys(self.places, 0))
        reader.deleted = self.deleted
        return reader

    async def _finish(self, working: list[asyncio.Task[None]]) -> dict[TopicPartition, list[Read]]:
        self.deleted.is_stopping = True
        if self._deleting is not None:
            await asyncio.wait([self._deleting], timeout=HEALED_WITHIN_S)
        return await super()._finish(working)

    def _judge(self, logs: dict[TopicPartition, list[Read]]) -> list[Violation]:
        replicas: dict[str, dict[TopicPartition, list[Read]]] = {}
        found = []
        for place in self.places:
            for node_id in self._replicas_of(place):
                node = self.cluster.nodes[node_id]
                replica = read_replica(node.disk, f"{node.directories[0]}/{place}", node.host)
                found += check_compacted_replica(place, replica)
                replicas.setdefault(node.host, {})[place] = replica.records()
        if "delete" in self.plan.topic_configs["cleanup.policy"]:
            # The producers of deleted segments are in snapshots only.
            found = [each for each in found if each.name != "wrong-producers"]
            found += self._check_starts(logs)
        return found + check_compacted(self.history, logs, replicas, self.deleted.attempted)

    def _check_starts(self, logs: dict[TopicPartition, list[Read]]) -> list[Violation]:
        """Check that what is deleted stays so. Brokers write log starts down at intervals, as Kafka's do."""
        if any(each.kind in FORGETS_STARTS for each in self.plan.faults):
            return []
        return [
            Violation("undeleted", f"{place}: offset {records[0][0]} is read, {start} was the first")
            for place, records in logs.items()
            if records and records[0][0] < (start := self.deleted.confirmed.get(place, 0))
        ]

    def _check_disks(self, logs: dict[TopicPartition, list[Read]]) -> None:
        """Do nothing: `_judge` does it."""
