"""Fetches batches of a topic from positions on: all partitions of a leader in one request, the next request
while the batches of the last one are looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.consumer import ConsumerRecord
from ottla.client.consumer.fetching.record import Batch, Decoder
from ottla.client.errors import raise_for
from ottla.client.offsets import by_leader
from ottla.common.ids import TopicPartition
from ottla.common.tasks import cancel_and_wait
from ottla.console.messages.decoding import TruncatedBytes
from ottla.protocol.errors import CorruptMessage, InvalidRecord, KafkaError, OffsetOutOfRange
from ottla.protocol.fetch_client import Fetched, FetchPartitionRequest, FetchSettings, Topic
from ottla.protocol.records.batch import iter_batches
from ottla.wire.calls import fetch

MIB = 1024 * 1024
SETTINGS = FetchSettings(max_wait_ms=0, min_bytes=0, max_bytes=16 * MIB, isolation_level=0)
FETCH_TIMEOUT_MS = 30_000
NO_PROGRESS_S = 0.05
_decoder = Decoder()


class Chunk(NamedTuple):
    """Batches of one partition, and the offsets that they are taken from and to."""

    partition: TopicPartition
    batches: list[Batch]
    position: int
    next_offset: int
    end: int


async def read(
    cluster: Cluster,
    topic: str,
    positions: Mapping[int, int],
    ends: Mapping[int, int],
    *,
    partition_bytes: int = MIB,
) -> AsyncIterator[Chunk]:
    """Yield the batches from the positions to before the end offsets, one fetch of a partition at a time."""
    left = {at: offset for at, offset in positions.items() if offset < ends[at]}
    under_way: asyncio.Task[list[Chunk]] | None = None
    try:
        if left:
            under_way = asyncio.create_task(_round(cluster, topic, left, ends, partition_bytes))
        while under_way is not None:
            chunks = await under_way
            under_way = None
            for chunk in chunks:
                at = chunk.partition.partition
                del left[at]
                if chunk.next_offset < chunk.end:
                    left[at] = chunk.next_offset  # behind those that got nothing this time
            if not chunks:
                await asyncio.sleep(NO_PROGRESS_S)
            if left:
                under_way = asyncio.create_task(_round(cluster, topic, left, ends, partition_bytes))
            for chunk in chunks:
                yield chunk
    finally:
        await cancel_and_wait(under_way)


async def _round(
    cluster: Cluster, topic: str, left: Mapping[int, int], ends: Mapping[int, int], partition_bytes: int
) -> list[Chunk]:
    """Fetch once from each leader; return what came of each partition."""

    async def attempt() -> list[Chunk]:
        leaders = await by_leader(cluster, [TopicPartition(topic, each) for each in left])
        found = await asyncio.gather(
            *(
                _fetch(
                    cluster,
                    topic,
                    node_id,
                    {at.partition: left[at.partition] for at in led},
                    ends,
                    partition_bytes,
                )
                for node_id, led in leaders.items()
            )
        )
        return [chunk for chunks in found for chunk in chunks]

    return await cluster.retrying(attempt, what=f"{topic} was not read")


async def _fetch(
    cluster: Cluster,
    topic: str,
    node_id: int,
    positions: Mapping[int, int],
    ends: Mapping[int, int],
    partition_bytes: int,
) -> list[Chunk]:
    info = await cluster.topic(topic)
    connection = await cluster.broker(node_id)
    wanted = {
        Topic(topic, info.topic_id): {
            index: FetchPartitionRequest(offset, -1, max_bytes=partition_bytes)
            for index, offset in positions.items()
        }
    }
    reply = await fetch(connection, SETTINGS, wanted, timeout_ms=FETCH_TIMEOUT_MS)
    raise_for(reply.error_code, "fetch")
    answers = {each.partition: each for _, _, found in reply.topics for each in found}
    are_empty = not any(len(each.records) for each in answers.values())
    chunks = []
    for index, answer in answers.items():
        chunk = _chunk(
            cluster, TopicPartition(topic, index), answer, positions[index], ends[index], are_empty
        )
        if chunk is not None:
            chunks.append(chunk)
    return chunks


def _chunk(
    cluster: Cluster, at: TopicPartition, answer: Fetched, position: int, end: int, are_empty: bool
) -> Chunk | None:
    """Return what came of a partition; None if it is to be asked for again.

    Brokers leave partitions out of a response that is full: only if all are empty is there nothing.
    """
    try:
        raise_for(answer.error_code, str(at))
    except OffsetOutOfRange:  # deleted meanwhile
        return Chunk(at, [], position, max(position + 1, answer.log_start_offset), end)
    except KafkaError:
        cluster.forget(at.topic)
        raise
    batches: list[Batch] = list(iter_batches(answer.records))
    if batches:
        return Chunk(at, batches, position, batches[-1][0].next_offset, end)
    if are_empty and answer.high_watermark >= end:
        return Chunk(at, [], position, end, end)  # compaction has taken the rest
    return None


def records_by_batch(chunk: Chunk) -> Iterator[list[ConsumerRecord]]:
    """Yield the records of each batch of a chunk; none of control batches and of corrupt ones.

    A megabyte of batches may unpack to many gigabytes: only one batch is unpacked at a time.
    """
    for batch in chunk.batches:
        found: list[ConsumerRecord] = []
        if not batch[0].is_control:
            with suppress(InvalidRecord, CorruptMessage):
                found = list(_decoder.decode(chunk.partition, [batch], chunk.position))
        if found and found[-1].offset >= chunk.end:
            found = [each for each in found if each.offset < chunk.end]
        yield found


def records_of(chunk: Chunk, keep: int | None = None) -> list[ConsumerRecord]:
    """Return the records of a chunk; of large keys and values only the first `keep` bytes."""
    return [
        each if keep is None else shortened(each, keep)
        for records in records_by_batch(chunk)
        for each in records
    ]


def shortened(record: ConsumerRecord, keep: int) -> ConsumerRecord:
    """Return a record with no more than the beginning of its key and its value."""
    if len(record.key or b"") <= keep and len(record.value or b"") <= keep:
        return record
    return record._replace(key=_beginning(record.key, keep), value=_beginning(record.value, keep))


def _beginning(raw: bytes | None, keep: int) -> bytes | None:
    return raw if raw is None or len(raw) <= keep else TruncatedBytes.of(raw, keep)
