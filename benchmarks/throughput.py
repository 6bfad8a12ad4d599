"""Produce and consume through librdkafka: records per second, with the broker CPU beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.measure import Cost, Meter
from benchmarks.payloads import values
from ottla.testing.broker_process import BrokerProcess

CHUNK, LEAST_CHUNK = 10_000, 100
MAX_QUEUED = 1_000_000
"""In the producer: what its queue does not hold, `produce_batch` drops."""


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    record_bytes: int
    partitions: int
    acks: str
    records: int
    compression: str = "none"
    batch_bytes: int = 1_000_000
    name: str = ""
    """Of the topic, if it is not to be a new one for every case."""

    @property
    def topic(self) -> str:
        """The topic of this case, new in every run."""
        return self.name or f"bench-{self.record_bytes}-{self.partitions}-{self.acks}-{self.compression}"


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
    sender = Sender(broker.address, case)
    meter = Meter(broker).start()
    sender.send()
    return meter.stop()


def consume(broker: BrokerProcess, case: Case) -> Cost:
    """Read the records of a case from the beginning."""
    consumer = open_consumer(broker.address)
    meter = Meter(broker).start()
    read(consumer, case, range(case.partitions), case.records)
    cost = meter.stop()
    consumer.close()
    return cost


class Sender:
    """A producer that is connected, with the records of a case ready to be sent."""

    def __init__(self, address: str, case: Case) -> None:
        self._case = case
        self._failed: list[object] = []
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "acks": case.acks,
                "compression.type": case.compression,
                "linger.ms": 20,
                "batch.size": case.batch_bytes,
                "queue.buffering.max.messages": 2_000_000,
                "queue.buffering.max.kbytes": 2_000_000,
                "delivery.report.only.error": True,
                "on_delivery": lambda error, _message: self._failed.append(error),
            }
        )
        self._producer.list_topics(case.topic, timeout=30)
        pool = values(case.record_bytes)
        # Every partition gets some, however many there are.
        size = max(LEAST_CHUNK, min(CHUNK, case.records // (2 * case.partitions)))
        self._chunk = [{"value": pool[index % len(pool)]} for index in range(size)]

    def send(self) -> None:
        """Send all and wait for all acks."""
        case, left = self._case, self._case.records
        size = len(self._chunk)
        for number in range(-(-left // size)):
            # One partition after another, so that batches fill as they do with a sticky partitioner.
            self._producer.produce_batch(case.topic, self._chunk[:left], partition=number % case.partitions)
            self._producer.poll(0)
            while len(self._producer) > MAX_QUEUED:
                self._producer.poll(0.01)
            left -= size
        unsent = self._producer.flush(120)
        if unsent or self._failed:
            failed = f"{len(self._failed)} failed: {self._failed[:1]}"
            raise RuntimeError(f"{case}: {unsent} records were not sent, {failed}")


def open_consumer(address: str) -> Consumer:
    """Return a consumer that is not the limit: big fetches, a long queue."""
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 10_000_000,
            "queued.max.messages.kbytes": 1_000_000,
            "queued.min.messages": 5_000_000,  # else the client pauses for a second when its queue is full
            "check.crcs": False,
        }
    )


def read(consumer: Consumer, case: Case, partitions: Iterable[int], records: int) -> None:
    """Read so many records of some partitions from their beginning."""
    consumer.assign([TopicPartition(case.topic, index, 0) for index in partitions])
    seen = 0
    while seen < records:
        messages = consumer.consume(min(CHUNK, records - seen), timeout=30)
        if not messages:
            raise RuntimeError(f"{case}: only {seen} records came")
        seen += len(messages)
