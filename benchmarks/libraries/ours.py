"""ottla, without asyncio."""

from __future__ import annotations

import time

from benchmarks.libraries import BATCH_BYTES, FETCH_BYTES, LINGER_MS, Job
from ottla.client import Consumer, Producer, TopicPartition

CHUNK = 10_000


def produce(job: Job) -> None:
    value, topic = job.value, job.topic
    with Producer(job.address, linger_ms=LINGER_MS, batch_size=BATCH_BYTES) as producer:
        producer.send(topic, value).result(30)
        job.meter.start()
        for _ in range(job.records):
            producer.send(topic, value)
        producer.flush()
        job.meter.stop()


def _consumer(job: Job) -> Consumer:
    consumer = Consumer(job.address, auto_offset_reset="earliest", max_partition_fetch_bytes=FETCH_BYTES)
    consumer.partitions_for_topic(job.topic)
    return consumer


def consume(job: Job) -> int:
    with _consumer(job) as consumer:
        seen = size = 0
        job.meter.start()
        consumer.assign([TopicPartition(job.topic, 0)])
        while seen < job.records:
            for records in consumer.getmany(timeout_ms=1000, max_records=CHUNK).values():
                seen += len(records)
                for record in records:
                    size += len(record.value)
        job.meter.stop()
        return size


def arrow(job: Job) -> int:
    with _consumer(job) as consumer:
        seen = 0
        job.meter.start()
        consumer.assign([TopicPartition(job.topic, 0)])
        while seen < job.records:
            seen += consumer.poll_arrow(timeout_ms=1000).num_rows
        job.meter.stop()
        return seen


def latency(job: Job) -> list[float]:
    value, topic = job.value, job.topic
    times = []
    with Producer(job.address, linger_ms=0) as producer, _consumer(job) as consumer:
        producer.send(topic, value).result(30)
        consumer.assign([TopicPartition(topic, 0)])
        consumer.getone(timeout_ms=10_000)
        job.meter.start()
        for _ in range(job.records):
            began = time.perf_counter()
            producer.send(topic, value)
            consumer.getone(timeout_ms=10_000)
            times.append(time.perf_counter() - began)
        job.meter.stop()
    return times
