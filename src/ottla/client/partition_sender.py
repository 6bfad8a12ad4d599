"""The records on their way to one partition: gathered into batches, sent one batch at a time.

A batch is sealed when it is full, when its first record has waited `linger_ms`, or when somebody
flushes. Only one is under way at a time, so order holds even when a batch has to be sent again;
and the sequence number moves on only when a batch is known to be stored.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.client.delivery import Delivery, Identity
from ottla.client.errors import ClientError
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError, MessageTooLarge, RecordListTooLarge
from ottla.protocol.records import Record, encode_batch

RECORD_OVERHEAD = 20
MAX_SEQUENCE = 2**31 - 1


class PendingBatch:
    """Records that will travel together, and the promise of their offsets."""

    __slots__ = ("offsets", "records", "size_bytes")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.size_bytes = 0
        self.offsets: asyncio.Future[Sequence[int]] = asyncio.get_running_loop().create_future()


class Receipt(NamedTuple):
    """What the sender of a record holds until it is delivered."""

    partition: TopicPartition
    batch: PendingBatch
    place: int

    async def offset(self) -> int:
        """Wait for the record's offset; -1 if the broker does not say (acks=0). Raise if it failed."""
        return (await asyncio.shield(self.batch.offsets))[self.place]


class PartitionSender:
    """Gathers and ships the records of one partition; `run` is its background task."""

    def __init__(
        self,
        partition: TopicPartition,
        delivery: Delivery,
        *,
        codec: int,
        linger_ms: int,
        batch_bytes: int,
        on_growth: Callable[[int], None],
        on_settled: Callable[[PendingBatch], None],
    ) -> None:
        self.partition = partition
        self._delivery = delivery
        self._codec = codec
        self._linger_ms = linger_ms
        self._batch_bytes = batch_bytes
        self._on_growth = on_growth
        self._on_settled = on_settled
        self._open: PendingBatch | None = None
        self._sealed: deque[PendingBatch] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._flushing = False
        self._identity: Identity | None = None
        self._sequence = 0

    def add(self, record: Record) -> tuple[Receipt, bool]:
        """Append a record; return its receipt and whether it found the open batch full."""
        size_bytes = _size(record)
        batch = self._open
        filled = batch is not None and batch.size_bytes + size_bytes > self._batch_bytes
        if batch is None or filled:
            if batch is not None:
                self._sealed.append(batch)
            batch = self._open = PendingBatch()
            self._idle.clear()
            self._wake.set()
        batch.records.append(record._replace(offset=len(batch.records)))
        batch.size_bytes += size_bytes
        self._on_growth(size_bytes)
        return Receipt(self.partition, batch, len(batch.records) - 1), filled

    async def flush(self) -> None:
        """Send what is there without lingering, and wait until it is delivered or has failed."""
        self._flushing = True
        self._wake.set()
        await self._idle.wait()
        self._flushing = False

    async def run(self) -> None:
        """Ship batches until cancelled."""
        while True:
            batch = await self._next_batch()
            try:
                batch.offsets.set_result(await self._ship(batch.records))
            except (KafkaError, ClientError) as error:
                self._identity = None  # it may be stored or not: a new identity keeps sequences apart
                batch.offsets.set_exception(error)
                batch.offsets.exception()  # asked for here, so that an unread receipt is no warning
            self._on_settled(batch)
            if self._open is None and not self._sealed:
                self._idle.set()

    async def _next_batch(self) -> PendingBatch:
        while not self._sealed:
            self._wake.clear()
            if self._open is None:
                await self._wake.wait()
            elif self._flushing or await self._lingered():
                batch, self._open = self._open, None
                return batch
        return self._sealed.popleft()

    async def _lingered(self) -> bool:
        """Wait for the linger time to pass; False if something happened before it had."""
        try:
            async with asyncio.timeout(self._linger_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            return True
        return False

    async def _ship(self, records: Sequence[Record]) -> Sequence[int]:
        """Deliver `records`, numbered from 0, as one batch; as two if the broker finds it too large."""
        if self._identity is None:
            self._identity = await self._delivery.new_identity()
            self._sequence = 0
        batch = encode_batch(
            records,
            codec=self._codec,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            base_sequence=self._sequence if self._delivery.is_idempotent else -1,
        )
        try:
            offsets = await self._delivery.deliver(self.partition, batch, len(records))
        except (MessageTooLarge, RecordListTooLarge):
            if len(records) == 1:
                raise
            half = len(records) // 2
            rest = [each._replace(offset=each.offset - half) for each in records[half:]]
            return [*await self._ship(records[:half]), *await self._ship(rest)]
        self._sequence = (self._sequence + len(records)) & MAX_SEQUENCE
        return offsets


def _size(record: Record) -> int:
    size = RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"") + 4
    return size
