"""confluent-kafka: the Python API of librdkafka."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.libraries import BATCH_BYTES, FETCH_BYTES, LINGER_MS, Job, table_of

CHUNK = 10_000


def _producer(job: Job, linger_ms: int) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": job.address,
            "enable.idempotence": True,
            "linger.ms": linger_ms,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 32_768,
        }
    )
    producer.list_topics(job.topic, timeout=30)
    producer.produce(job.topic, job.value)
    producer.flush(30)
    return producer


def produce(job: Job) -> None:
    value, topic = job.value, job.topic
    producer = _producer(job, LINGER_MS)
    job.meter.start()
    send = producer.produce
    for _ in range(job.records):
        while True:
            try:
                send(topic, value)
                break
            except BufferError:  # full: its way of asking to wait
                producer.poll(0.01)
    if producer.flush(120):
        raise RuntimeError("not everything was sent")
    job.meter.stop()


def _consumer(job: Job) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": job.address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": FETCH_BYTES,
            "queued.max.messages.kbytes": 65_536,
            "queued.min.messages": 1_000_000,  # else it pauses for a second when its queue is full
            "fetch.queue.backoff.ms": 1,
            "check.crcs": True,
        }
    )
    consumer.list_topics(job.topic, timeout=30)
    return consumer


def consume(job: Job) -> int:
    consumer = _consumer(job)
    seen = size = 0
    job.meter.start()
    consumer.assign([TopicPartition(job.topic, 0, 0)])
    while seen < job.records:
        messages = consumer.consume(CHUNK, timeout=1)
        seen += len(messages)
        for message in messages:
            size += len(message.value())
    job.meter.stop()
    consumer.close()
    return size


def arrow(job: Job) -> int:
    consumer = _consumer(job)
    seen = 0
    job.meter.start()
    consumer.assign([TopicPartition(job.topic, 0, 0)])
    while seen < job.records:
        messages = consumer.consume(CHUNK, timeout=1)
        if messages:
            seen += table_of([_row(each) for each in messages]).num_rows
    job.meter.stop()
    consumer.close()
    return seen


def _row(message: Any) -> tuple[str, int, int, int, bytes | None, bytes | None]:
    return (
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
    )


def latency(job: Job) -> list[float]:
    value, topic = job.value, job.topic
    times = []
    producer, consumer = _producer(job, 0), _consumer(job)
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.poll(10)
    job.meter.start()
    for _ in range(job.records):
        began = time.perf_counter()
        producer.produce(topic, value)
        while consumer.poll(10) is None:
            pass
        times.append(time.perf_counter() - began)
        producer.poll(0)
    job.meter.stop()
    producer.flush(10)
    consumer.close()
    return times
