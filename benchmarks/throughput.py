"""Produce and consume through librdkafka: records per second, with the broker CPU beside them."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.measure import Cost, Meter
from ottla.testing.broker_process import BrokerProcess

CHUNK = 10_000


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    record_bytes: int
    partitions: int
    acks: str
    records: int

    @property
    def topic(self) -> str:
        """The topic of this case, new in every run."""
        return f"bench-{self.record_bytes}-{self.partitions}-{self.acks}"


CASES = [
    Case(record_bytes, partitions, acks, 1_000_000 if record_bytes == 200 else 400_000)
    for record_bytes in (200, 1024)
    for partitions in (1, 12)
    for acks in ("1", "all")
]


def create(broker: BrokerProcess, case: Case) -> None:
    """Create the topic of a case."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    for future in admin.create_topics([NewTopic(case.topic, case.partitions, 1)]).values():
        future.result(30)


def produce(broker: BrokerProcess, case: Case) -> Cost:
    """Send the records of a case and wait for all acks."""
    failed = []
    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "acks": case.acks,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _message: failed.append(error),
        }
    )
    producer.list_topics(case.topic, timeout=30)
    chunk = [{"value": b"x" * case.record_bytes}] * CHUNK
    meter = Meter(broker).start()
    for number in range(case.records // CHUNK):
        # One partition after another, so that batches fill as they do with a sticky partitioner.
        producer.produce_batch(case.topic, chunk, partition=number % case.partitions)
        producer.poll(0)
    left = producer.flush(120)
    cost = meter.stop()
    if left or failed:
        raise RuntimeError(f"{case}: {left} records were not sent, {len(failed)} failed: {failed[:1]}")
    return cost


def consume(broker: BrokerProcess, case: Case) -> Cost:
    """Read the records of a case from the beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 10_000_000,
            "queued.max.messages.kbytes": 1_000_000,
            "queued.min.messages": 5_000_000,  # else the client pauses for a second when its queue is full
            "check.crcs": False,
        }
    )
    meter = Meter(broker).start()
    consumer.assign([TopicPartition(case.topic, index, 0) for index in range(case.partitions)])
    seen = 0
    while seen < case.records:
        messages = consumer.consume(CHUNK, timeout=30)
        if not messages:
            raise RuntimeError(f"{case}: only {seen} records came")
        seen += len(messages)
    cost = meter.stop()
    consumer.close()
    return cost
