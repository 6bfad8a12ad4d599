"""Fetch ranges of offsets completely, from several partitions and brokers at once.

Each range is fetched by topic id. Batches are not decoded here; columns.py converts them. Offsets without a
record (transaction markers, records that compaction has removed) count as read, once it is proven that they
have none. A range never ends early: missing records are waited for, and then the task fails.

When does an empty response prove that no record is left in a range? A leader reads up to its high watermark,
or with read_committed up to its last stable offset, and sends at least one batch if there is any: for the
first partition of the response that has one. So only a response without any batch says something about each
of its partitions. If then the leader's limit is not before the end of the range, and the offset is in the
leader's local log, no record is left. (Records in Kafka's tiered storage may come too late for a response,
which is then empty as well.) In all other cases, wait and fetch again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla.client.cluster import TRANSIENT, Cluster
from ottla.client.consumer.fetching.read_committed import visible_batches
from ottla.client.consumer.fetching.record import Batch
from ottla.client.errors import BrokerUnreachable, ClientError, ConnectionLost, NoLeader, TimedOut, error_for
from ottla.client.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, list_offsets
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import KafkaError
from ottla.protocol.fetch_client import Fetched, FetchPartitionRequest, FetchReply, FetchSettings, Topic
from ottla.protocol.records.batch import iter_batches
from ottla.spark.errors import DataLoss, SparkError
from ottla.spark.source.planning import OffsetRange
from ottla.wire.calls import fetch


class EmptyReason(Enum):
    """Why a response is empty; the value ends the sentence "it was not sent, because ..."."""

    NO_ROOM = "other partitions are sent first"
    REDIRECTED = "its leader redirects to another broker"
    HIGH_WATERMARK_BEHIND = "its leader does not know yet that it is committed"
    OPEN_TRANSACTION = "a transaction before it is still open (ottla txn list shows which)"
    NOT_IN_LOG = "its leader has no record there, unless it comes from tiered storage"


def why_empty(fetched: Fetched, range_end: int, *, committed_only: bool, had_room: bool) -> EmptyReason:
    """Return why nothing was sent; `had_room`: nothing was sent for the other partitions of the response
    either.
    """
    if not had_room:
        return EmptyReason.NO_ROOM
    if fetched.preferred_replica >= 0:
        return EmptyReason.REDIRECTED
    if fetched.high_watermark < range_end:
        return EmptyReason.HIGH_WATERMARK_BEHIND
    if committed_only and fetched.last_stable_offset < range_end:
        return EmptyReason.OPEN_TRANSACTION
    return EmptyReason.NOT_IN_LOG


ANSWER_BYTES = 16 * 1024 * 1024
WAIT_MS = 500

UNAVAILABLE = (ConnectionLost, BrokerUnreachable, NoLeader, TimedOut)
TOPIC_GONE = frozenset(
    {
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
        ErrorCode.unknown_topic_or_partition,
    }
)


@dataclass(frozen=True)
class ReadSettings:
    """How ranges are read."""

    isolation_level: int = 0
    fails_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    partition_bytes: int = 4 * 1024 * 1024
    checks_crcs: bool = True


class FetchedBatches(NamedTuple):
    """Consecutive batches of one range."""

    range: OffsetRange
    position: int
    """Records before this offset have been read."""
    batches: list[Batch]


@dataclass
class _Reading:
    range: OffsetRange
    position: int
    waits: EmptyReason | None = None
    """Why the last response was empty."""

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.range.topic, self.range.partition)

    @property
    def is_done(self) -> bool:
        return self.position >= self.range.end


class RangeReader:
    """Reads some ranges completely."""

    def __init__(self, cluster: Cluster, ranges: Sequence[OffsetRange], settings: ReadSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._left = [_Reading(each, each.start) for each in ranges]
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time()
        self._failures = 0
        self._came: list[FetchedBatches] = []
        """What was read and not yet returned; it is returned even if another leader dies meanwhile."""

    async def next(self) -> list[FetchedBatches]:
        """Return the next batches, of any of the ranges; nothing if all have been read."""
        self._extend_deadline()
        while True:
            self._left = [each for each in self._left if not each.is_done]
            if not self._left:
                return []
            try:
                await self._fetch_all()
                self._failures = 0
            except UNAVAILABLE as error:
                await self._rest(error)
            if self._came:
                pieces, self._came = self._came, []
                return pieces
            if self._loop.time() > self._deadline:
                raise self._timed_out()

    async def _fetch_all(self) -> None:
        """Fetch once from every leader, concurrently; raise an error only when all have ended."""
        by_leader: dict[int, dict[TopicPartition, _Reading]] = defaultdict(dict)
        for each in self._left:
            leader = await self._leader(each)
            if leader is not None:
                by_leader[leader].setdefault(
                    each.partition, each
                )  # parts of a partition are read one after another
        fetches = (self._fetch(*each) for each in by_leader.items())
        failures = [each for each in await asyncio.gather(*fetches, return_exceptions=True) if each]
        if failures:
            raise min(failures, key=lambda each: isinstance(each, UNAVAILABLE))  # fatal errors first

    async def _leader(self, reading: _Reading) -> int | None:
        try:
            topic = await self._cluster.topic(reading.range.topic)
            if not _is_same(reading, topic.topic_id):  # the cached metadata may be stale
                topic = (await self._cluster.refresh([reading.range.topic]))[reading.range.topic]
            if not _is_same(reading, topic.topic_id):
                self._fail_with_data_loss(
                    reading, f"the topic {reading.range.topic} was deleted and recreated"
                )
            return await self._cluster.leader(reading.partition)
        except KafkaError as error:
            if error.code in TOPIC_GONE:
                self._fail_with_data_loss(reading, f"the topic {reading.range.topic} does not exist any more")
            elif error.code in TRANSIENT:
                await self._rest(error)
            else:
                raise
        return None

    async def _fetch(self, node_id: int, readings: Mapping[TopicPartition, _Reading]) -> None:
        readings = {topic_partition: each for topic_partition, each in readings.items() if not each.is_done}
        if not readings:
            return
        reply, names = await self._ask(node_id, readings)
        if reply.error_code:
            raise error_for(reply.error_code, "fetch")
        had_room = not any(len(each.records) for _, _, partitions in reply.topics for each in partitions)
        for name, topic_id, partitions in reply.topics:
            topic = name if name is not None else names.get(topic_id, "")
            for fetched in partitions:
                reading = readings.get(TopicPartition(topic, fetched.partition))
                if reading is None:
                    continue
                if fetched.error_code:
                    await self._handle_error(reading, fetched)
                elif batches := list(iter_batches(fetched.records)) if len(fetched.records) else []:
                    self._accept(reading, batches, fetched.aborted)
                else:
                    await self._handle_empty(reading, fetched, had_room)

    async def _ask(
        self, node_id: int, readings: Mapping[TopicPartition, _Reading]
    ) -> tuple[FetchReply, dict[UUID | None, str]]:
        connection = await self._cluster.broker(node_id)
        most = self._settings.partition_bytes
        topics: dict[Topic, dict[int, FetchPartitionRequest]] = defaultdict(dict)
        for (name, partition), each in readings.items():
            topic_id = UUID(each.range.topic_id) if each.range.topic_id else None
            topics[Topic(name, topic_id)][partition] = FetchPartitionRequest(each.position, -1, most)
        settings = FetchSettings(WAIT_MS, 1, ANSWER_BYTES, self._settings.isolation_level)
        timeout_ms = self._settings.request_timeout_ms + WAIT_MS
        reply = await fetch(connection, settings, topics, timeout_ms=timeout_ms)
        return reply, {topic.topic_id: topic.name for topic in topics}

    def _accept(
        self, reading: _Reading, batches: Sequence[Batch], aborted: Sequence[tuple[int, int]]
    ) -> None:
        """Store the batches of one range, and advance its position."""
        visible = visible_batches(
            reading.partition,
            batches,
            reading.position,
            aborted,
            check_crcs=self._settings.checks_crcs,
        )
        end = reading.range.end
        wanted = [each for each in visible if each[0].base_offset < end and each[0].record_count]
        if wanted:
            self._came.append(FetchedBatches(reading.range, reading.position, wanted))
        if batches[-1][0].next_offset > reading.position:
            reading.position = batches[-1][0].next_offset
            reading.waits = None
            self._extend_deadline()

    async def _handle_empty(self, reading: _Reading, fetched: Fetched, had_room: bool) -> None:
        """Find the reason; end the range only if it is proven that no record is left in it."""
        committed_only = self._settings.isolation_level > 0
        end = reading.range.end
        why = why_empty(fetched, end, committed_only=committed_only, had_room=had_room)
        reading.waits = why
        if why is EmptyReason.NOT_IN_LOG:
            if await self._offset(reading, EARLIEST_LOCAL) <= reading.position:
                reading.position = end
        elif why is EmptyReason.HIGH_WATERMARK_BEHIND:
            # A new leader does not return its end offset before it knows the committed one (KIP-207).
            last = await self._offset(reading, LATEST)
            if last < end:
                self._fail_with_data_loss(
                    reading, f"{reading.partition} ends at offset {last}, but was to be read up to {end}"
                )

    async def _offset(self, reading: _Reading, timestamp: int) -> int:
        topic_partition = reading.partition
        return (await list_offsets(self._cluster, {topic_partition: timestamp}))[topic_partition].offset

    async def _handle_error(self, reading: _Reading, fetched: Fetched) -> None:
        code = fetched.error_code
        error = error_for(code, str(reading.partition))
        if code == ErrorCode.offset_out_of_range:
            await self._out_of_range(reading, error)
            return
        self._cluster.forget(reading.range.topic)
        if code in TRANSIENT or code in TOPIC_GONE:
            await self._rest(error)  # the next metadata refresh shows whether the topic was deleted
        else:
            raise error

    async def _out_of_range(self, reading: _Reading, error: KafkaError) -> None:
        topic_partition, position = reading.partition, reading.position
        first = await self._offset(reading, EARLIEST)
        last = await self._offset(reading, LATEST)
        if (
            first <= position <= last
        ):  # the replica that returned the error has caught up, or does not lead any more
            await self._rest(error)
            return
        self._fail_with_data_loss(
            reading, f"{topic_partition} has offsets {first} to {last}, but {position} was to be read next"
        )
        if first > position:
            reading.position = min(first, reading.range.end)

    def _fail_with_data_loss(self, reading: _Reading, what: str) -> None:
        """Fail because of data loss; with failOnDataLoss=false, skip the rest of the range."""
        if self._settings.fails_on_data_loss:
            raise DataLoss(what)
        reading.position = reading.range.end

    def _extend_deadline(self) -> None:
        self._deadline = self._loop.time() + self._settings.poll_timeout_ms / 1000

    def _timed_out(self) -> SparkError:
        reading = next((each for each in self._left if each.waits), self._left[0])
        why = reading.waits.value if reading.waits else "its leader sent nothing"
        return SparkError(
            f"{reading.partition} did not send offset {reading.position} within "
            f"{self._settings.poll_timeout_ms} ms (kafkaConsumer.pollTimeoutMs): {why}"
        )

    async def _rest(self, error: KafkaError | ClientError) -> None:
        self._failures += 1
        pause_s = self._cluster.backoff.pause_ms(self._failures) / 1000
        if self._loop.time() + pause_s > self._deadline:
            raise error
        await asyncio.sleep(pause_s)
        for each in self._left:
            self._cluster.forget(each.range.topic)


def _is_same(reading: _Reading, topic_id: UUID | None) -> bool:
    wanted = reading.range.topic_id
    return not wanted or not topic_id or str(topic_id) == wanted
