"""One Fetch request: offsets out, batches back.

Brokers since Kafka 3.1 (Fetch v13) are asked by topic id, so that a topic which was deleted and
created again is noticed instead of being read on as if it were the same; older ones by name.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from kio.schema.fetch import v12, v17
from kio.schema.fetch.v12 import request as named
from kio.schema.fetch.v17 import request as identified

from ottla.client.connection import Connection, milliseconds
from ottla.client.errors import raise_for
from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.types import TopicName, i32, i64

FIRST_VERSION_WITH_TOPIC_IDS = 13
GRACE_MS = 10_000


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much to fetch, and how long the broker may wait for more."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 32 * 1024 * 1024
    partition_max_bytes: int = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Position:
    """Where to read a partition from, in the eyes of which leader."""

    offset: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """What came back for one partition."""

    partition: TopicPartition
    error_code: int
    high_watermark: int
    records: bytes


async def fetch(
    connection: Connection,
    wanted: Mapping[TopicPartition, Position],
    topic_ids: Mapping[str, uuid.UUID | None],
    limits: FetchLimits,
) -> list[FetchedPartition]:
    """Ask one broker for records of partitions that it leads."""
    grouped: dict[str, list[tuple[int, Position]]] = defaultdict(list)
    for partition, position in wanted.items():
        grouped[partition.topic].append((partition.partition, position))
    by_id = connection.version_of(ApiKey.FETCH, v17.FetchRequest.__version__) >= FIRST_VERSION_WITH_TOPIC_IDS
    if by_id and all(topic_ids.get(name) for name in grouped):
        return await _fetch_by_id(connection, grouped, topic_ids, limits)
    return await _fetch_by_name(connection, grouped, limits)


async def _fetch_by_id(
    connection: Connection,
    grouped: Mapping[str, list[tuple[int, Position]]],
    topic_ids: Mapping[str, uuid.UUID | None],
    limits: FetchLimits,
) -> list[FetchedPartition]:
    request = v17.FetchRequest(
        max_wait=milliseconds(limits.max_wait_ms),
        min_bytes=i32(limits.min_bytes),
        max_bytes=i32(limits.max_bytes),
        topics=tuple(
            identified.FetchTopic(
                topic_id=topic_ids[name],
                partitions=tuple(
                    identified.FetchPartition(
                        partition=i32(index),
                        current_leader_epoch=i32(position.leader_epoch),
                        fetch_offset=i64(position.offset),
                        partition_max_bytes=i32(limits.partition_max_bytes),
                    )
                    for index, position in partitions
                ),
            )
            for name, partitions in grouped.items()
        ),
        forgotten_topics_data=(),
    )
    response = await connection.request(request, v17.FetchResponse, timeout_ms=limits.max_wait_ms + GRACE_MS)
    raise_for(response.error_code, "fetch")
    names = {topic_ids[name]: name for name in grouped}
    return [
        FetchedPartition(
            TopicPartition(names[topic.topic_id], each.partition_index),
            each.error_code,
            each.high_watermark,
            each.records or b"",
        )
        for topic in response.responses
        if topic.topic_id in names
        for each in topic.partitions
    ]


async def _fetch_by_name(
    connection: Connection, grouped: Mapping[str, list[tuple[int, Position]]], limits: FetchLimits
) -> list[FetchedPartition]:
    request = v12.FetchRequest(
        max_wait=milliseconds(limits.max_wait_ms),
        min_bytes=i32(limits.min_bytes),
        max_bytes=i32(limits.max_bytes),
        topics=tuple(
            named.FetchTopic(
                topic=TopicName(name),
                partitions=tuple(
                    named.FetchPartition(
                        partition=i32(index),
                        current_leader_epoch=i32(position.leader_epoch),
                        fetch_offset=i64(position.offset),
                        partition_max_bytes=i32(limits.partition_max_bytes),
                    )
                    for index, position in partitions
                ),
            )
            for name, partitions in grouped.items()
        ),
        forgotten_topics_data=(),
    )
    response = await connection.request(request, v12.FetchResponse, timeout_ms=limits.max_wait_ms + GRACE_MS)
    raise_for(response.error_code, "fetch")
    return [
        FetchedPartition(
            TopicPartition(topic.topic, each.partition_index),
            each.error_code,
            each.high_watermark,
            each.records or b"",
        )
        for topic in response.responses
        for each in topic.partitions
    ]
