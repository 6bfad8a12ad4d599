"""A consumer of assigned partitions: it keeps its own positions and reads on from them.

    consumer = Consumer(cluster, {TopicPartition("orders", 0): 42})
    async with consumer:
        for record in await consumer.poll(): ...

One fetch per leader is under way at a time; `poll` returns as soon as any of them brings records,
so a quiet broker does not hold up a busy one. A position moves when records are returned, never
before: what a caller has not been given will be fetched again.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple, Self

from kio.schema.errors import ErrorCode

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, error_for
from ottla.client.fetching import FetchedPartition, FetchLimits, Position, fetch
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import CorruptMessage, KafkaError, OffsetOutOfRange
from ottla.protocol.record_batch import check_crc, iter_batches
from ottla.protocol.records import decode_records

MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024


class ConsumedRecord(NamedTuple):
    """A record and where it was found."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Consumer:
    """Reads partitions from given offsets; see the module's description."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[TopicPartition, int],
        limits: FetchLimits | None = None,
    ) -> None:
        self.positions = dict(positions)
        """The next offset to read, by partition. Taking a partition out stops reading it."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        self._cluster = cluster
        self._limits = limits or FetchLimits()
        self._fetches: dict[asyncio.Task[list[FetchedPartition]], frozenset[TopicPartition]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._fetches:
            task.cancel()
        await asyncio.gather(*self._fetches, return_exceptions=True)
        self._fetches.clear()

    async def poll(self) -> list[ConsumedRecord]:
        """Return the records that come first, or nothing after the longest wait allowed.

        Raises OffsetOutOfRange if a position is not in the log (any more).
        """
        if not self.positions:
            return []
        return await self._cluster.retrying(self._poll, patient=True)

    async def _poll(self) -> list[ConsumedRecord]:
        await self._start_fetches()
        done, _ = await asyncio.wait(self._fetches, return_when=asyncio.FIRST_COMPLETED)
        records: list[ConsumedRecord] = []
        failure: Exception | None = None
        for task in done:
            partitions = self._fetches.pop(task)
            if (error := task.exception()) is not None:
                for partition in partitions:
                    self._cluster.forget(partition.topic)
                failure = error if isinstance(error, Exception) else failure
                continue
            for fetched in task.result():
                try:
                    records += self._absorb(fetched)
                except KafkaError as error:
                    failure = error
        if failure is not None and not records:  # with records, the failure will come again
            raise failure
        return records

    async def _start_fetches(self) -> None:
        """Send a fetch to every leader that has none under way; raise only if that leaves none at all."""
        under_way = frozenset[TopicPartition]().union(*self._fetches.values())
        by_leader: dict[int, dict[TopicPartition, Position]] = defaultdict(dict)
        topic_ids: dict[str, uuid.UUID | None] = {}
        failure: KafkaError | ClientError | None = None
        for partition in self.positions.keys() - under_way:
            try:
                leader = await self._cluster.leader(partition)
                topic = await self._cluster.topic(partition.topic)
            except (KafkaError, ClientError) as error:
                failure = error
                continue
            topic_ids[topic.name] = topic.topic_id
            epoch = topic.partitions[partition.partition].leader_epoch
            by_leader[leader][partition] = Position(self.positions[partition], epoch)
        for leader, wanted in by_leader.items():
            try:
                connection = await self._cluster.broker(leader)
            except ClientError as error:
                failure = error
                continue
            task = asyncio.ensure_future(fetch(connection, wanted, topic_ids, self._limits))
            self._fetches[task] = frozenset(wanted)
        if failure is not None and not self._fetches:
            raise failure

    def _absorb(self, fetched: FetchedPartition) -> list[ConsumedRecord]:
        """Return the new records of a partition and move its position behind them."""
        partition = fetched.partition
        position = self.positions.get(partition)
        if position is None:
            return []
        if fetched.error_code:
            self._refuse(partition, position, fetched.error_code)
        self.high_watermarks[partition] = fetched.high_watermark
        records: list[ConsumedRecord] = []
        for header, batch in iter_batches(fetched.records):
            if header.next_offset <= position:
                continue
            try:
                check_crc(batch, header)
                found = [] if header.is_control else decode_records(batch, max_bytes=MAX_DECOMPRESSED_BYTES)
            except KafkaError as error:
                if records:
                    break  # hand out what is good; the next poll starts at the bad batch
                raise CorruptMessage(f"{partition} at offset {header.base_offset}: {error}") from error
            records += [ConsumedRecord._make(partition + each) for each in found if each.offset >= position]
            position = self.positions[partition] = header.next_offset
        return records

    def _refuse(self, partition: TopicPartition, position: int, code: int) -> None:
        self._cluster.forget(partition.topic)
        if code == ErrorCode.offset_out_of_range:
            raise OffsetOutOfRange(f"{partition} has no offset {position}")
        raise error_for(code)
