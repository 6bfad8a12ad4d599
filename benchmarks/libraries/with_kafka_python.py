"""kafka-python."""

from __future__ import annotations

import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from benchmarks.libraries import BATCH_BYTES, FETCH_BYTES, LINGER_MS, Job, table_of

CHUNK = 10_000


def _producer(job: Job, linger_ms: int) -> KafkaProducer:
    producer = KafkaProducer(
        bootstrap_servers=job.address,
        enable_idempotence=True,
        linger_ms=linger_ms,
        batch_size=BATCH_BYTES,
        max_block_ms=120_000,
    )
    producer.send(job.topic, job.value).get(30)
    return producer


def produce(job: Job) -> None:
    value, topic = job.value, job.topic
    producer = _producer(job, LINGER_MS)
    job.meter.start()
    for _ in range(job.records):
        producer.send(topic, value)
    producer.flush()
    job.meter.stop()
    producer.close()


def _consumer(job: Job) -> KafkaConsumer:
    consumer = KafkaConsumer(
        bootstrap_servers=job.address,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=FETCH_BYTES,
        enable_auto_commit=False,
    )
    consumer.partitions_for_topic(job.topic)
    return consumer


def consume(job: Job) -> int:
    consumer = _consumer(job)
    seen = size = 0
    job.meter.start()
    consumer.assign([TopicPartition(job.topic, 0)])
    while seen < job.records:
        for records in consumer.poll(timeout_ms=1000, max_records=CHUNK).values():
            seen += len(records)
            for record in records:
                size += len(record.value)
    job.meter.stop()
    consumer.close()
    return size


def arrow(job: Job) -> int:
    consumer = _consumer(job)
    seen = 0
    job.meter.start()
    consumer.assign([TopicPartition(job.topic, 0)])
    while seen < job.records:
        for records in consumer.poll(timeout_ms=1000, max_records=CHUNK).values():
            rows = [(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value) for r in records]
            seen += table_of(rows).num_rows
    job.meter.stop()
    consumer.close()
    return seen


def latency(job: Job) -> list[float]:
    value, topic = job.value, job.topic
    times = []
    producer, consumer = _producer(job, 0), _consumer(job)
    consumer.assign([TopicPartition(topic, 0)])
    while not consumer.poll(timeout_ms=10_000):
        pass
    job.meter.start()
    for _ in range(job.records):
        began = time.perf_counter()
        producer.send(topic, value)
        while not consumer.poll(timeout_ms=10_000):
            pass
        times.append(time.perf_counter() - began)
    job.meter.stop()
    producer.close()
    consumer.close()
    return times
