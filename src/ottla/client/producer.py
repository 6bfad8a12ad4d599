"""A producer: records gather in batches, one background sender per partition ships them.

    async with Producer(cluster) as producer:
        receipt = await producer.send("orders", b"42", key=b"customer-7")
        print(await receipt.offset())

Order holds within a partition. With acks=all (the default) the producer is idempotent: what has
to be sent again is stored once. What fails is never silent: the receipts of a failed batch raise,
and so does the next `send` or `flush`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from ottla.client.cluster import Cluster, TopicInfo
from ottla.client.delivery import ACKS_ALL, Delivery
from ottla.client.partition_sender import PartitionSender, PendingBatch, Receipt
from ottla.client.partitioner import StickyPartition, partition_of
from ottla.common.clock import Clock, SystemClock
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import UnknownTopicOrPartition
from ottla.protocol.records import Record


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """How a producer batches, and how sure it wants to be."""

    acks: int = ACKS_ALL
    codec: int = 0
    linger_ms: int = 20
    batch_bytes: int = 256 * 1024
    buffer_bytes: int = 32 * 1024 * 1024
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 60_000


class Producer:
    """Sends records; see the module's description."""

    def __init__(
        self, cluster: Cluster, options: ProducerOptions | None = None, *, clock: Clock | None = None
    ) -> None:
        self.options = options or ProducerOptions()
        self.delivered = 0
        """Records that a broker has acknowledged (with acks=0: that were sent)."""
        self._cluster = cluster
        self._clock = clock or SystemClock()
        self._delivery = Delivery(
            cluster,
            acks=self.options.acks,
            request_timeout_ms=self.options.request_timeout_ms,
            delivery_timeout_ms=self.options.delivery_timeout_ms,
        )
        self._tasks = asyncio.TaskGroup()
        self._running: list[asyncio.Task[None]] = []
        self._senders: dict[TopicPartition, PartitionSender] = {}
        self._sticky: dict[str, StickyPartition] = defaultdict(StickyPartition)
        self._buffered_bytes = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._failure: BaseException | None = None

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self.flush()
        finally:
            for task in self._running:
                task.cancel()
            await self._tasks.__aexit__(None, None, None)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> Receipt:
        """Queue a record; wait only while the buffer is full. The receipt knows its offset later."""
        await self._has_room.wait()
        self._raise_failure()
        info = await self._cluster.topic(topic, create=True)
        target = TopicPartition(topic, self._choose(info, key, partition))
        sender = self._senders.get(target) or self._start_sender(target)
        when = self._clock.wall_ms() if timestamp is None else timestamp
        receipt, filled = sender.add(Record(0, when, key, value, tuple(headers)))
        if filled and key is None:
            self._sticky[topic].advance()
        return receipt

    async def flush(self) -> None:
        """Wait until everything queued so far is delivered; raise what failed since the last call."""
        await asyncio.gather(*(sender.flush() for sender in self._senders.values()))
        self._raise_failure()

    def _choose(self, topic: TopicInfo, key: bytes | None, partition: int | None) -> int:
        count = len(topic.partitions)
        if partition is None:
            return self._sticky[topic.name].current(count) if key is None else partition_of(key, count)
        if partition not in topic.partitions:
            raise UnknownTopicOrPartition(
                f"{topic.name} has no partition {partition}: it has {count}, numbered from 0"
            )
        return partition

    def _start_sender(self, partition: TopicPartition) -> PartitionSender:
        sender = self._senders[partition] = PartitionSender(
            partition,
            self._delivery,
            codec=self.options.codec,
            linger_ms=self.options.linger_ms,
            batch_bytes=self.options.batch_bytes,
            on_growth=self._grew,
            on_settled=self._settled,
        )
        self._running.append(self._tasks.create_task(sender.run()))
        return sender

    def _grew(self, size_bytes: int) -> None:
        self._buffered_bytes += size_bytes
        if self._buffered_bytes >= self.options.buffer_bytes:
            self._has_room.clear()

    def _settled(self, batch: PendingBatch) -> None:
        self._buffered_bytes -= batch.size_bytes
        if self._buffered_bytes < self.options.buffer_bytes:
            self._has_room.set()
        failure = batch.offsets.exception()
        if failure is None:
            self.delivered += len(batch.records)
        else:
            self._failure = self._failure or failure

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
