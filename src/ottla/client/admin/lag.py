"""The lag of groups, in records and in seconds, from standard requests only.

Kafka has no request for the age of a record. So the one record that a group reads next is fetched, or
rather its batch: a Fetch of one byte answers with one whole batch. Groups that are caught up cost nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, raise_for
from ottla.client.offsets import offset_ranges
from ottla.common.ids import TopicPartition
from ottla.common.lag import CAUGHT_UP, Lag, first_unread, lag
from ottla.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    KafkaError,
    LeaderNotAvailable,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ottla.protocol.fetch_client import FetchPartitionRequest, FetchSettings, Topic
from ottla.protocol.records.batch import iter_batches
from ottla.protocol.records.records import iter_record_heads
from ottla.wire.calls import fetch

FETCHES_AT_ONCE = 16
ONE_BATCH = FetchSettings(max_wait_ms=0, min_bytes=0, max_bytes=32 * 1024 * 1024, isolation_level=0)
FETCH_TIMEOUT_MS = 10_000
MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024


class Measured(NamedTuple):
    """Where a partition starts and ends, and how far a group is behind in it; None if it never committed."""

    start_offset: int
    end_offset: int
    lag: Lag | None


async def measure(
    cluster: Cluster, committed: Mapping[TopicPartition, int | None], now_ms: int
) -> dict[TopicPartition, Measured]:
    """Return how far behind the committed offsets are, of partitions that exist and have a leader now."""
    ranges = await offset_ranges(cluster, await with_leader(cluster, committed))
    unread: dict[TopicPartition, int] = {}
    for partition, (start, end) in ranges.items():
        offset = committed[partition]
        first = None if offset is None else first_unread(offset, start, end)
        if first is not None:
            unread[partition] = first
    times = await record_times(cluster, unread, {each: end for each, (_, end) in ranges.items()})
    found = {}
    for partition, (start, end) in ranges.items():
        offset = committed[partition]
        behind = None if offset is None else CAUGHT_UP
        if offset is not None and partition in unread:
            behind = lag(offset, end, times[partition], now_ms)
        found[partition] = Measured(start, end, behind)
    return found


async def with_leader(cluster: Cluster, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return those that exist, have a leader now, and may be described."""
    found = []
    for partition in partitions:
        try:
            await cluster.leader(partition)
        except (UnknownTopicOrPartition, LeaderNotAvailable, TopicAuthorizationFailed):
            continue
        found.append(partition)
    return found


async def record_times(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | None]:
    """Return the timestamp of the first record at or after each offset; None where it cannot be read."""
    turns = asyncio.Semaphore(FETCHES_AT_ONCE)

    async def one(partition: TopicPartition, offset: int) -> int | None:
        async with turns:
            try:
                return await cluster.retrying(
                    lambda: _record_time(cluster, partition, offset, ends[partition])
                )
            except (KafkaError, ClientError):
                return None  # deleted a moment ago, or unreadable: its age is not worth failing for

    found = await asyncio.gather(*(one(partition, offset) for partition, offset in offsets.items()))
    return dict(zip(offsets, found, strict=True))


async def _record_time(cluster: Cluster, partition: TopicPartition, offset: int, end: int) -> int | None:
    topic = await cluster.topic(partition.topic)
    connection = await cluster.broker(await cluster.leader(partition))
    key = Topic(partition.topic, topic.topic_id)
    position = offset
    while position < end:
        wanted = {key: {partition.partition: FetchPartitionRequest(position, -1, max_bytes=1)}}
        reply = await fetch(connection, ONE_BATCH, wanted, timeout_ms=FETCH_TIMEOUT_MS)
        raise_for(reply.error_code, "fetch")
        ((_, _, (answer,)),) = reply.topics
        if answer.error_code:
            cluster.forget(partition.topic)
        raise_for(answer.error_code, str(partition))
        before = position
        for header, batch in iter_batches(answer.records):
            try:
                for record in iter_record_heads(batch, MAX_DECOMPRESSED_BYTES):
                    if record.offset >= offset:
                        return record.timestamp
            except (CorruptMessage, InvalidRecord):
                return header.max_timestamp
            position = max(position, header.next_offset)  # compaction left no record of interest here
        if position == before:
            return None
    return None
