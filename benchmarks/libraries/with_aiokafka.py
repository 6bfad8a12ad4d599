"""aiokafka, on uvloop."""

from __future__ import annotations

import time

import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks.libraries import BATCH_BYTES, FETCH_BYTES, LINGER_MS, Job, table_of

CHUNK = 10_000


def produce(job: Job) -> None:
    async def run() -> None:
        value, topic = job.value, job.topic
        async with AIOKafkaProducer(
            bootstrap_servers=job.address,
            enable_idempotence=True,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
        ) as producer:
            await producer.send_and_wait(topic, value)
            job.meter.start()
            for _ in range(job.records):
                await producer.send(topic, value)
            await producer.flush()
            job.meter.stop()

    uvloop.run(run())


def _consumer(job: Job) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        bootstrap_servers=job.address,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=FETCH_BYTES,
        enable_auto_commit=False,
    )


def consume(job: Job) -> int:
    async def run() -> int:
        async with _consumer(job) as consumer:
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
            seen = 0
            job.meter.start()
            consumer.assign([TopicPartition(job.topic, 0)])
            while seen < job.records:
                for records in (await consumer.getmany(timeout_ms=1000, max_records=CHUNK)).values():
                    rows = [(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value) for r in records]
                    seen += table_of(rows).num_rows
            job.meter.stop()
            return seen

    return uvloop.run(run())


def latency(job: Job) -> list[float]:
    return uvloop.run(_latency(job))


async def _latency(job: Job) -> list[float]:
    value, topic = job.value, job.topic
    times = []
    async with (
        AIOKafkaProducer(bootstrap_servers=job.address, enable_idempotence=True, linger_ms=0) as producer,
        _consumer(job) as consumer,
    ):
        await producer.send_and_wait(topic, value)
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.getone()
        job.meter.start()
        for _ in range(job.records):
            began = time.perf_counter()
            await producer.send(topic, value)
            await consumer.getone()
            times.append(time.perf_counter() - began)
        job.meter.stop()
    return times
