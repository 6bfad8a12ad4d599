"""ottla, with asyncio on uvloop."""

from __future__ import annotations

import time
from typing import Any

import uvloop

from benchmarks.libraries import BATCH_BYTES, FETCH_BYTES, LINGER_MS, Job
from ottla.client import AsyncConsumer, AsyncProducer, TopicPartition

CHUNK = 10_000


def produce(job: Job) -> None:
    uvloop.run(_produce(job))


async def _produce(job: Job) -> None:
    value, topic = job.value, job.topic
    async with AsyncProducer(job.address, linger_ms=LINGER_MS, batch_size=BATCH_BYTES) as producer:
        await producer.send_and_wait(topic, value)
        job.meter.start()
        for _ in range(job.records):
            await producer.send(topic, value)
        await producer.flush()
        job.meter.stop()


def _consumer(job: Job) -> AsyncConsumer:
    return AsyncConsumer(job.address, auto_offset_reset="earliest", max_partition_fetch_bytes=FETCH_BYTES)


def consume(job: Job) -> int:
    async def run() -> int:
        async with _consumer(job) as consumer:
            await consumer.partitions_for_topic(job.topic)
            seen = size = 0
            job.meter.start()
            consumer.assign([TopicPartition(job.topic, 0)])
            while seen < job.records:
                for records in (await consumer.getmany(timeout_ms=1000, max_records=CHUNK)).values():
                    seen += len(records)
                    for record in records:
                        size += len(record.value)
            job.meter.stop()
            return size

    return uvloop.run(run())


def arrow(job: Job) -> int:
    async def run() -> int:
        async with _consumer(job) as consumer:
            await consumer.partitions_for_topic(job.topic)
            seen = 0
            job.meter.start()
            consumer.assign([TopicPartition(job.topic, 0)])
            while seen < job.records:
                table: Any = await consumer.poll_arrow(timeout_ms=1000)
                seen += table.num_rows
            job.meter.stop()
            return seen

    return uvloop.run(run())


def latency(job: Job) -> list[float]:
    return uvloop.run(_latency(job))


async def _latency(job: Job) -> list[float]:
    value, topic = job.value, job.topic
    times = []
    async with AsyncProducer(job.address, linger_ms=0) as producer, _consumer(job) as consumer:
        await producer.send_and_wait(topic, value)
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.getone(timeout_ms=10_000)
        job.meter.start()
        for _ in range(job.records):
            began = time.perf_counter()
            await producer.send(topic, value)
            await consumer.getone(timeout_ms=10_000)
            times.append(time.perf_counter() - began)
        job.meter.stop()
    return times
