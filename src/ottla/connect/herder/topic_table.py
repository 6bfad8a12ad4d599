"""A compacted topic as a table: read whole at start, followed, and written to."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from ottla.client import (
    AsyncConsumer,
    AsyncProducer,
    ClientError,
    ConsumerOptions,
    KafkaError,
    ProducerOptions,
)
from ottla.client.admin.topic_admin import TopicAdmin, create_compacted_topic
from ottla.client.cluster import Cluster
from ottla.common.ids import TopicPartition
from ottla.common.tasks import cancel_and_wait
from ottla.connect.errors import ConnectError
from ottla.protocol.errors import UnknownTopicOrPartition

log = logging.getLogger(__name__)

PAUSE_S = 0.5
Take = Callable[[str, Any, int], None]
"""Takes key, JSON value and offset of a record."""


class TopicTable:
    """A topic; `start`, `put`, `read_to_end`, `stop`."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int, take: Take) -> None:
        self.topic = topic
        self._cluster = cluster
        self._partitions = partitions
        self._take = take
        self._consumer = AsyncConsumer.on(
            cluster,
            ConsumerOptions.of(
                auto_offset_reset="earliest", enable_auto_commit=False, isolation_level="read_committed"
            ),
        )
        self._producer = AsyncProducer.on(cluster, ProducerOptions.of(linger_ms=0))
        self._positions: dict[int, int] = {}
        self._moved = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Create the topic if it is not there, read it to its end, and follow it."""
        count = await _ensure(self._cluster, self.topic, self._partitions)
        await self._consumer.start()
        await self._producer.start()
        self._consumer.assign([TopicPartition(self.topic, each) for each in range(count)])
        for each in range(count):
            self._consumer.seek_to_beginning(TopicPartition(self.topic, each))
        self._task = asyncio.create_task(self._follow(), name=f"connect {self.topic}")
        await self.read_to_end()

    async def stop(self) -> None:
        """Stop following."""
        if self._task is not None:
            await cancel_and_wait(self._task)
            await self._producer.close(5)
            await self._consumer.close()

    async def put(self, records: Iterable[tuple[str, Any]]) -> None:
        """Write records in their order, and wait until they are read back."""
        ends: dict[int, int] = {}
        deliveries = [
            await self._producer.send(
                self.topic,
                None if value is None else json.dumps(value, separators=(",", ":")).encode(),
                key.encode(),
            )
            for key, value in records
        ]
        for each in deliveries:
            metadata = await each
            ends[metadata.partition] = max(ends.get(metadata.partition, 0), metadata.offset + 1)
        await self._reach(ends)

    async def read_to_end(self) -> None:
        """Wait until all that is stored now is read."""
        partitions = list(self._consumer.assignment())
        ends = await self._consumer.end_offsets(partitions)
        await self._reach({each.partition: end for each, end in ends.items()})

    async def _reach(self, ends: dict[int, int]) -> None:
        async with self._moved:
            await self._moved.wait_for(
                lambda: all(self._positions.get(each, 0) >= end for each, end in ends.items())
            )

    async def _follow(self) -> None:
        while True:
            try:
                found = await self._consumer.getmany(timeout_ms=500)
                for records in found.values():
                    for each in records:
                        self._accept(each)
                positions = {
                    each.partition: await self._consumer.position(each)
                    for each in self._consumer.assignment()
                }
            except (KafkaError, ClientError) as error:
                log.warning("%s cannot be read now: %s", self.topic, error)
                await asyncio.sleep(PAUSE_S)
                continue
            async with self._moved:
                self._positions = positions
                self._moved.notify_all()

    def _accept(self, record: Any) -> None:
        if record.key is None:
            return
        try:
            key = record.key.decode()
            value = None if record.value is None else json.loads(record.value)
        except ValueError:
            log.error("%s: the record at offset %d is not Connect's", self.topic, record.offset)
            return
        try:
            self._take(key, value, record.offset)
        except Exception:  # waiters for a later record would wait forever
            log.exception("%s: the record at offset %d is skipped", self.topic, record.offset)


async def _ensure(cluster: Cluster, topic: str, partitions: int) -> int:
    """Create a compacted topic if it does not exist; return its number of partitions."""
    try:
        found = await cluster.topic(topic)
    except UnknownTopicOrPartition:
        await create_compacted_topic(cluster, topic, partitions)
        unknown = frozenset({ErrorCode.unknown_topic_or_partition})
        found = (await cluster.retrying(lambda: cluster.refresh([topic]), also=unknown))[topic]
    policy = (await TopicAdmin(cluster).topics_config("cleanup.policy", [topic])).get(topic, "compact")
    if "compact" not in policy:
        raise ConnectError(
            f"the topic {topic} has cleanup.policy={policy}, which loses records: it must be compact"
        )
    return len(found.partitions)
