"""The measurement of `ottla bench`: all in, all out, then one by one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ottla.cli.progress import progress
from ottla.cli.session import settings_for
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.cluster import Cluster
from ottla.client.consumer import AsyncConsumer, ConsumerOptions
from ottla.client.errors import TimedOut
from ottla.client.producer import AsyncProducer, ProducerOptions
from ottla.common.ids import TopicPartition, new_uuid

SINGLE_RECORDS = 200
SHOWN_EVERY = 2_000
PATIENCE_MS = 30_000


@dataclass(frozen=True, slots=True)
class Load:
    """What to send."""

    records: int
    size: int
    partitions: int
    acks: str
    compression: str


@dataclass(slots=True)
class Pace:
    """How long something took, and how much of it this process was computing."""

    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def busy(self) -> float:
        """The part of one core that this process used; 1.0 means that it, not the broker, was the limit."""
        return self.cpu_seconds / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class Report:
    """What was measured."""

    load: Load
    produced: Pace = field(default_factory=Pace)
    consumed: Pace = field(default_factory=Pace)
    acknowledged_ms: list[float] = field(default_factory=list)
    """The time from sending one record alone to its acknowledgement, sorted."""


async def measure(cluster: Cluster, load: Load) -> Report:
    """Measure in a topic of its own, which is deleted whatever happens."""
    admin = TopicAdmin(cluster)
    topic = f"ottla-bench-{new_uuid().hex[:8]}"
    report = Report(load)
    await admin.create_topic(topic, partitions=load.partitions)
    try:
        await _produce(cluster, topic, report)
        await _consume(cluster, topic, report)
        await _one_by_one(cluster, topic, report)
    finally:
        await admin.delete_topic(topic)
    return report


@contextmanager
def _timed(pace: Pace) -> Iterator[None]:
    began, cpu = time.monotonic(), time.process_time()
    yield
    pace.seconds, pace.cpu_seconds = time.monotonic() - began, time.process_time() - cpu


async def _produce(cluster: Cluster, topic: str, report: Report) -> None:
    load, pace = report.load, report.produced
    options = settings_for(ProducerOptions, acks=load.acks, compression_type=load.compression)
    value = _value(load.size)
    with progress("producing", load.records) as shown:
        async with AsyncProducer.on(cluster, options) as producer:
            await producer.send_and_wait(topic, b"to be connected before the clock runs")
            with _timed(pace):
                for number in range(load.records):
                    await producer.send(topic, value)
                    if number % SHOWN_EVERY == 0:
                        shown(number)
                await producer.flush()
    pace.records, pace.bytes = load.records, load.records * load.size


async def _consume(cluster: Cluster, topic: str, report: Report) -> None:
    load, pace = report.load, report.consumed
    options = settings_for(ConsumerOptions, auto_offset_reset="earliest", max_partition_fetch_bytes=4 << 20)
    with progress("consuming", load.records) as shown:
        async with AsyncConsumer.on(cluster, options) as consumer:
            partitions = [TopicPartition(topic, index) for index in range(load.partitions)]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            with _timed(pace):
                while pace.records <= load.records:  # the first record was none of those
                    fetched = await consumer.getmany(timeout_ms=PATIENCE_MS)
                    if not fetched:
                        raise TimedOut(f"no more records came within {PATIENCE_MS // 1000} s")
                    for some in fetched.values():
                        pace.records += len(some)
                    shown(pace.records)
    pace.records, pace.bytes = load.records, load.records * load.size


async def _one_by_one(cluster: Cluster, topic: str, report: Report) -> None:
    options = settings_for(ProducerOptions, acks=report.load.acks, linger_ms=0)
    value = _value(report.load.size)
    async with AsyncProducer.on(cluster, options) as producer:
        await producer.send_and_wait(topic, value)
        for _ in range(SINGLE_RECORDS):
            began = time.monotonic()
            await producer.send_and_wait(topic, value)
            report.acknowledged_ms.append((time.monotonic() - began) * 1000)
    report.acknowledged_ms.sort()


def _value(size: int) -> bytes:
    """Return text that compresses about as well as JSON does."""
    text = b"".join(
        b'{"number":%d,"name":"item-%d"}' % (each, each * 7919 % 1000) for each in range(size // 20 + 1)
    )
    return text[:size]
