"""Loads for end-to-end latency: a paced producer, and a consumer that compares each record's stamp with now.

The clock is the machine's monotonic one, which both processes share. The first part of the records warms up
and is not counted.
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.peers.load import Figures, Go, Options

STAMP_BYTES = 20
TICK_S = 0.001
WARM_PART = 0.25
SHARES = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999, "worst_ms": 1.0}


def send(options: Options, go: Go) -> Figures:
    """Send `rate` records a second until `records` are sent, in ticks of a millisecond."""
    filling = b"x" * (options["record_bytes"] - STAMP_BYTES)
    topic, rate, records = options["topic"], options["rate"], options["records"]
    partitions = options["partitions"]
    producer = Producer(
        {
            "bootstrap.servers": options["address"],
            "acks": options["acks"],
            "linger.ms": 1,
            "socket.nagle.disable": True,
            "delivery.report.only.error": True,
        }
    )
    producer.list_topics(topic, timeout=30)
    go()
    began, sent, late_s = time.perf_counter(), 0, 0.0
    while sent < records:
        passed = time.perf_counter() - began
        due = min(records, int(passed * rate) + 1)
        late_s = max(late_s, passed - sent / rate)
        stamp = b"%020d" % time.perf_counter_ns() + filling
        for number in range(sent, due):
            producer.produce(topic, stamp, partition=number % partitions)
        sent = due
        producer.poll(0)
        time.sleep(TICK_S)
    if producer.flush(60):
        raise RuntimeError("some records were not sent")
    return {"late_ms": round(late_s * 1000, 2)}


def receive(options: Options, go: Go) -> Figures:
    """Read `records` records and return the percentiles of their time under way."""
    consumer = Consumer(
        {
            "bootstrap.servers": options["address"],
            "group.id": "latency",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 500,
            "socket.nagle.disable": True,
        }
    )
    consumer.assign([TopicPartition(options["topic"], index, 0) for index in range(options["partitions"])])
    consumer.poll(0.5)
    taken: list[int] = []
    add, clock, poll, records = taken.append, time.perf_counter_ns, consumer.poll, options["records"]
    go()
    while len(taken) < records:
        message = poll(30)
        if message is None or message.error():
            raise RuntimeError(f"only {len(taken)} records came: {message and message.error()}")
        add(clock() - int((message.value() or b"")[:STAMP_BYTES]))
    ordered = sorted(taken[int(records * WARM_PART) :])
    last = len(ordered) - 1
    return {name: round(ordered[min(last, int(last * part))] / 1e6, 3) for name, part in SHARES.items()}
