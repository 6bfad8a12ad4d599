"""Send a record to a broker and back, and compare the clocks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from ottla.cli.checks.findings import FAILED, OK, SKIPPED, WARNING, Finding
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.client_options import ClientOptions
from ottla.client.cluster import Cluster
from ottla.client.consumer import AsyncConsumer, ConsumerOptions
from ottla.client.errors import ClientError
from ottla.client.offsets import list_offsets
from ottla.client.producer import AsyncProducer, ProducerOptions
from ottla.common.ids import TopicPartition, new_uuid
from ottla.protocol.errors import KafkaError

SKEW_MS = 1_000
MAX_AHEAD_MS = 60_000
MAX_PARTITIONS_CHECKED = 50
MAX_TIMESTAMP = -3
TIMEOUT_S = 20.0


async def check_clock(options: ClientOptions) -> Finding:
    """Compare this clock with the newest records: none should be from the future. Read-only."""
    try:
        async with asyncio.timeout(TIMEOUT_S), Cluster(options=options) as cluster:
            newest = await _newest_timestamp(cluster)
    except (ClientError, KafkaError, TimeoutError) as error:
        return Finding("clock", SKIPPED, f"cannot be compared: {error}")
    if newest is None:
        return Finding("clock", SKIPPED, "no records to compare with", "measure it: ottla doctor --write")
    ahead_ms = newest - time.time() * 1000
    if ahead_ms > MAX_AHEAD_MS:
        what = f"the newest record is {ahead_ms / 1000:,.0f} s ahead of this clock"
        return Finding("clock", WARNING, what, "synchronise the clocks of this machine and of the producers")
    return Finding(
        "clock", OK, "no record is from the future", "for an exact measurement: ottla doctor --write"
    )


async def _newest_timestamp(cluster: Cluster) -> int | None:
    topics = await cluster.refresh(None)
    partitions = [
        TopicPartition(name, index)
        for name, topic in topics.items()
        if not topic.is_internal
        for index, each in topic.partitions.items()
        if each.leader >= 0
    ]
    some = partitions[:MAX_PARTITIONS_CHECKED]
    found = await list_offsets(cluster, dict.fromkeys(some, MAX_TIMESTAMP)) if some else {}
    return max((each.timestamp for each in found.values() if each.timestamp >= 0), default=None)


async def check_record(options: ClientOptions) -> AsyncIterator[Finding]:
    """Produce a record to a temporary topic, consume it, compare the clocks, delete the topic."""
    name = f"ottla-doctor-{new_uuid().hex[:8]}"
    try:
        async with asyncio.timeout(TIMEOUT_S), Cluster(options=options) as cluster:
            admin = TopicAdmin(cluster)
            await admin.create_topic(name, partitions=1, configs={"message.timestamp.type": "LogAppendTime"})
            try:
                async for found in _round_trip(cluster, name):
                    yield found
            finally:
                await admin.delete_topic(name)
    except (ClientError, KafkaError, TimeoutError) as error:
        what = str(error) or f"no round trip within {TIMEOUT_S:g} s"
        yield Finding("record", FAILED, what, "see: ottla cluster health")


async def _round_trip(cluster: Cluster, name: str) -> AsyncIterator[Finding]:
    partition = TopicPartition(name, 0)
    async with AsyncProducer.on(cluster, ProducerOptions(max_block_ms=10_000)) as producer:
        await producer.send_and_wait(name, b"warm-up, so that all connections are open")
        sent = time.time() * 1000
        began = time.monotonic()
        stored = await producer.send_and_wait(name, b"second")
        write_ms = (time.monotonic() - began) * 1000
    async with AsyncConsumer.on(cluster, ConsumerOptions(auto_offset_reset="earliest")) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, stored.offset)
        began = time.monotonic()
        record = await consumer.getone(partition, timeout_ms=10_000)
        read_ms = (time.monotonic() - began) * 1000
    yield Finding("record", OK, f"produced in {write_ms:,.1f} ms, consumed in {read_ms:,.1f} ms")
    skew_ms = record.timestamp - (sent + write_ms / 2)
    margin_ms = write_ms / 2 + 1
    what = (
        f"the broker is {abs(skew_ms):,.0f} ms {'ahead' if skew_ms > 0 else 'behind'}, ±{margin_ms:,.0f} ms"
    )
    if abs(skew_ms) > SKEW_MS + margin_ms:
        yield Finding("clock", FAILED, what, "synchronise both clocks: chronyc tracking, timedatectl")
    else:
        yield Finding("clock", OK, what)
