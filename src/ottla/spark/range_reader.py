"""Fetches ranges of offsets: straight to their end, from several partitions and brokers at once.

Each range is fetched by the id of its topic. What the broker sends stays as it came; `arrow_rows.py` makes
columns of it. Offsets that hold no record (markers of transactions, what compaction has removed) count
as read.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla.client.cluster import TRANSIENT, Cluster
from ottla.client.consumer.record import Batch
from ottla.client.consumer.visible import visible_batches
from ottla.client.errors import BrokerUnreachable, ClientError, ConnectionLost, NoLeader, error_for
from ottla.client.offsets import EARLIEST, LATEST, list_offsets
from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import KafkaError
from ottla.protocol.fetch_client import (
    FINAL_EPOCH,
    LAST_VERSION,
    NO_SESSION,
    Asked,
    Fetched,
    FetchReply,
    FetchSettings,
    Topic,
    decode_fetch_response,
    encode_fetch_request,
)
from ottla.protocol.fetch_response import TOPIC_IDS_FROM
from ottla.protocol.record_batch import iter_batches
from ottla.spark.errors import DataLoss, SparkError
from ottla.spark.planning import OffsetRange

ANSWER_BYTES = 16 * 1024 * 1024
WAIT_MS = 500
EMPTY_ANSWERS = 3
"""After so many empty answers, though the partition goes on, there is nothing left at these offsets."""

AWAY = (ConnectionLost, BrokerUnreachable, NoLeader)
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


class Piece(NamedTuple):
    """Batches of one range that belong together."""

    range: OffsetRange
    position: int
    """Records before this one have been read."""
    batches: list[Batch]


@dataclass
class _Reading:
    range: OffsetRange
    position: int
    empty_answers: int = 0

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.range.topic, self.range.partition)

    @property
    def is_done(self) -> bool:
        return self.position >= self.range.end


class RangeReader:
    """Reads some ranges from front to back."""

    def __init__(self, cluster: Cluster, ranges: Sequence[OffsetRange], settings: ReadSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._left = [_Reading(each, each.start) for each in ranges]
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time()
        self._failures = 0
        self._came: list[Piece] = []
        """What has been read past and is to be handed out, even if another leader dies meanwhile."""

    async def next(self) -> list[Piece]:
        """Return the next batches, of any of the ranges; nothing if all have been read."""
        self._deadline = self._loop.time() + self._settings.poll_timeout_ms / 1000
        while True:
            self._left = [each for each in self._left if not each.is_done]
            if not self._left:
                return []
            try:
                await self._fetch_all()
                self._failures = 0
            except AWAY as error:
                await self._rest(error)
            if self._came:
                pieces, self._came = self._came, []
                return pieces

    async def _fetch_all(self) -> None:
        """Fetch once from every leader, from all of them at once; raise for one only when all have ended."""
        by_leader: dict[int, dict[TopicPartition, _Reading]] = defaultdict(dict)
        for each in self._left:
            leader = await self._leader(each)
            if leader is not None:
                by_leader[leader].setdefault(each.partition, each)  # parts of a partition: one after another
        fetches = (self._fetch(*each) for each in by_leader.items())
        failures = [each for each in await asyncio.gather(*fetches, return_exceptions=True) if each]
        if failures:
            raise min(failures, key=lambda each: isinstance(each, AWAY))  # what ends it all goes first

    async def _leader(self, reading: _Reading) -> int | None:
        try:
            topic = await self._cluster.topic(reading.range.topic)
            if not _is_same(reading, topic.topic_id):  # what we know may be old
                topic = (await self._cluster.refresh([reading.range.topic]))[reading.range.topic]
            if not _is_same(reading, topic.topic_id):
                self._lose(reading, f"the topic {reading.range.topic} was deleted and created again")
            return await self._cluster.leader(reading.partition)
        except KafkaError as error:
            if error.code in TOPIC_GONE:
                self._lose(reading, f"the topic {reading.range.topic} does not exist any more")
            elif error.code in TRANSIENT:
                await self._rest(error)
            else:
                raise
        return None

    async def _fetch(self, node_id: int, readings: Mapping[TopicPartition, _Reading]) -> None:
        readings = {at: each for at, each in readings.items() if not each.is_done}
        if not readings:
            return
        reply, names = await self._ask(node_id, readings)
        if reply.error_code:
            raise error_for(reply.error_code, "fetch")
        for name, topic_id, partitions in reply.topics:
            topic = name if name is not None else names.get(topic_id, "")
            for fetched in partitions:
                reading = readings.get(TopicPartition(topic, fetched.partition))
                if reading is None:
                    continue
                if fetched.error_code:
                    await self._refused(reading, fetched)
                else:
                    self._accept(reading, fetched)

    async def _ask(
        self, node_id: int, readings: Mapping[TopicPartition, _Reading]
    ) -> tuple[FetchReply, dict[UUID | None, str]]:
        connection = await self._cluster.broker(node_id)
        version = connection.version_of(ApiKey.FETCH, LAST_VERSION)
        if not all(each.range.topic_id for each in readings.values()):
            version = min(version, TOPIC_IDS_FROM - 1)
        most = self._settings.partition_bytes
        topics: dict[Topic, dict[int, Asked]] = defaultdict(dict)
        for (name, partition), each in readings.items():
            topic_id = UUID(each.range.topic_id) if each.range.topic_id else None
            topics[Topic(name, topic_id)][partition] = Asked(each.position, -1, most)
        settings = FetchSettings(WAIT_MS, 1, ANSWER_BYTES, self._settings.isolation_level)
        body = encode_fetch_request(version, settings, (NO_SESSION, FINAL_EPOCH), topics, {})
        await connection.ready()
        timeout_ms = self._settings.request_timeout_ms + WAIT_MS
        frame, at = await connection.post(ApiKey.FETCH, version, (body,), timeout_ms)
        try:
            reply = decode_fetch_response(frame, at, version)
        except KafkaError as error:
            raise connection.garbled(ApiKey.FETCH, version, error) from error
        return reply, {topic.topic_id: topic.name for topic in topics}

    def _accept(self, reading: _Reading, fetched: Fetched) -> None:
        """Take over what came for one range, and move on behind it."""
        batches = list(iter_batches(fetched.records)) if fetched.records else []
        if not batches:
            self._nothing_came(reading, fetched)
            return
        reading.empty_answers = 0
        visible = visible_batches(
            reading.partition,
            batches,
            reading.position,
            fetched.aborted,
            check_crcs=self._settings.checks_crcs,
        )
        end = reading.range.end
        wanted = [each for each in visible if each[0].base_offset < end and each[0].record_count]
        if wanted:
            self._came.append(Piece(reading.range, reading.position, wanted))
        reading.position = max(batches[-1][0].next_offset, reading.position)

    def _nothing_came(self, reading: _Reading, fetched: Fetched) -> None:
        committed = fetched.last_stable_offset if self._settings.isolation_level else fetched.high_watermark
        end = max(committed, 0)
        if end >= reading.range.end:
            reading.empty_answers += 1
            if reading.empty_answers >= EMPTY_ANSWERS:
                reading.position = reading.range.end
        elif fetched.high_watermark < reading.range.end:
            self._lose(
                reading,
                f"{reading.partition} ends at offset {fetched.high_watermark}, "
                f"and was to be read up to {reading.range.end}",
            )
        elif self._loop.time() > self._deadline:
            raise SparkError(
                f"{reading.partition} did not send offset {reading.position} within "
                f"{self._settings.poll_timeout_ms} ms: a transaction before it is still open "
                "(ottla txn list shows which)"
            )

    async def _refused(self, reading: _Reading, fetched: Fetched) -> None:
        code = fetched.error_code
        if code == ErrorCode.offset_out_of_range:
            await self._out_of_range(reading)
            return
        self._cluster.forget(reading.range.topic)
        error = error_for(code, str(reading.partition))
        if code in TRANSIENT or code in TOPIC_GONE:
            await self._rest(error)  # the next look at the metadata tells whether the topic is gone
        else:
            raise error

    async def _out_of_range(self, reading: _Reading) -> None:
        at = reading.partition
        first = (await list_offsets(self._cluster, {at: EARLIEST}))[at].offset
        last = (await list_offsets(self._cluster, {at: LATEST}))[at].offset
        position = reading.position
        self._lose(reading, f"{at} has offsets {first} to {last}, and {position} was to be read next")
        if first > position:
            reading.position = min(first, reading.range.end)

    def _lose(self, reading: _Reading, what: str) -> None:
        """Fail because of data loss; if that is not wanted, skip the rest of the range."""
        if self._settings.fails_on_data_loss:
            raise DataLoss(what)
        reading.position = reading.range.end

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
