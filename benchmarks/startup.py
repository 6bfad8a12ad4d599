"""How long a broker takes to be ready, and how much memory it holds."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.peers.ottla import BYTECODE
from ottla.testing.broker_process import BrokerProcess

PARTITIONS = 2_000


def empty(data: Path) -> tuple[float, int]:
    """Return the seconds to start an empty broker, and its resident bytes when idle."""
    broker = BrokerProcess(data, environment=BYTECODE)
    began = time.perf_counter()
    broker.start()
    took = time.perf_counter() - began
    rss = broker.rss_bytes()
    broker.stop()
    return took, rss


def with_partitions(data: Path) -> tuple[float, float, int, int]:
    """Return seconds of a clean start and of one after kill -9, resident bytes and descriptors."""
    broker = BrokerProcess(data, environment=BYTECODE).start()
    admin = AdminClient({"bootstrap.servers": broker.address})
    topics = [NewTopic(f"many-{number}", 100, 1) for number in range(PARTITIONS // 100)]
    for future in admin.create_topics(topics, operation_timeout=60, request_timeout=90).values():
        future.result(90)
    producer = Producer({"bootstrap.servers": broker.address, "queue.buffering.max.messages": 1_000_000})
    for topic in topics:
        for index in range(100):
            for _ in range(10):
                producer.produce(topic.topic, b"x" * 200, partition=index)
    if producer.flush(120):
        raise RuntimeError("the 2,000 partitions could not be filled")
    broker.stop()
    clean = _start_seconds(broker)
    rss, descriptors = broker.rss_bytes(), broker.descriptors()
    broker.kill()
    unclean = _start_seconds(broker)
    broker.stop()
    return clean, unclean, rss, descriptors


def _start_seconds(broker: BrokerProcess) -> float:
    began = time.perf_counter()
    broker.start(ready_within_s=120)
    return time.perf_counter() - began
